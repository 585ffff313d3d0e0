package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/stream"
)

// Complete records what came of the task, all or nothing, and ends it. ErrLost: it was not this worker's any more, and nothing was recorded. It is repeated while Redis is away or denies it
// until ctx ends; after any other error it is unknown whether it was recorded, and the task is done again if not.
func (t *WorkflowTask) Complete(ctx context.Context, cp Checkpoint) error {
	args, err := t.checkpoint(cp)
	if err != nil {
		return err
	}
	if !t.lease.end() {
		return ErrLost
	}
	s := t.q.s
	t.q.w.warm(s, t.Queue, cp.Activities)
	keys := []string{t.entry.Heartbeat(), s.keys.Run(t.ID), s.keys.Document(t.ID, t.Execution), s.keys.History(t.ID, t.Execution), s.keys.Inbox(t.ID)}
	err = t.q.settle(ctx, t.entry, callTimeoutFor(args), func(ctx context.Context) rueidis.RedisResult {
		return completeScript.Run(ctx, s.c.rdb, keys, append(args, t.q.w.wanted(s, nil)...)...)
	}, func(ctx context.Context, _ string) (bool, error) { return t.recorded(ctx, cp) })
	if err != nil {
		return fmt.Errorf("workflow: complete a task of %s: %w", t.Instance, err)
	}
	return nil
}

// recorded says whether a checkpoint is in the history.
func (t *WorkflowTask) recorded(ctx context.Context, cp Checkpoint) (bool, error) {
	if next := cp.next(t.ID); next != nil && cp.RemoveContinued { // it took over, and all else is gone
		_, err := t.q.s.document(ctx, next.Instance, false)
		if errors.Is(err, ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	}
	if len(cp.Executed) == 0 {
		return false, nil
	}
	h, err := t.q.s.c.History(ctx, t.Instance, cp.Executed[0].Sequence-1)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	for i, e := range cp.Executed { // another may have handled the same events first, and come to other ones of its own
		if i >= len(h) || h[i].ID != e.ID {
			return false, err
		}
	}
	return err == nil, err
}

// Complete records the result of the activity and ends it. ErrLost: it was not this worker's any more, another has completed it, or nobody waits for it; nothing was
// recorded. It is repeated while Redis is away or denies it until ctx ends; after any other error it is unknown whether it was recorded.
func (t *ActivityTask) Complete(ctx context.Context, result Event) error {
	text, err := t.q.s.c.encode("result", result)
	if err != nil {
		return err
	}
	if !t.lease.end() {
		return ErrLost
	}
	s := t.q.s
	args := []string{s.base, t.entry.Token(), t.entry.Consumer(), t.entry.ID, t.Instance.ID, t.Instance.Execution, t.Queue, t.ref(), text}
	err = t.q.settle(ctx, t.entry, callTimeoutFor(args), func(ctx context.Context) rueidis.RedisResult {
		return settleScript.Run(ctx, s.c.rdb, []string{t.entry.Heartbeat(), s.keys.Run(t.Instance.ID)}, append(args, t.q.w.wanted(s, nil)...)...)
	}, func(_ context.Context, word string) (bool, error) {
		return word == "gone", nil // with the result, or with its instance, and with nothing else while the token is ours
	})
	if err != nil {
		return fmt.Errorf("workflow: complete an activity of %s: %w", t.Instance, err)
	}
	return nil
}

// settle runs a script that ends an entry, within that time for each try, and takes in what it read. After a lost answer recorded says whether it had been done, when a repetition is refused with a word.
func (q *queue) settle(ctx context.Context, e *stream.Entry, within time.Duration, run func(context.Context) rueidis.RedisResult, recorded func(context.Context, string) (bool, error)) error {
	unknown := false
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		call, cancel := context.WithTimeout(ctx, within)
		reply, err := run(call).ToArray()
		cancel()
		if err == nil {
			return q.settled(ctx, e, reply, unknown, recorded)
		}
		unknown = true
		if redis.Denied(err) { // it was not done, and may be soon: who reads the log sees to that
			q.w.c.log.Warn("workflow: an outcome waits, the server denies a command to this user", "queue", q.name, "error", err)
		}
		if !redis.Waits(err) || ctx.Err() != nil || e.Context().Err() != nil || !lifecycle.Sleep(ctx, pause) {
			e.End(false) // it is looked for again
			return err
		}
	}
}

func (q *queue) settled(ctx context.Context, e *stream.Entry, reply []rueidis.RedisMessage, unknown bool, recorded func(context.Context, string) (bool, error)) error {
	if len(reply) == 0 {
		e.End(false)
		return errors.New("empty reply")
	}
	word, err := reply[0].ToString()
	if err != nil {
		e.End(false)
		return err
	}
	if word == "ok" {
		e.End(true)
		q.w.takeIn(q.s, e.Token(), reply[1:])
		return nil
	}
	done := false
	if unknown {
		if done, err = recorded(ctx, word); err != nil {
			e.End(false)
			return err
		}
	}
	e.End(true) // the entry is gone, or another's
	if done {
		return nil
	}
	return ErrLost
}
