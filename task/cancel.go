package task

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/task/internal/wire"
)

var (
	cancelScript = script.Load(files, "task/cancel")
	runNowScript = script.Load(files, "task/runnow")
)

// CancelOutcome is what Cancel did.
type CancelOutcome string

const (
	// CancelledNow: the task had not begun and has ended as cancelled.
	CancelledNow CancelOutcome = "cancelled"
	// CancelTold: a worker ends it. If it runs, its context ends with ErrCancelled; it is cancelled unless the handler returns success. If it waits and its
	// end concerns others (a group, a unique key, other members of an aggregate), the worker that takes it ends it without running it.
	// A member of an aggregate is ended by the worker that begins with the aggregate; one that runs is told in vain.
	CancelTold CancelOutcome = "told"
	// CancelTooLate: it had ended.
	CancelTooLate CancelOutcome = "ended"
)

const (
	markFor    = 24 * time.Hour // a cancel mark counts
	moveChases = 5              // times that a task is looked for again because it moved
)

// StateError says that a task is not in a state in which that can be done.
type StateError struct {
	ID    string
	State State
	Want  string
}

func (e *StateError) Error() string {
	return fmt.Sprintf("task: task %s is %s, want %s", e.ID, e.State, e.Want)
}

// Cancel ends a task that has not begun, and has one that runs broken off by its worker. It looks for the task as Find does; ErrNotFound: there is none. It is safe to repeat.
func (c *Client) Cancel(ctx context.Context, ref Ref) (CancelOutcome, error) {
	for range moveChases {
		t, err := c.Find(ctx, ref)
		if err != nil {
			return "", err
		}
		switch t.State {
		case StateDone, StateDead, StateCancelled:
			return CancelTooLate, nil
		}
		word := "told"
		if t.Within != "" || t.State == StateCollected {
			err = c.mark(ctx, t.ID)
		} else {
			word, err = c.cancel(ctx, &t)
		}
		if err != nil {
			return "", fmt.Errorf("task: cancel %s: %w", ref.ID, err)
		}
		switch word {
		case "ended":
			return CancelledNow, nil
		case "told":
			return CancelTold, nil
		}
		ref = Ref{ID: ref.ID} // it moved
	}
	return "", fmt.Errorf("task: cancel %s: the task moves from place to place, try again", ref.ID)
}

// mark has the next worker that begins with a task end it: for members of aggregates, which have no place of their own. One round trip.
func (c *Client) mark(ctx context.Context, id string) error {
	now, err := c.Now(ctx)
	if err != nil {
		return err
	}
	key, b := c.keys.TaskCancelled(), c.rdb.B()
	return c.tellWorkers(ctx, b.Zadd().Key(key).ScoreMember().ScoreMember(float64(now.UnixMilli()), id).Build(),
		b.Zremrangebyscore().Key(key).Min("-inf").Max("("+strconv.FormatInt(now.Add(-markFor).UnixMilli(), 10)).Build())
}

// cancel is cancel.lua.
func (c *Client) cancel(ctx context.Context, t *Task) (string, error) {
	k := c.keys
	keep := t.msg.Meta.Retention * int64(time.Millisecond)
	if keep == 0 {
		keep = int64(DefaultRetention) // whoever submitted it may wait for it
	}
	var result []byte
	if keep > 0 {
		r := wire.Result{IsErr: true, Err: describe(Cancelled, ErrCancelled), Labels: t.msg.Labels}
		var err error
		if result, err = r.Append(nil); err != nil {
			return "", err
		}
	}
	others := "0"
	if t.msg.Meta.Unique != "" || t.msg.Meta.Start != "" || t.Group != "" || membersOf(&t.msg) != nil {
		others = "1"
	}
	keys := []string{k.TaskStream(string(t.Queue)), k.TaskDelayed(), k.TaskBlocked(), k.TaskCancelled(), k.TaskCounters(), k.TaskAwaited(), k.TaskResult(t.ID)}
	reply, err := cancelScript.Run(ctx, c.rdb, keys, t.ID, t.Entry, rueidis.BinaryString([]byte(t.raw)), k.TaskGroup(), others, k.TaskControl(), ms(markFor),
		string(Cancelled)+" type "+t.Name, string(Cancelled)+" queue "+string(t.Queue), ms(time.Duration(keep)), rueidis.BinaryString(result), k.TaskAwaitChannel("")).AsStrSlice()
	if err != nil {
		return "", err
	}
	if len(reply) != 1 {
		return "", fmt.Errorf("cancel.lua replied %q", reply)
	}
	return reply[0], nil
}

// RunNow makes a delayed or blocked task due at once; if it still does not get its locks, it is blocked again. A *StateError: it is in another state. It looks for the task as
// Find does.
func (c *Client) RunNow(ctx context.Context, ref Ref) error {
	for range moveChases {
		t, err := c.Find(ctx, ref)
		if err != nil {
			return err
		}
		if t.Within != "" {
			ref = Ref{ID: t.Within}
			continue
		}
		if t.State != StateDelayed && t.State != StateBlocked {
			return &StateError{t.ID, t.State, "delayed or blocked"}
		}
		reply, err := runNowScript.Run(ctx, c.rdb, []string{c.keys.TaskDelayed()}, rueidis.BinaryString([]byte(t.raw))).AsStrSlice()
		if err != nil {
			return fmt.Errorf("task: run %s now: %w", ref.ID, err)
		}
		if len(reply) == 1 && reply[0] == "ok" {
			return nil
		}
		ref = Ref{ID: ref.ID}
	}
	return fmt.Errorf("task: run %s now: the task moves from place to place, try again", ref.ID)
}
