//go:build unix

package main

import (
	"context"
	"os/exec"
	"syscall"
)

// shellCommand runs a line with /bin/sh in a process group of its own, which gets SIGTERM when ctx ends.
func shellCommand(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	return cmd
}

// killGroup kills what is left of the group of a command that has ended.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
