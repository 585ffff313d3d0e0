package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
)

// busy runs a program while another one keeps every processor busy.
func busy(args []string) error {
	if len(args) == 0 {
		return errors.New("say what to run: verify busy -- make test")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	other := exec.Command(self, "burn")
	other.Stderr = os.Stderr
	leash, err := other.StdinPipe()
	if err != nil {
		return err
	}
	if err := other.Start(); err != nil {
		return err
	}
	fmt.Printf("process %d keeps %d processors busy\n", other.Process.Pid, runtime.NumCPU())
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	return errors.Join(err, leash.Close(), other.Wait())
}

// burn keeps every processor busy until in ends, which it does with the process that holds its other end.
func burn(in io.Reader) error {
	var over atomic.Bool
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			for !over.Load() {
			}
		})
	}
	_, err := io.Copy(io.Discard, in)
	over.Store(true)
	all.Wait()
	return err
}
