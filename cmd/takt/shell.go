package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	maxOutput  = 1 << 20 // bytes of a command's result
	maxErrText = 4 << 10
	killAfter  = 5 * time.Second
)

// shellError is a command that ended with another exit status than 0, or by a signal.
type shellError struct {
	Code int    // -1 by a signal
	Text string // the last of its standard error
	Err  error
}

func (e *shellError) Error() string { return fmt.Sprintf("%v: %s", e.Err, e.Text) }
func (e *shellError) Unwrap() error { return e.Err }

// errOutput says that a command printed too much.
var errOutput = fmt.Errorf("the command printed more than %d bytes", maxOutput)

// shell runs a command line with /bin/sh, on Windows with cmd, and returns its standard output. env is added to the environment of this process. When ctx ends, the command and its children get SIGTERM, and SIGKILL after
// 5 s; children that it leaves behind are killed, after 5 s if they hold its output open. Errors: *shellError, errOutput, in both cases with the first of its output.
func shell(ctx context.Context, line string, env []string, stdin []byte) ([]byte, error) {
	cmd := shellCommand(ctx, line)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, errText := &capped{limit: maxOutput}, &tail{limit: maxErrText}
	cmd.Stdout, cmd.Stderr = out, errText
	cmd.WaitDelay = killAfter
	err := cmd.Run()
	if cmd.Process != nil {
		killGroup(cmd) // children that it left behind; usually there are none
	}
	if errors.Is(err, exec.ErrWaitDelay) { // it ended well, a child held its output open
		err = nil
	}
	var exit *exec.ExitError
	switch {
	case err == nil && out.over:
		return out.kept.Bytes(), errOutput
	case errors.As(err, &exit):
		return out.kept.Bytes(), &shellError{exit.ExitCode(), strings.TrimSpace(errText.kept.String()), err}
	}
	return out.kept.Bytes(), err
}

// capped keeps the first bytes, and takes the rest without keeping it. It embeds no buffer: io.Copy would read into that, past the limit.
type capped struct {
	kept  bytes.Buffer
	limit int
	over  bool
}

func (c *capped) Write(p []byte) (int, error) {
	room := c.limit - c.kept.Len()
	c.over = c.over || len(p) > room
	c.kept.Write(p[:min(len(p), max(room, 0))])
	return len(p), nil
}

// tail keeps the last bytes.
type tail struct {
	kept  bytes.Buffer
	limit int
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept.Write(p)
	if over := t.kept.Len() - t.limit; over > 0 {
		t.kept.Next(over)
	}
	return len(p), nil
}
