package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/taktworks/takt/internal/bench"
)

//go:embed peer.py
var peerPy string

// python is Debian's, which has TaskFlow (scripts/install-tools).
const python = "/usr/bin/python3"

// newNamespace is that of a board of one run.
func newNamespace() string { return fmt.Sprintf("takt_bench_%08x", rand.Uint32()) }

// taskflow measures TaskFlow once: the same work, with what it offers.
func (p plan) taskflow(ctx context.Context, server *bench.Server) (bench.Figures, error) {
	f := bench.Figures{}
	number := func(i int) int { return i }
	for _, m := range []struct {
		work    string
		workers int
		arg     func(worker int) int
	}{
		{"post", 1, func(int) int { return p.N }},
		{"list", 1, number},
		{"hand", p.Workers, number},
		{"iterate", p.Workers, number},
		{"documented", p.Workers, func(int) int { return int(p.Loop.Seconds()) }},
	} {
		did, took, err := p.work(ctx, server, m.work, m.workers, m.arg)
		if err == nil && m.work != "documented" && did != p.N {
			err = fmt.Errorf("did %d of %d", did, p.N)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.work, err)
		}
		f[m.work+"_per_s"], f[m.work+"_ms"] = float64(did)/took.Seconds(), bench.Milliseconds(took)
	}
	return f, nil
}

// work has so many processes do the work on a board of their own, which is full unless they post.
func (p plan) work(ctx context.Context, server *bench.Server, work string, workers int, arg func(worker int) int) (did int, took time.Duration, err error) {
	namespace := newNamespace()
	defer func() { err = errors.Join(err, clean(ctx, server, namespace)) }()
	if work != "post" {
		if _, _, err := peers(ctx, server.URL, namespace, "post", 1, func(int) int { return p.N }); err != nil {
			return 0, 0, err
		}
	}
	return peers(ctx, server.URL, namespace, work, workers, arg)
}

// peers runs processes of TaskFlow that begin together, and says how much they did in all and how long it took to the last.
func peers(ctx context.Context, server, namespace, work string, n int, arg func(int) int) (did int, took time.Duration, err error) {
	u, err := url.Parse(server)
	if err != nil {
		return 0, 0, errors.New("--redis must be redis://host:port for TaskFlow")
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		return 0, 0, fmt.Errorf("--redis must be redis://host:port for TaskFlow: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	all := make([]*peer, n)
	defer func() {
		cancel()
		for _, p := range all {
			if p != nil {
				_ = p.cmd.Wait()
			}
		}
	}()
	for i := range all {
		if all[i], err = startPeer(ctx, host, port, namespace, work, strconv.Itoa(arg(i))); err != nil {
			return 0, 0, err
		}
	}
	for _, p := range all {
		if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
			return 0, 0, fmt.Errorf("%s says %q: is TaskFlow installed (scripts/install-tools interop)? %w", python, line, err)
		}
	}
	begin := time.Now()
	for _, p := range all {
		if _, err := io.WriteString(p.in, "go\n"); err != nil {
			return 0, 0, err
		}
	}
	for _, p := range all {
		var result struct{ Did int }
		line, err := p.out.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &result)
		}
		if err != nil {
			return 0, 0, err
		}
		did += result.Did
	}
	return did, time.Since(begin), nil
}

// peer is one process.
type peer struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func startPeer(ctx context.Context, args ...string) (*peer, error) {
	cmd := exec.CommandContext(ctx, python, append([]string{"-c", peerPy}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &peer{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

// clean deletes the keys of a namespace.
func clean(ctx context.Context, server *bench.Server, namespace string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return server.Remove(ctx, namespace+":*")
}
