package embedded

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a child may take to end cleanly.
const stopGrace = 10 * time.Second

// child is a server in a process of its own. Its methods are called with the lock of its Server.
type child struct {
	path  string
	args  []string
	ready string // text of the line that says the server listens
	out   io.Writer
	lock  *os.File // held by the child too, so that the directory stays locked until both are gone; may be nil

	proc *process // that runs now, or ran last
}

// process is one run of a child.
type process struct {
	os   *os.Process
	gone chan struct{} // closed when the process has ended and its output is read

	mu   sync.Mutex
	tail []string // last lines of its output, for errors
	err  error
}

func (c *child) start(ctx context.Context) error {
	p := &process{gone: make(chan struct{})}
	ready := make(chan struct{})
	started := make(chan error, 1)
	go c.run(p, ready, started)
	if err := <-started; err != nil {
		return err
	}
	c.proc = p
	if err := p.await(ctx, ready); err != nil {
		return errors.Join(err, c.kill())
	}
	return nil
}

func (p *process) await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-p.gone:
		return p.exitError()
	case <-ctx.Done():
		return fmt.Errorf("did not get ready: %w", ctx.Err())
	}
}

func (p *process) exitError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("ended at once (%w): %s", cmp.Or(p.err, errors.New("exit status 0")), strings.Join(p.tail, " | "))
}

// run starts the process, reads its output and waits for its end. The signal that a child gets when its parent
// dies is tied to the parent's thread, so the thread stays with the child for its whole life.
func (c *child) run(p *process, ready chan<- struct{}, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.gone)
	cmd := exec.Command(c.path, c.args...)
	cmd.SysProcAttr = childAttr()
	if c.lock != nil {
		cmd.ExtraFiles = []*os.File{c.lock}
	}
	r, w, err := os.Pipe()
	if err != nil {
		started <- err
		return
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		started <- err
		return
	}
	p.os = cmd.Process
	started <- nil
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(r, c.ready, ready, cmp.Or(c.out, io.Discard))
	}()
	err = cmd.Wait()
	<-read
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
}

// read forwards the output and closes ready at the line that says so.
func (p *process) read(r io.Reader, mark string, ready chan<- struct{}, out io.Writer) {
	said := false
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		fmt.Fprintln(out, line)
		if !strings.HasPrefix(line, "\tat ") { // the places of a Java error would push out what it says
			p.mu.Lock()
			if p.tail = append(p.tail, line); len(p.tail) > 5 {
				p.tail = p.tail[1:]
			}
			p.mu.Unlock()
		}
		if !said && strings.Contains(line, mark) {
			said = true
			close(ready)
		}
	}
	_, _ = io.Copy(io.Discard, r) // a line too long for the scanner must not block the child
}

func (c *child) pid() int { return c.proc.os.Pid }

func (c *child) done() <-chan struct{} { return c.proc.gone }

func (c *child) stop() error { return c.end(syscall.SIGTERM) }

func (c *child) kill() error { return c.end(syscall.SIGKILL) }

func (c *child) end(sig os.Signal) error {
	p := c.proc
	select {
	case <-p.gone:
		return nil
	default:
	}
	if err := p.os.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %v to process %d: %w", sig, p.os.Pid, err)
	}
	select {
	case <-p.gone:
		return nil
	case <-time.After(stopGrace):
	}
	_ = p.os.Kill()
	<-p.gone
	return nil
}
