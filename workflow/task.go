package workflow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/stream"
)

// WorkflowTask is what an instance has to do: events that its code has not seen. It is one worker's at a time. Its methods are safe for concurrent use.
type WorkflowTask struct {
	Info            // of the execution, as it was when the task was handed out
	Events  []Event // new ones, in the order they came; at least one
	Attempt int     // 1, and one more for each worker that died with it

	q      *queue
	entry  *stream.Entry
	cursor string // last of Events in the inbox
	lease  lease
}

// ActivityTask is an activity to be run. It is one worker's at a time, and may be run again if that dies. Its methods are safe for concurrent use.
type ActivityTask struct {
	Instance Instance // that waits for it
	Queue    string
	Event    Event // as it was scheduled
	Attempt  int   // 1, and one more for each worker that died with it

	q     *queue
	entry *stream.Entry
	lease lease
}

// lease hands a task back that nobody cares for.
type lease struct {
	mu    sync.Mutex
	d     time.Duration
	timer *time.Timer
	over  bool
}

func (l *lease) begin(d time.Duration, expired func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.d = d
	l.timer = time.AfterFunc(d, expired)
}

func (l *lease) extend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over && l.timer != nil {
		l.timer.Reset(l.d)
	}
}

// end is true for the first who ends it.
func (l *lease) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.over
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
	return first
}

// handleTask loads the task of an entry and hands it to who waits.
func (q *queue) handleTask(ctx context.Context, e *stream.Entry) (stream.Result, error) {
	q.hot.Store(true)
	words, given := e.Given.([]string)
	if !given {
		var err error
		if words, err = q.begin(ctx, e); err != nil || words == nil {
			return stream.Settled, err
		}
	}
	t, err := q.task(e, words)
	if err != nil {
		return stream.Ack, err
	}
	q.w.workflows.offer(q.name, t, t.back)
	return stream.Later, nil
}

// begin returns what begin.lua does: document, cursor, events; nil if there is nothing to do.
func (q *queue) begin(ctx context.Context, e *stream.Entry) ([]string, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := beginScript.Run(call, q.s.c.rdb, []string{e.Heartbeat(), e.Stream, q.s.keys.Run(e.Fields["i"])}, q.s.base, e.Token(), q.name, e.ID, e.Fields["i"]).AsStrSlice()
	switch {
	case err != nil:
		return nil, fmt.Errorf("workflow: begin: %w", err)
	case len(reply) > 3 && reply[0] == "ok":
		return reply[1:], nil
	case len(reply) == 1 && reply[0] == "none":
		return nil, nil
	}
	return nil, stream.ErrLost
}

// task makes a task of what begin returns.
func (q *queue) task(e *stream.Entry, words []string) (*WorkflowTask, error) {
	info, err := decodeInfo(words[0])
	if err != nil {
		return nil, err
	}
	events, err := decodeEvents(words[2:])
	if err != nil {
		return nil, err
	}
	return &WorkflowTask{Info: info, Events: events, Attempt: int(e.Deliveries), q: q, entry: e, cursor: words[1]}, nil
}

// handleActivity hands an activity to who waits.
func (q *queue) handleActivity(_ context.Context, e *stream.Entry) (stream.Result, error) {
	q.hot.Store(true)
	t, err := q.activity(e)
	if err != nil {
		return stream.Ack, err
	}
	q.w.activities.offer(q.name, t, t.back)
	return stream.Later, nil
}

func (q *queue) activity(e *stream.Entry) (*ActivityTask, error) {
	event, err := decodeEvent(e.Fields["d"])
	if err != nil {
		return nil, err
	}
	return &ActivityTask{Instance: Instance{ID: e.Fields["i"], Execution: e.Fields["x"]}, Queue: q.name, Event: event, Attempt: int(e.Deliveries), q: q, entry: e}, nil
}

// Context ends when the task is not this worker's any more, as far as that is known here: the worker was taken for dead, or stops and the time to drain is over.
func (t *WorkflowTask) Context() context.Context { return t.entry.Context() }

// Context is that of WorkflowTask.
func (t *ActivityTask) Context() context.Context { return t.entry.Context() }

