package workflow

import (
	"context"
	"fmt"
	"strconv"
)

const pausePage = 1000 // entries that one script moves

// Pause keeps an instance from running until Resume, over continuations: a task that runs is completed, what comes then waits in its inbox. Activities and timers go on. Who
// starts the id again after its end starts it unpaused. ErrNotFound: none is active.
func (c *Client) Pause(ctx context.Context, id string) error {
	return c.of(id).pauseInstance(ctx, id, true)
}

// Resume lets it run again. ErrNotFound: none is active.
func (c *Client) Resume(ctx context.Context, id string) error {
	return c.of(id).pauseInstance(ctx, id, false)
}

// PauseQueue holds back workflow tasks and activities of a queue that no worker has yet, on all shards. It may be repeated after an error.
func (c *Client) PauseQueue(ctx context.Context, queue string) error {
	return c.pauseQueue(ctx, queue, "pause")
}

// ResumeQueue puts back what was held back, in the order it came. It may be repeated after an error.
func (c *Client) ResumeQueue(ctx context.Context, queue string) error {
	return c.pauseQueue(ctx, queue, "resume")
}

func (c *Client) pauseQueue(ctx context.Context, queue, what string) error {
	if err := checkQueue("queue", queue); err != nil {
		return err
	}
	for _, s := range c.shards {
		for more := true; more; {
			reply, err := pauseScript.Run(ctx, c.rdb, []string{s.keys.Paused()}, s.base, "queue", what, queue, strconv.Itoa(pausePage)).AsStrSlice()
			if err != nil || len(reply) != 1 {
				return fmt.Errorf("workflow: %s queue %s: replied %q: %w", what, queue, reply, err)
			}
			more = reply[0] == "more"
		}
	}
	return nil
}

func (s *shard) pauseInstance(ctx context.Context, id string, pause bool) error {
	if err := checkName("instance", id); err != nil {
		return err
	}
	what := "resume"
	if pause {
		what = "pause"
	}
	reply, err := pauseScript.Run(ctx, s.c.rdb, []string{s.keys.Run(id)}, s.base, "instance", what, id, "0").AsStrSlice()
	switch {
	case err != nil:
		return fmt.Errorf("workflow: %s %s: %w", what, id, err)
	case len(reply) != 1 || reply[0] != "ok":
		return fmt.Errorf("%w: none is active: %s", ErrNotFound, id)
	}
	return nil
}
