package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/stream"
)

// WorkflowTask is what an instance has to do: events that its code has not seen. It is one worker's at a time. Its methods are safe for concurrent use.
type WorkflowTask struct {
	Info            // of the execution, as it was when the task was handed out
	Events  []Event // new ones, in the order they came; at least one. Only the first may be one that outlives a continuation: a signal
	Attempt int     // 1, and one more for each worker that died with it or kept it beyond its lease

	q      *queue
	entry  *stream.Entry
	cursor string            // last of Events in the inbox
	came   int               // how many they were
	doc    string            // as it is stored
	more   bool              // it has what only later versions know
	later  map[string]string // events that have, by id, as they are stored
	lease  lease
}

// ActivityTask is an activity to be run. It is one worker's at a time, and may be run again if that dies. Its methods are safe for concurrent use.
type ActivityTask struct {
	Instance Instance // that waits for it
	Queue    string
	Event    Event // as it was scheduled
	Attempt  int   // 1, and one more for each worker that died with it or kept it beyond its lease

	q     *queue
	entry *stream.Entry
	lease lease
}

// handleTask loads the task of an entry, and those behind it for which somebody waits, and hands it to who waits.
func (q *queue) handleTask(ctx context.Context, e *stream.Entry) (stream.Result, error) {
	q.hot.Store(true)
	words, given := e.Given.([]string)
	var behind []rueidis.RedisMessage
	if !given {
		var err error
		if words, behind, err = q.begin(ctx, e); err != nil {
			return stream.Settled, err
		}
	}
	defer q.w.takeIn(q.s, e.Token(), behind)
	if words == nil {
		return stream.Settled, nil
	}
	t, err := q.task(e, words)
	if errors.Is(err, errVersion) {
		return q.setAside(e, err)
	}
	if err != nil {
		return stream.Ack, err
	}
	q.w.workflows.offer(q.name, t, t.back)
	return stream.Later, nil
}

// begin returns what begin.lua does: document, cursor, events, nil if there is nothing to do; and what it fetched.
func (q *queue) begin(ctx context.Context, e *stream.Entry) (words []string, behind []rueidis.RedisMessage, err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	args := append([]string{q.s.base, e.Token(), q.name, e.ID, e.Fields["i"], e.Consumer()}, q.w.wanted(q.s, q)...)
	reply, err := beginScript.Run(call, q.s.c.rdb, []string{e.Heartbeat(), e.Stream, q.s.keys.Run(e.Fields["i"])}, args...).ToArray()
	if err != nil || len(reply) == 0 {
		return nil, nil, fmt.Errorf("workflow: begin: %w", cmp.Or(err, errEmpty))
	}
	word, err := reply[0].ToString()
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("workflow: begin: %w", err)
	case word == "none" && len(reply) > 1:
		return nil, reply[2:], nil
	case word == "ok" && len(reply) > 1:
		words, err = reply[1].AsStrSlice()
		return words, reply[2:], err
	}
	return nil, nil, &commit.ConflictError{Key: e.Heartbeat()} // not a failure of the task
}

var errEmpty = errors.New("the script replied nothing")

// task makes a task of what begin returns.
func (q *queue) task(e *stream.Entry, words []string) (*WorkflowTask, error) {
	t := &WorkflowTask{Events: make([]Event, len(words)-2), Attempt: int(e.Deliveries), q: q, entry: e, cursor: words[1], came: len(words) - 2, doc: words[0]}
	t.lease.all = &q.w.leases.workflows
	var known bool
	var err error
	if t.Info, known = q.w.documents.take(t.doc); !known {
		if t.more, err = strictly(t.doc, &t.Info); err != nil {
			return nil, fmt.Errorf("workflow: a document that is stored cannot be read: %w", err)
		}
	}
	for i, text := range words[2:] {
		var more bool
		if t.Events[i], more, err = decodeKnown(text); err != nil {
			return nil, err
		}
		if more {
			if t.later == nil {
				t.later = make(map[string]string)
			}
			t.later[t.Events[i].ID] = text
		}
	}
	return t, nil
}

// handleActivity hands an activity to who waits.
func (q *queue) handleActivity(_ context.Context, e *stream.Entry) (stream.Result, error) {
	q.hot.Store(true)
	t, err := q.activity(e)
	if errors.Is(err, errVersion) {
		return q.setAside(e, err)
	}
	if err != nil {
		return stream.Ack, err
	}
	q.w.activities.offer(q.name, t, t.back)
	return stream.Later, nil
}