// Extend begins the task's lease anew. ErrLost: it is not this worker's any more, or its instance has ended; stop working on it.
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
	if e.Context().Err() != nil {
		return ErrLost
	}
	l.extend()
	reply, err := extendScript.Run(ctx, q.s.c.rdb, []string{e.Heartbeat(), q.s.keys.Run(id)}, q.s.base, e.Token(), value, field, x).AsStrSlice()
	switch {
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
	return t.q.release(ctx, t.entry, t.ID, t.Execution, "")
}

// Release is that of WorkflowTask.
func (t *ActivityTask) Release(ctx context.Context) error {
	if !t.lease.end() {
		return ErrLost
	}
	return t.q.release(ctx, t.entry, t.Instance.ID, t.Instance.Execution, t.ref())
}

func (q *queue) release(ctx context.Context, e *stream.Entry, id, x, ref string) error {
	reply, err := releaseScript.Run(ctx, q.s.c.rdb, []string{e.Heartbeat(), q.s.keys.Run(id)}, q.s.base, e.Token(), e.ID, id, x, q.name, ref).AsStrSlice()
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

// back hands back what nobody came for.
func (t *WorkflowTask) back() { t.q.giveBack(t.Release) }

func (t *ActivityTask) back() { t.q.giveBack(t.Release) }

// expire hands back what was neither completed nor extended in time.
func (t *WorkflowTask) expire() {
	t.q.w.c.log.Warn("workflow: a workflow task was neither completed nor extended, it is handed back", "instance", t.ID, "queue", t.q.name, "lease", t.q.w.opts.WorkflowLease)
	t.tell()
	t.back()
}

func (t *ActivityTask) expire() {
	t.q.w.c.log.Warn("workflow: an activity was neither completed nor extended, it is handed back", "instance", t.Instance.ID, "queue", t.q.name, "lease", t.q.w.opts.ActivityLease)
	t.back()
}

// tell says that the task is lost.
func (t *WorkflowTask) tell() {
	if t.q.w.opts.Lost != nil {
		t.q.w.opts.Lost(t.Instance)
	}
}

func (q *queue) giveBack(release func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := release(ctx); err != nil && !errors.Is(err, ErrLost) {
		q.w.c.log.Debug("workflow: a task was not handed back, it is found as one of a dead worker", "error", err)
	}
}

// Complete records what came of the task, all or nothing, and ends it. ErrLost: it was not this worker's any more, and nothing was recorded. It is repeated while Redis is away
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
	keys := []string{t.entry.Heartbeat(), s.keys.Run(t.ID), s.keys.Document(t.ID, t.Execution), s.keys.History(t.ID, t.Execution), s.keys.Inbox(t.ID)}
	err = t.q.settle(ctx, t.entry, func(ctx context.Context) rueidis.RedisResult {
		return completeScript.Run(ctx, s.c.rdb, keys, append(args, t.q.w.wanted(s)...)...)
	}, func(ctx context.Context) (bool, error) { return t.recorded(ctx, cp) })
	if err != nil {
		return fmt.Errorf("workflow: complete a task of %s: %w", t.Instance, err)
	}
	return nil
}

// recorded says whether a checkpoint is in the history.
func (t *WorkflowTask) recorded(ctx context.Context, cp Checkpoint) (bool, error) {
	if len(cp.Executed) == 0 {
		return false, nil
	}
	h, err := t.q.s.c.History(ctx, t.Instance, cp.Executed[0].Sequence-1)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return len(h) > 0 && h[0].ID == cp.Executed[0].ID, err
}

// Complete records the result of the activity and ends it. ErrLost: it was not this worker's any more, another has completed it, or nobody waits for it; nothing was
// recorded. It is repeated while Redis is away until ctx ends; after any other error it is unknown whether it was recorded.
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
	err = t.q.settle(ctx, t.entry, func(ctx context.Context) rueidis.RedisResult {
		return settleScript.Run(ctx, s.c.rdb, []string{t.entry.Heartbeat(), s.keys.Run(t.Instance.ID)}, append(args, t.q.w.wanted(s)...)...)
	}, func(context.Context) (bool, error) {
		// The entry goes with the result or with its instance, and with nothing else while the token is ours.
		return t.entry.Context().Err() == nil, nil
	})
	if err != nil {
		return fmt.Errorf("workflow: complete an activity of %s: %w", t.Instance, err)
	}
	return nil
}

