package main

import (
	"context"
	"os/exec"
	"syscall"
	"time"
)

// shellCommand runs a line with cmd, which is killed when ctx ends.
func shellCommand(ctx context.Context, line string) *exec.Cmd {
	return exec.CommandContext(ctx, "cmd", "/C", line)
}

// killGroup does nothing: Windows has no process groups that can be killed.
func killGroup(*exec.Cmd) {}

// processorTime is what this process has used so far.
func processorTime() (time.Duration, error) {
	process, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0, err
	}
	var begin, end, kernel, user syscall.Filetime
	err = syscall.GetProcessTimes(process, &begin, &end, &kernel, &user)
	ticks := func(t syscall.Filetime) int64 { return int64(t.HighDateTime)<<32 + int64(t.LowDateTime) } // of 100 ns
	return time.Duration(100 * (ticks(kernel) + ticks(user))), err
}
