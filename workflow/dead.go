package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/stream"
)

// deadTask pauses an instance whose task killed worker after worker, or cannot be loaded since a key of it is somebody else's.
func (q *queue) deadTask(ctx context.Context, e *stream.Entry, cause error) error {
	id := e.Fields["i"]
	if foreign(cause) {
		q.w.c.log.Error("workflow: the instance is paused, somebody wrote a key of it: takt workflow check says what to do, resume it after that", "instance", id, "keys", q.s.foreignKeys(ctx, id), "error", cause)
	} else {
		q.w.c.log.Error("workflow: the instance is paused, its task killed worker after worker; resume it once that is mended", "instance", id, "error", cause)
	}
	if err := q.release(ctx, e, id, "", "", 0, true); err != nil && !errors.Is(err, ErrLost) {
		return err
	}
	return nil // if it is lost, somebody else sees to it
}

// foreignKeys are those that a task of an instance needs and that are of another type than Takt's; nil = none is any more, or Redis does not say.
func (s *shard) foreignKeys(ctx context.Context, id string) (found []string) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	b := s.c.rdb.B()
	x, _ := s.c.rdb.Do(ctx, b.Hget().Key(s.keys.Run(id)).Field("x").Build()).ToString() // "" where that key is the foreign one
	needed := []struct{ key, typ string }{{s.keys.Run(id), "hash"}, {s.keys.Inbox(id), "stream"}, {s.keys.Document(id, x), "string"}}
	var cmds rueidis.Commands
	for _, n := range needed {
		cmds = append(cmds, b.Type().Key(n.key).Build())
	}
	for i, r := range s.c.rdb.DoMulti(ctx, cmds...) {
		if is, err := r.ToString(); err == nil && is != "none" && is != needed[i].typ {
			found = append(found, needed[i].key)
		}
	}
	return found
}

// deadActivity lets an activity fail that killed worker after worker.
func (q *queue) deadActivity(ctx context.Context, e *stream.Entry, cause error) error {
	t, err := q.activity(e)
	if err != nil {
		return err
	}
	text, err := q.w.failed(t, cause)
	if err != nil {
		return err
	}
	return settleScript.Run(ctx, q.s.c.rdb, []string{e.Heartbeat(), q.s.keys.Run(t.Instance.ID)},
		q.s.base, e.Token(), e.Consumer(), e.ID, t.Instance.ID, t.Instance.Execution, t.Queue, t.ref(), text, "0").Error()
}

// failed is the event, as it is stored, that an instance gets of an activity that was given up.
func (w *Worker) failed(t *ActivityTask, cause error) (text string, err error) {
	for _, f := range []func(*ActivityTask, error) Event{w.opts.Failure, failure} { // its instance waits for one
		if f == nil {
			continue
		}
		event := f(t, cause)
		event.ID, event.Ref, event.Time = newID(), t.Event.Ref, time.Now()
		if text, err = w.c.encode("failure", event); err == nil {
			break
		}
		w.c.log.Error("workflow: what WorkerOptions.Failure made cannot be recorded", "instance", t.Instance.ID, "error", err)
	}
	return text, err
}

func failure(_ *ActivityTask, cause error) Event {
	message := "the activity killed worker after worker and was given up: " + cause.Error()
	if errors.Is(cause, errDeleted) {
		message = "the activity was given up: " + cause.Error()
	}
	data, _ := json.Marshal(map[string]any{"error": map[string]string{"type": "*workflow.GivenUp", "message": message}}) // strings always can be
	return Event{Type: EventActivityErr, Data: data}
}

// CountDead is how many entries of the outboxes were no messages, and are dead letters. One command for each shard of several; a single one has no outbox.
func (c *Client) CountDead(ctx context.Context) (total int64, err error) {
	if len(c.shards) == 1 {
		return 0, nil
	}
	var cmds rueidis.Commands
	for _, s := range c.shards {
		cmds = append(cmds, c.rdb.B().Xlen().Key(s.all.DeadLetter(s.keys.Outbox())).Build())
	}
	for _, r := range c.rdb.DoMulti(ctx, cmds...) {
		n, err := r.AsInt64()
		if err != nil {
			return 0, fmt.Errorf("workflow: dead letters: %w", err)
		}
		total += n
	}
	return total, nil
}
