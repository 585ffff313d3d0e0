package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/workflow"
)

type workflowSignalCmd struct {
	ID   instanceID `arg:"" help:"Instance; it must be active."`
	Name string     `arg:"" help:"Name of the signal, as its code waits for it."`
	Arg  string     `name:"arg" help:"What comes with it: JSON, @FILE, or - for standard input." default:"null" placeholder:"JSON"`
	Key  string     `name:"id" help:"Identity of the signal: within 15 minutes the same one is delivered once. A new one if not given." placeholder:"KEY"`
	JSON bool       `name:"json" help:"One JSON object: instance, signal, id and outcome."`
}

const (
	maxSignal = 128     // bytes of a name and of a key
	maxReason = 1024    // bytes
	maxData   = 1 << 20 // bytes of a signal's JSON; an event has that many with all of it
)

// sized refuses a text that is empty or too long.
func sized(field, text string, limit int) error {
	if text == "" || len(text) > limit {
		return &exitError{exitUsage, fmt.Errorf("%s has %d bytes: must be 1 to %d", field, len(text), limit)}
	}
	return nil
}

func (c *workflowSignalCmd) event(a *app) (workflow.Event, error) {
	if err := sized("the name of the signal", c.Name, maxSignal); err != nil {
		return workflow.Event{}, err
	}
	if c.Key == "" && !a.given("id") { // an empty one is somebody's mistake, who counts on being recognised
		c.Key = uuid.NewString()
	}
	if err := sized("--id", c.Key, maxSignal); err != nil {
		return workflow.Event{}, err
	}
	arg, err := a.textOf(c.Arg)
	if err != nil {
		return workflow.Event{}, &exitError{exitUsage, fmt.Errorf("--arg: %w", err)}
	}
	if err := sized("--arg", string(arg), maxData); err != nil {
		return workflow.Event{}, err
	}
	if !json.Valid(arg) {
		return workflow.Event{}, &exitError{exitUsage, fmt.Errorf("--arg %q: no JSON; text needs its quotes: '\"text\"'", oneLine(string(arg), 60))}
	}
	return workflow.SignalEvent(c.Key, c.Name, arg), nil
}

func (c *workflowSignalCmd) Run(ctx context.Context, a *app) error {
	event, err := c.event(a)
	if err != nil {
		return err
	}
	return with(ctx, a.openWorkflows, func(client *workflow.Client) error {
		err := client.Signal(ctx, string(c.ID), event)
		if redis.Away(err) {
			return &exitError{exitNoAnswer, fmt.Errorf("%w: repeat the command with --id %s, then it is one signal", err, c.Key)}
		}
		return a.tell(err, c.JSON, struct {
			Instance instanceID `json:"instance"`
			Signal   string     `json:"signal"`
			ID       string     `json:"id"`
			Outcome  string     `json:"outcome"`
		}{c.ID, c.Name, c.Key, "signaled"}, "%s: signal %s is in its inbox\n", c.ID, c.Name)
	})
}

type workflowCancelCmd struct {
	Instance execution `arg:"" name:"id" help:"Instance; or ID:EXECUTION, for one that is no longer meant if another has begun."`
	JSON     bool      `name:"json" help:"One JSON object: instance, execution if you named one, and outcome."`
}

func (c *workflowCancelCmd) Run(ctx context.Context, a *app) error {
	return a.onExecution(ctx, c.Instance, c.JSON, "told to end", "told", func(client *workflow.Client, i workflow.Instance) (workflow.Instance, error) {
		return i, client.Cancel(ctx, i, workflow.CancelEvent(uuid.NewString()))
	})
}

type workflowTerminateCmd struct {
	Instance execution `arg:"" name:"id" help:"Instance; or ID:EXECUTION, for one that is no longer meant if another has begun."`
	Reason   string    `help:"Why; it is the last event of the history." default:"terminated by an operator" placeholder:"TEXT"`
	JSON     bool      `name:"json" help:"One JSON object: instance, execution if you named one, and outcome."`
}

func (c *workflowTerminateCmd) Run(ctx context.Context, a *app) error {
	if err := sized("--reason", c.Reason, maxReason); err != nil {
		return err
	}
	return a.onExecution(ctx, c.Instance, c.JSON, "terminated", "terminated", func(client *workflow.Client, i workflow.Instance) (workflow.Instance, error) {
		return i, client.Terminate(ctx, i, c.Reason)
	})
}

// outcomeOf is what was done to an execution, as JSON.
type outcomeOf struct {
	Instance  string `json:"instance"`
	Execution string `json:"execution,omitempty"`
	Outcome   string `json:"outcome"`
}

// onExecution does something to what is meant, with Execution "" if no execution was named, and says so. do returns what it did it to.
func (a *app) onExecution(ctx context.Context, e execution, asJSON bool, said, outcome string, do func(*workflow.Client, workflow.Instance) (workflow.Instance, error)) error {
	return with(ctx, a.openWorkflows, func(client *workflow.Client) error {
		i, err := e.meant(ctx, client)
		if err != nil {
			return err
		}
		if i, err = do(client, i); err != nil {
			return err
		}
		name := i.ID
		if i.Execution != "" {
			name = i.String()
		}
		return a.say(asJSON, outcomeOf{i.ID, i.Execution, outcome}, "%s: %s\n", name, said)
	})
}

