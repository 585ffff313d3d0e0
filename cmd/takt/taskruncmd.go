package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/telemetry"
	"github.com/taktworks/takt/task"
)

type taskRunCmd struct {
	Name        []string      `required:"" help:"Names of the types that the command handles."`
	Exec        string        `required:"" help:"Command line for /bin/sh: arguments on standard input as JSON, result on standard output."`
	Size        string        `help:"Size of the tasks that are taken: small, medium, large, or the name of a pool." default:"medium"`
	Concurrency int           `help:"How many run at once." must:"be 1 to 1000" default:"4"`
	Timeout     time.Duration `help:"How long one run may take; 0 = without end." default:"30m"`
	Retries     int           `help:"How often a failed task runs again." default:"3"`
	Backoff     time.Duration `help:"Time to the first retry; it doubles." default:"10s"`
	Lease       time.Duration `help:"Others take the tasks of a dead worker over after this time." default:"10s"`
	Drain       time.Duration `help:"How long a stop waits for what runs; 0 = 10s." default:"10s"`
	HTTP        string        `name:"http" help:"Address for /metrics, /livez and /readyz, for example 127.0.0.1:9465; not served if empty." placeholder:"ADDR"`
}

const exitNoRetry = 65

func (c *taskRunCmd) Run(ctx context.Context, a *app) error {
	if c.Timeout < 0 || c.Retries < 0 || c.Backoff <= 0 {
		return &exitError{exitUsage, fmt.Errorf("--timeout is %v, --retries is %d, --backoff is %v: none may be negative, and --backoff not 0", c.Timeout, c.Retries, c.Backoff)}
	}
	if len(c.Name) == 0 {
		return &exitError{exitUsage, errors.New("--name is empty: name at least one type of task")}
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
	traces, err := a.traces(ctx, "", a.log)
	if err != nil {
		return err
	}
	defer traces.Close()
	return with(ctx, a.openTasks, func(client *task.Client) error {
		web := a.web(c.HTTP, client)
		push, err := a.push(ctx, web.Metrics, "", a.log)
		if err != nil {
			return err
		}
		defer push.Close()
		w, err := client.Worker(task.WorkerOptions{
			Concurrency: map[task.Size]int{task.Size(c.Size): c.Concurrency}, Lease: c.Lease, Drain: c.Drain, Log: a.log,
			Metrics: task.NewMetrics(web.Metrics.Registerer()), Tracer: traces.Provider(),
			Observe: func(e task.Event) {
				a.log.Info("task "+string(e.Outcome), "name", e.Info.Name, "id", e.Info.ID, "attempt", e.Info.Attempt, "took", e.Took.Round(time.Microsecond), "error", e.Err)
			},
		}, handlers...)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		a.log.Info("worker is up", "worker", w.ID(), "names", strings.Join(c.Name, ","), "size", c.Size)
		web.Ready["worker"] = func(ctx context.Context) error {
			if h := w.Health(ctx); !h.OK {
				return errors.New(h.Problem)
			}
			return nil
		}
		return runBeside(ctx, web, c.Drain, "worker", w.Run)
	})
}

// web is the server for metrics and health of a process that works on tasks, with nothing of its own in it yet.
func (a *app) web(addr string, client *task.Client) *telemetry.Server {
	return &telemetry.Server{
		Addr: addr, Metrics: telemetry.NewMetrics(readBuild().Version), Log: a.log,
		Ready: map[string]func(context.Context) error{"redis": func(ctx context.Context) error {
			_, err := client.Now(ctx)
			return err
		}},
	}
}

// runBeside runs the work of a process and, if it has an address, its web server, which is there until the work has ended.
func runBeside(ctx context.Context, web *telemetry.Server, drain time.Duration, name string, work func(context.Context) error) error {
	const margin = 10 * time.Second // the work bounds its end itself, and not much above drain
	shown := lifecycle.Stage{}
	if web.Addr != "" {
		shown["http"] = func(ctx context.Context) error {
			if err := web.Run(ctx); err != nil {
				return &exitError{exitFailed, err} // no fault of Redis
			}
			return nil
		}
	}
	return lifecycle.Run(ctx, drain+margin, lifecycle.Stage{name: work}, shown)
}

// call runs the command for one task.
func (c *taskRunCmd) call(ctx context.Context, j *task.Job[json.RawMessage]) (json.RawMessage, error) {
	env := append([]string{"TAKT_TASK_ID=" + j.ID, "TAKT_TASK_NAME=" + j.Name, "TAKT_TASK_ATTEMPT=" + strconv.Itoa(j.Attempt), "TAKT_TASK_FENCE=" + strconv.FormatUint(j.Fence, 10)}, toEnvironment(ctx)...)
	out, err := shell(ctx, c.Exec, env, j.Args)
	var exit *shellError
	if errors.Is(err, errOutput) || errors.As(err, &exit) && exit.Code == exitNoRetry {
		return nil, task.Cancel(err)
	}
	if err != nil {
		return nil, err
	}
	return resultOf(out), nil
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
