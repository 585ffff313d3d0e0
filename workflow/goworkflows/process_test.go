package goworkflows_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/worker"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow/goworkflows"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(workerRole); text != "" {
		if err := beWorker(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// workerRole is the environment variable that makes this test binary a worker in a process of its own: a workerConfig as JSON.
const workerRole = "TAKT_TEST_WORKFLOW_WORKER"

type workerConfig struct {
	URL    string // of Redis, or of what stands before it
	Prefix string
	Name   string // of the worker; "" = made up
	Lease  time.Duration
}

// beWorker runs such a worker until SIGTERM.
func beWorker(text string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var c workerConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	b, err := goworkflows.Open(ctx, fmt.Sprintf("%s?prefix=%s&lease=%s", c.URL, c.Prefix, c.Lease), quiet, backend.WithWorkerName(c.Name))
	if err != nil {
		return err
	}
	books, err := openBooks(ctx, c.URL, c.Prefix)
	if err != nil {
		return err
	}
	o := worker.DefaultOptions
	o.WorkflowHeartbeatInterval, o.ActivityHeartbeatInterval = c.Lease/5, c.Lease/5
	w := goworkflows.NewWorker(b, &o)
	err = errors.Join(w.RegisterWorkflow(sale), w.RegisterWorkflow(pack), w.RegisterActivity(books), w.RegisterActivity(flaky), w.RegisterActivity(double), w.RegisterActivity(hopeless))
	if err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	fmt.Println("up")
	<-ctx.Done()
	return errors.Join(w.WaitForCompletion(), b.Close())
}

// process is a worker that a test started. It ends with the test, or with the process of the test.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	said bytes.Buffer // on standard error
	gone chan struct{}
}

// startWorker starts one and waits until it works.
func startWorker(t testing.TB, c workerConfig) *process {
	t.Helper()
	self, err := os.Executable()
	testenv.Must(t, err)
	text, err := json.Marshal(c)
	testenv.Must(t, err)
	p := &process{t: t, cmd: exec.Command(self), gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), workerRole+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	testenv.Must(t, err)
	started, up := make(chan error, 1), make(chan string, 1)
	go func() {
		runtime.LockOSThread() // which the signal at our death is tied to
		defer runtime.UnlockOSThread()
		defer close(p.gone)
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		line, _ := bufio.NewReader(out).ReadString('\n')
		up <- line
		_ = p.cmd.Wait() // ProcessState has it
	}()
	testenv.Must(t, <-started)
	t.Cleanup(p.cleanup)
	if line := <-up; line != "up\n" {
		<-p.gone
		t.Fatalf("a worker does not start: %q, %s", line, p.said.String())
	}
	return p
}

func (p *process) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Errorf("process %d: %v: %v", p.cmd.Process.Pid, s, err)
	}
}

// kill ends it as kill -9 does.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.gone
}

// stop asks it to end and wants it to do so well.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	<-p.gone
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("a worker ended with status %d: %s", code, p.said.String())
	}
}

// lives says whether it has not ended.
func (p *process) lives() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

func (p *process) cleanup() {
	if p.lives() {
		p.kill()
	}
	for _, bad := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
		if strings.Contains(p.said.String(), bad) {
			p.t.Errorf("a worker said: %s", p.said.String())
		}
	}
}