// settle runs a script that ends an entry and takes in what it read. After a lost answer recorded says whether it had been done.
func (q *queue) settle(ctx context.Context, e *stream.Entry, run func(context.Context) rueidis.RedisResult, recorded func(context.Context) (bool, error)) error {
	unknown := false
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		reply, err := run(call).ToArray()
		cancel()
		if err == nil {
			return q.settled(ctx, e, reply, unknown, recorded)
		}
		unknown = true
		if !redis.Away(err) || ctx.Err() != nil || e.Context().Err() != nil || !lifecycle.Sleep(ctx, pause) {
			e.End(false) // it is looked for again
			return err
		}
	}
}

func (q *queue) settled(ctx context.Context, e *stream.Entry, reply []rueidis.RedisMessage, unknown bool, recorded func(context.Context) (bool, error)) error {
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
		if done, err = recorded(ctx); err != nil {
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

// wanted is what a script is to fetch for those who wait, in the words of fetch.
func (w *Worker) wanted(s *shard) []string {
	words := []string{"0"}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for ref, q := range w.queues {
		if ref.shard != s.n || !q.hot.Load() {
			continue
		}
		free := w.freeOf(q)
		if free == 0 {
			continue
		}
		n++
		words = append(words, ref.kind, ref.name, strconv.Itoa(min(free, mostFetched)))
	}
	words[0] = strconv.Itoa(n)
	return words
}

const mostFetched = 16 // of one queue by one script

func (w *Worker) freeOf(q *queue) int {
	if q.kind == tasks {
		return w.workflows.free(q.name)
	}
	return w.activities.free(q.name)
}

// takeIn offers what a script fetched to its queues. What they do not take is pending for this worker, and found.
func (w *Worker) takeIn(s *shard, token string, list []rueidis.RedisMessage) {
	for _, m := range list {
		part, err := m.ToArray()
		if err != nil || len(part) < 4 {
			w.c.log.Error("workflow: a script's fetched task cannot be read, it is found later", "error", err, "parts", len(part))
			continue
		}
		kind, _ := part[0].ToString()
		name, _ := part[1].ToString()
		id, _ := part[2].ToString()
		fields, _ := part[3].AsStrSlice()
		var given any
		if kind == tasks && len(part) > 4 {
			words, _ := part[4].AsStrSlice()
			given = words
		}
		w.mu.Lock()
		q := w.queues[queueRef{s.n, kind, name}]
		w.mu.Unlock()
		all := make(map[string]string, len(fields)/2)
		for i := 0; i+1 < len(fields); i += 2 {
			all[fields[i]] = fields[i+1]
		}
		if q != nil {
			q.group.Offer(token, s.keys.Queue(kind, name), id, all, given)
		}
	}
}

// deadTask pauses an instance whose task killed worker after worker.
func (q *queue) deadTask(ctx context.Context, e *stream.Entry, cause error) error {
	id := e.Fields["i"]
	q.w.c.log.Error("workflow: the instance is paused, its task killed worker after worker; resume it once that is mended", "instance", id, "error", cause)
	if err := q.s.pauseInstance(ctx, id, true); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return q.release(ctx, e, id, q.s.executionOf(ctx, id), "")
}

// deadActivity lets an activity fail that killed worker after worker.
func (q *queue) deadActivity(ctx context.Context, e *stream.Entry, cause error) error {
	t, err := q.activity(e)
	if err != nil {
		return err
	}
	event := failure(t, cause)
	if q.w.opts.Failure != nil {
		event = q.w.opts.Failure(t, cause)
	}
	event.ID, event.Ref, event.Time = newID(), t.Event.Ref, time.Now()
	text, err := q.s.c.encode("failure", event)
	if err != nil {
		return err
	}
	return settleScript.Run(ctx, q.s.c.rdb, []string{e.Heartbeat(), q.s.keys.Run(t.Instance.ID)},
		q.s.base, e.Token(), e.Consumer(), e.ID, t.Instance.ID, t.Instance.Execution, t.Queue, t.ref(), text, "0").Error()
}
