package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/station"
)

// cell is the station that makes the parts.
const cell isa95.Scope = "cell-11"

//go:embed cell
var cellFiles embed.FS

// plant is what workflows and machine run on: a store, a broker and Takt, in a process that is `takt dev`; the simulated cell, in this one; a worker, in another.
type plant struct {
	settings
	diary  diary
	ctx    context.Context         // ends with the plant
	fail   context.CancelCauseFunc // ends it
	takt   *process                // nil = none
	worker *process                // nil = none
	off    func() error            // switches the cell off; nil = it is off
}

// startPlant builds takt, starts everything but a worker, and fills in where store and broker are. Stop it also after an error.
func startPlant(ctx context.Context, s settings) (*plant, error) {
	p := &plant{settings: s}
	p.ctx, p.fail = context.WithCancelCause(ctx)
	if err := p.startTakt(); err != nil {
		return p, err
	}
	return p, p.switchOn()
}

func (p *plant) startTakt() error {
	files, err := fs.Sub(cellFiles, "cell")
	if err != nil {
		return err
	}
	folder, program := filepath.Join(p.data, "cell"), filepath.Join(p.data, "takt")
	if err := errors.Join(os.RemoveAll(folder), os.CopyFS(folder, files), build(p.ctx, program)); err != nil {
		return err
	}
	args := []string{"dev", "--no-station", "--example", folder, "--data", p.data, "--prefix", p.prefix, "--mqtt-listen", "127.0.0.1:0", "--log-level", "error"}
	if p.redis != "" {
		args = append(args, "--redis", p.redis, "--mqtt", p.mqtt)
	}
	if p.inProcess {
		args = append(args, "--in-process")
	}
	takt, err := startProcess(p.data, &p.diary, nil, program, args...)
	if err != nil {
		return err
	}
	p.takt = takt
	go func() {
		<-takt.gone
		p.fail(fmt.Errorf("takt has ended: %q", p.diary.last()))
	}()
	if err := p.diary.await(p.ctx, "Takt is up."); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(p.data, "dev.json"))
	if err != nil {
		return err
	}
	var at struct{ Redis, MQTT string }
	err = json.Unmarshal(text, &at)
	p.redis, p.mqtt = at.Redis, at.MQTT
	return err
}

// build makes takt of the module that this program is made with.
func build(ctx context.Context, program string) error {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/taktworks/takt").Output()
	if err != nil {
		return fmt.Errorf("go list: %w; start this program in its folder", err)
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(dir)), "-o", program, "./cmd/takt").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// switchOn starts the cell. It goes on from its log: what it has done it does not do again.
func (p *plant) switchOn() error {
	equipment, err := station.LoadEquipment(filepath.Join(p.data, "cell", "equipment.yaml"))
	if err != nil {
		return err
	}
	s, err := station.New(station.Options{
		Equipment: equipment, MQTT: mqtt.Options{URL: p.mqtt, ClientID: p.prefix + "-" + string(cell)}, LogFile: filepath.Join(p.data, "cell.jsonl"), Log: quiet,
		OnLog: func(e station.Entry) { fmt.Fprintf(&p.diary, "cell: %s %s %s\n", e.Kind, e.Order, e.Action) },
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(p.ctx))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	p.off = func() error {
		stop()
		p.off = nil
		return <-ended
	}
	return s.Ready(p.ctx)
}

// hire starts a worker, in a process of its own. One that ends by itself is the end of the plant; one that is killed is not.
func (p *plant) hire(env ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w, err := startProcess(p.data, &p.diary, env, self, "--redis", p.redis, "--mqtt", p.mqtt, "--prefix", p.prefix, "--data", p.data, "worker")
	if err != nil {
		return err
	}
	p.worker = w
	go func() {
		<-w.gone
		if w.cmd.ProcessState.ExitCode() > 0 {
			p.fail(fmt.Errorf("the worker has ended: %q", p.diary.last()))
		}
	}()
	return nil
}

// dismiss ends the worker with a signal.
func (p *plant) dismiss(s syscall.Signal) error {
	if p.worker == nil {
		return nil
	}
	w := p.worker
	p.worker = nil
	return w.end(s)
}

// stop ends everything in order: the worker, the cell, takt with its servers.
func (p *plant) stop() error {
	err := p.dismiss(syscall.SIGTERM)
	if p.off != nil {
		err = errors.Join(err, p.off())
	}
	if p.takt != nil {
		err = errors.Join(err, p.takt.end(syscall.SIGTERM))
	}
	p.fail(nil)
	return err
}