func (q *queue) activity(e *stream.Entry) (*ActivityTask, error) {
	event, _, err := decodeKnown(e.Fields["d"])
	if err != nil {
		return nil, err
	}
	t := &ActivityTask{Instance: Instance{ID: e.Fields["i"], Execution: e.Fields["x"]}, Queue: q.name, Event: event, Attempt: int(e.Deliveries), q: q, entry: e}
	t.lease.all = &q.w.leases.activities
	return t, nil
}

// Context ends when the task is not this worker's any more, as far as that is known here: the worker was taken for dead, or stops and the time to drain is over.
func (t *WorkflowTask) Context() context.Context { return t.entry.Context() }

// Context is that of WorkflowTask.
func (t *ActivityTask) Context() context.Context { return t.entry.Context() }

// Extend begins the task's lease anew. ErrLost: it is not this worker's any more, or its instance has ended; stop working on it. It waits for Redis five seconds at most, and not longer than
// the worker counts as alive.
func (t *WorkflowTask) Extend(ctx context.Context) error {
	return t.q.extend(ctx, t.entry, &t.lease, t.ID, t.Execution, "e", t.entry.ID)
}

// Extend is that of WorkflowTask.
func (t *ActivityTask) Extend(ctx context.Context) error {
	return t.q.extend(ctx, t.entry, &t.lease, t.Instance.ID, t.Instance.Execution, t.field(), t.entry.ID+" "+t.Queue)
}

func (t *ActivityTask) ref() string   { return strconv.FormatInt(t.Event.Ref, 10) }
func (t *ActivityTask) field() string { return "a:" + t.ref() }

func (q *queue) extend(ctx context.Context, e *stream.Entry, l *lease, id, x, field, value string) error {
	if e.Context().Err() != nil || !l.extend() {
		return ErrLost
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	defer context.AfterFunc(e.Context(), cancel)() // others may have the task then, whether Redis answers or not
	reply, err := extendScript.Run(call, q.s.c.rdb, []string{e.Heartbeat(), q.s.keys.Run(id)}, q.s.base, e.Token(), value, field, x).AsStrSlice()
	switch {
	case err != nil && e.Context().Err() != nil:
		return ErrLost
	case err != nil:
		return fmt.Errorf("workflow: extend: %w", err)
	case len(reply) != 1 || reply[0] != "ok":
		return ErrLost
	}
	return nil
}

// Release hands the task back to its queue at once, not done. ErrLost: it was not this worker's any more.
func (t *WorkflowTask) Release(ctx context.Context) error {
	if !t.lease.end() {
		return ErrLost
	}
	return t.release(ctx, t.entry.Deliveries-1)
}

func (t *WorkflowTask) release(ctx context.Context, begun int64) error {
	return t.q.release(ctx, t.entry, t.ID, t.Execution, "", begun, false)
}

// Release is that of WorkflowTask.
func (t *ActivityTask) Release(ctx context.Context) error {
	if !t.lease.end() {
		return ErrLost
	}
	return t.release(ctx, t.entry.Deliveries-1)
}

func (t *ActivityTask) release(ctx context.Context, begun int64) error {
	return t.q.release(ctx, t.entry, t.Instance.ID, t.Instance.Execution, t.ref(), begun, false)
}

// release hands an entry back that was begun so often, as far as that counts. pause: and its instance is paused, and begins anew after that.
func (q *queue) release(ctx context.Context, e *stream.Entry, id, x, ref string, begun int64, pause bool) error {
	args := []string{q.s.base, e.Token(), e.ID, id, x, q.name, ref, "0", strconv.FormatInt(begun, 10)}
	if pause {
		args[7] = "1"
	}
	reply, err := releaseScript.Run(ctx, q.s.c.rdb, []string{e.Heartbeat(), q.s.keys.Run(id)}, args...).AsStrSlice()
	if err != nil {
		e.End(false) // it is looked for again
		return fmt.Errorf("workflow: release: %w", err)
	}
	e.End(true)
	if len(reply) != 1 || reply[0] != "ok" {
		return ErrLost
	}
	return nil
}
