package main

import (
	"context"
	"os/exec"
)

// shellCommand runs a line with cmd, which is killed when ctx ends.
func shellCommand(ctx context.Context, line string) *exec.Cmd {
	return exec.CommandContext(ctx, "cmd", "/C", line)
}

// killGroup does nothing: Windows has no process groups that can be killed.
func killGroup(*exec.Cmd) {}
