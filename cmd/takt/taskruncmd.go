package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/taktworks/takt/task"
)

type taskRunCmd struct {
	Name        []string      `required:"" help:"Names of the types that the command handles."`
	Exec        string        `required:"" help:"Command line for /bin/sh: arguments on standard input as JSON, result on standard output."`
	Size        string        `help:"Size of the tasks that are taken: small, medium or large." default:"medium" enum:"small,medium,large"`
	Concurrency int           `help:"How many run at once." default:"4"`
	Timeout     time.Duration `help:"How long one run may take; 0 = without end." default:"30m"`
	Retries     int           `help:"How often a failed task runs again." default:"3"`
	Backoff     time.Duration `help:"Time to the first retry; it doubles." default:"10s"`
	Lease       time.Duration `help:"Others take the tasks of a dead worker over after this time." default:"10s"`
	Drain       time.Duration `help:"How long a stop waits for what runs." default:"10s"`
}

func (taskRunCmd) Help() string {
	return `Takes tasks of these names and runs the command for each: the JSON array of the arguments on standard input; TAKT_TASK_ID, TAKT_TASK_NAME, TAKT_TASK_ATTEMPT and TAKT_TASK_FENCE in the environment. Exit status 0 is success, and what it printed is the result: JSON, or else text. Any other is a failure with the last of standard error as its text; 75 (EX_TEMPFAIL) asks for a retry, 65 (EX_DATAERR) for none. When a run is cancelled, takes too long or loses its lease, the command and its children get SIGTERM, and SIGKILL after 5 s.

Examples:
  takt task run --name mail:Send --exec './send-mail'
  takt task run --name test:Double --exec 'jq ".[0] * 2"' --concurrency 8`
}

const (
	maxOutput   = 1 << 20 // bytes of a command's result
	maxErrText  = 4 << 10
	exitNoRetry = 65
	killAfter   = 5 * time.Second
)

func (c *taskRunCmd) Run(ctx context.Context, a *app) error {
	if c.Concurrency < 1 || c.Concurrency > 1000 {
		return &exitError{exitUsage, fmt.Errorf("--concurrency is %d: must be 1 to 1000", c.Concurrency)}
	}
	if c.Timeout < 0 || c.Retries < 0 || c.Backoff <= 0 {
		return &exitError{exitUsage, fmt.Errorf("--timeout is %v, --retries is %d, --backoff is %v: none may be negative, and --backoff not 0", c.Timeout, c.Retries, c.Backoff)}
	}
	timeout := c.Timeout
	if timeout == 0 {
		timeout = -1
	}
	var policy task.RetryPolicy = task.NoRetry{}
	if c.Retries > 0 {
		policy = task.Backoff{Base: c.Backoff, Retries: c.Retries}
	}
	var handlers []task.Handler
	for _, name := range c.Name {
		typ, err := task.DefineJSON(name, task.Size(c.Size), task.Timeout(timeout), task.Retry(policy))
		if err != nil {
			return &exitError{exitUsage, err}
		}
		handlers = append(handlers, typ.Handle(c.call))
	}
	return a.withTasks(ctx, func(client *task.Client) error {
		w, err := client.Worker(task.WorkerOptions{
			Concurrency: map[task.Size]int{task.Size(c.Size): c.Concurrency}, Lease: c.Lease, Drain: c.Drain, Log: a.log,
			Observe: func(e task.Event) {
				a.log.Info("task "+string(e.Outcome), "name", e.Info.Name, "id", e.Info.ID, "attempt", e.Info.Attempt, "took", e.Took.Round(time.Microsecond), "error", e.Err)
			},
		}, handlers...)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		a.log.Info("worker is up", "worker", w.ID(), "names", strings.Join(c.Name, ","), "size", c.Size)
		return w.Run(ctx)
	})
}

// call runs the command for one task.
func (c *taskRunCmd) call(ctx context.Context, j *task.Job[json.RawMessage]) (json.RawMessage, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", c.Exec)
	cmd.Env = append(os.Environ(), "TAKT_TASK_ID="+j.ID, "TAKT_TASK_NAME="+j.Name, "TAKT_TASK_ATTEMPT="+strconv.Itoa(j.Attempt), "TAKT_TASK_FENCE="+strconv.FormatUint(j.Fence, 10))
	cmd.Stdin = bytes.NewReader(j.Args)
	out, errText := &capped{limit: maxOutput}, &tail{limit: maxErrText}
	cmd.Stdout, cmd.Stderr = out, errText
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killAfter
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // children that it left behind; usually there are none
	}
	var exit *exec.ExitError
	switch {
	case err == nil && out.over:
		return nil, task.Cancel(fmt.Errorf("the command printed more than %d bytes", maxOutput))
	case err == nil:
		return resultOf(out.Bytes()), nil
	case errors.As(err, &exit):
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(errText.String()))
		if exit.ExitCode() == exitNoRetry {
			return nil, task.Cancel(err)
		}
	}
	return nil, err
}

// resultOf is what a command printed as JSON: as it is if it is JSON, else as text without the last line end.
func resultOf(out []byte) json.RawMessage {
	out = bytes.TrimSpace(out)
	if len(out) == 0 {
		return nil
	}
	if json.Valid(out) {
		return out
	}
	text, err := json.Marshal(strings.ToValidUTF8(string(out), "\uFFFD"))
	if err != nil {
		return nil
	}
	return text
}

// capped keeps the first bytes, and takes the rest without keeping it.
type capped struct {
	bytes.Buffer
	limit int
	over  bool
}

func (c *capped) Write(p []byte) (int, error) {
	room := c.limit - c.Len()
	c.over = c.over || len(p) > room
	c.Buffer.Write(p[:min(len(p), max(room, 0))])
	return len(p), nil
}

// tail keeps the last bytes.
type tail struct {
	bytes.Buffer
	limit int
}

func (t *tail) Write(p []byte) (int, error) {
	t.Buffer.Write(p)
	if over := t.Len() - t.limit; over > 0 {
		t.Next(over)
	}
	return len(p), nil
}
