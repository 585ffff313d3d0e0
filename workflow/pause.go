package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

const (
	pausePage    = 1000        // entries that one script moves
	pauseTimeout = time.Minute // of a worker for all pages of a queue; it goes on the next time
)

// Pause keeps an instance from running until Resume, over continuations: a task that runs is completed, what comes then waits in its inbox. Activities and timers go on. Who
// starts the id again after its end starts it unpaused. ErrNotFound: none is active.
func (c *Client) Pause(ctx context.Context, id string) error {
	return c.of(id).pauseInstance(ctx, id, true)
}

// Resume lets it run again. ErrNotFound: none is active.
func (c *Client) Resume(ctx context.Context, id string) error {
	return c.of(id).pauseInstance(ctx, id, false)
}

// PauseQueue holds back workflow tasks and activities of a queue that no worker has yet, on all shards. It may be repeated after an error; what it leaves undone on a shard that it came to, a worker
// does within some minutes.
func (c *Client) PauseQueue(ctx context.Context, queue string) error {
	return c.pauseQueue(ctx, queue, "pause")
}

// ResumeQueue puts back what was held back, in the order it came. It may be repeated after an error, as PauseQueue may.
func (c *Client) ResumeQueue(ctx context.Context, queue string) error {
	return c.pauseQueue(ctx, queue, "resume")
}

func (c *Client) pauseQueue(ctx context.Context, queue, what string) error {
	if err := checkQueue("queue", queue); err != nil {
		return err
	}
	for _, s := range c.shards {
		if err := s.pauseQueue(ctx, queue, what); err != nil {
			return err
		}
	}
	return nil
}

// pauseQueue does pause, resume or finish, in pages.
func (s *shard) pauseQueue(ctx context.Context, queue, what string) error {
	for {
		reply, err := pauseScript.Run(ctx, s.c.rdb, []string{s.keys.Paused()}, s.base, "queue", what, queue, strconv.Itoa(pausePage)).AsStrSlice()
		if err != nil || len(reply) != 1 {
			return fmt.Errorf("workflow: %s queue %s: replied %q: %w", what, queue, reply, err)
		}
		if reply[0] != "more" {
			return nil
		}
	}
}

// finishPauses does the rest for those who died while they paused or resumed a queue of this shard.
func (s *shard) finishPauses(ctx context.Context) error {
	b, rdb := s.c.rdb.B(), s.c.rdb
	first := rdb.DoMulti(ctx, b.Smembers().Key(s.keys.Queues()).Build(), b.Smembers().Key(s.keys.Paused()).Build())
	queues, err := first[0].AsStrSlice()
	if err != nil {
		return err
	}
	unfinished, err := first[1].AsStrSlice() // what is paused may be; it is looked at by the script
	if err != nil {
		return err
	}
	held := make(rueidis.Commands, len(queues))
	for i, q := range queues {
		kind, name, _ := strings.Cut(q, ":")
		held[i] = b.Exists().Key(s.keys.Held(kind, name)).Build()
	}
	for i, r := range rdb.DoMulti(ctx, held...) {
		n, err := r.AsInt64()
		if err != nil {
			return err
		}
		if _, name, _ := strings.Cut(queues[i], ":"); n > 0 && !slices.Contains(unfinished, name) {
			unfinished = append(unfinished, name)
		}
	}
	var failed error
	for _, q := range unfinished {
		call, cancel := context.WithTimeout(ctx, pauseTimeout)
		failed = errors.Join(failed, s.pauseQueue(call, q, "finish"))
		cancel()
	}
	return failed
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
		return notActive(Instance{ID: id})
	}
	return nil
}
