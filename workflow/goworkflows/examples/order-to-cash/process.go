package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// process is a child of this one. It has a process group of its own, so that Ctrl-C reaches us first, and we stop our children in order.
type process struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed at its end
}

// startProcess starts a program in the folder dir. Its environment is ours and env, without the settings of Takt that may be there.
func startProcess(dir string, out io.Writer, env []string, path string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), gone: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	p.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TAKT_") }), env...)
	p.cmd.SysProcAttr = childAttr()
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // what ends the child with us is tied to the thread that started it
		defer close(p.gone)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // ProcessState has it
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// end sends a signal and waits for the end of the process.
func (p *process) end(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("process %d: %w", p.cmd.Process.Pid, err)
	}
	<-p.gone
	return nil
}