type workflowRemoveCmd struct {
	Instance    execution `arg:"" optional:"" name:"id" help:"Instance, its newest execution is removed; or ID:EXECUTION."`
	EndedBefore moment    `help:"All executions that ended before this time, RFC 3339, or longer ago than that: 48h." placeholder:"TIME"`
	Yes         bool      `help:"Say that they shall go, with their histories; without it you are asked."`
	JSON        bool      `name:"json" help:"One JSON object: what was removed."`
}

func (c *workflowRemoveCmd) Run(ctx context.Context, a *app) error {
	many := !c.EndedBefore.IsZero()
	if (c.Instance == "") == !many {
		return &exitError{exitUsage, errors.New("name an instance, or say --ended-before and a time")}
	}
	if !many {
		return a.onExecution(ctx, c.Instance, c.JSON, "removed", "removed", func(client *workflow.Client, i workflow.Instance) (workflow.Instance, error) {
			info, err := client.Info(ctx, i)
			if err != nil {
				return i, err
			}
			if err := a.confirm(c.Yes, fmt.Sprintf("this removes %s with its history", shown(info.Instance.String()))); err != nil {
				return info.Instance, err
			}
			return info.Instance, client.Remove(ctx, info.Instance)
		})
	}
	return with(ctx, a.openWorkflows, func(client *workflow.Client) error { return c.many(ctx, a, client) })
}

const removeBatch = 2000 // executions between two looks at the clock

// many removes what ended before a time and shows how far it is.
func (c *workflowRemoveCmd) many(ctx context.Context, a *app, client *workflow.Client) error {
	total, err := client.CountEnded(ctx, c.EndedBefore.Time)
	if err != nil {
		return err
	}
	if total > 0 {
		if err := a.confirm(c.Yes, fmt.Sprintf("this removes %d executions that ended before %s, with their histories", total, instant(c.EndedBefore.Time))); err != nil {
			return err
		}
	}
	removed, err := c.batches(ctx, a, client, int(total))
	return errors.Join(err, a.say(c.JSON, struct {
		Removed int `json:"removed"`
	}{removed}, "%d removed\n", removed))
}

func (c *workflowRemoveCmd) batches(ctx context.Context, a *app, client *workflow.Client, total int) (removed int, err error) {
	p := newProgress(a.err)
	defer p.end()
	for {
		n, err := client.RemoveEnded(ctx, c.EndedBefore.Time, removeBatch)
		removed += n
		if err != nil || n < removeBatch {
			return removed, err
		}
		p.count(fmt.Sprintf("%d of %d removed", removed, max(total, removed)))
	}
}

// confirm asks whoever sits at the terminal. Without one it is a usage error not to say --yes.
func (a *app) confirm(yes bool, what string) error {
	if yes {
		return nil
	}
	if !isTerminal(a.in) {
		return &exitError{exitUsage, fmt.Errorf("%s; say --yes if that is what you want", what)}
	}
	return a.ask(what)
}

// ask reads y or yes, or fails.
func (a *app) ask(what string) error {
	printf(a.err, "%s. Do it? [y/N] ", what)
	line, _ := bufio.NewReader(a.in).ReadString('\n') // no answer is no
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return &exitError{exitFailed, errors.New("nothing was done")}
}

type workflowPauseCmd struct {
	ID    instanceID    `arg:"" optional:"" help:"Instance; it must be active."`
	Queue workflowQueue `help:"A queue in the place of an instance: no worker takes anything more from it."`
	JSON  bool          `name:"json" help:"One JSON object: what was set."`
}

func (c *workflowPauseCmd) Run(ctx context.Context, a *app) error {
	return a.setPaused(ctx, c.ID, c.Queue, c.JSON, true)
}

type workflowResumeCmd struct {
	ID    instanceID    `arg:"" optional:"" help:"Instance; it must be active."`
	Queue workflowQueue `help:"A queue in the place of an instance."`
	JSON  bool          `name:"json" help:"One JSON object: what was set."`
}

func (c *workflowResumeCmd) Run(ctx context.Context, a *app) error {
	return a.setPaused(ctx, c.ID, c.Queue, c.JSON, false)
}

// setPaused pauses or resumes an instance or a queue, and says what it set with --json.
func (a *app) setPaused(ctx context.Context, id instanceID, queue workflowQueue, asJSON, paused bool) error {
	if (id == "") == (queue == "") {
		return &exitError{exitUsage, errors.New("name an instance or a --queue")}
	}
	return with(ctx, a.openWorkflows, func(client *workflow.Client) error {
		var err error
		switch {
		case id != "" && paused:
			err = client.Pause(ctx, string(id))
		case id != "":
			err = client.Resume(ctx, string(id))
		case paused:
			err = client.PauseQueue(ctx, string(queue))
		default:
			err = client.ResumeQueue(ctx, string(queue))
		}
		return a.tell(err, asJSON, struct {
			Instance instanceID    `json:"instance,omitempty"`
			Queue    workflowQueue `json:"queue,omitempty"`
			Paused   bool          `json:"paused"`
		}{id, queue, paused}, "")
	})
}
