package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/redis/rueidis"
	"go.opentelemetry.io/otel/trace"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/task/internal/wire"
)

// run is one run of a task, from its entry to its outcome.
type run struct {
	worker  *Worker
	handler *Handler
	entry   *stream.Entry
	queue   Queue
	msg     wire.Message
	fence   uint64
	keep    time.Duration // of the result; 0 = not kept
	begun   time.Time
	until   time.Time // zero = no time limit
	held    *lock.Held

	config   *settings     // nil = none
	override *Override     // of it, for this task; see set
	ended    time.Time     // when its context ended; guarded by worker.mu
	told     bool          // that it is stuck; guarded by worker.mu
	handed   atomic.Bool   // its slot in its group is an inner group's now, see Inherit
	members  []*run        // of an aggregate, see batch.go
	out      *outcome      // of a member that has ended for itself
	ctx      *runContext   // of its handler, once that was called: &life; guarded by worker.mu
	life     runContext    // here for it to be no allocation of its own
	span     trace.Span    // nil = there is none
	took     time.Duration // until its outcome was known; 0 = nobody wanted to know
}

// attempt is the number of this run among those that count, from 1.
func (r *run) attempt() int { return int(r.msg.Labels.Int(retryLabel)) + 1 }

func (r *run) grouped() bool { return r.msg.Labels.String("group_id") != "" }

const retryLabel = "_retry_attempt" // how often a task has failed

func (r *run) info() Info {
	return Info{
		ID: r.msg.ID, Name: r.msg.Name, Queue: r.queue, Attempt: r.attempt(), MaxAttempts: r.maxAttempts(),
		Labels: userLabels(r.msg.Labels), GroupID: r.msg.Labels.String("group_id"), ParentID: r.msg.Meta.Parent,
		Enqueued: r.enqueued(), Deadline: r.until, Fence: r.fence, run: r,
	}
}

// userLabels are the labels beside those that say where a task goes, which tasks of peers may lack; nil if there are none.
func userLabels(labels wire.Labels) map[string]string {
	var all map[string]string
	for _, l := range labels {
		if l.Key == "priority" || l.Key == "size" {
			continue
		}
		if all == nil {
			all = make(map[string]string, len(labels))
		}
		all[l.Key] = fmt.Sprint(l.Value)
	}
	return all
}

func (r *run) maxAttempts() int {
	if n := r.msg.Meta.Retries; n > 0 {
		return int(n)
	}
	return maxAttempts(r.retry())
}

// enqueued is when the task was first submitted: said in the message if its entry is not the first.
func (r *run) enqueued() time.Time {
	if at := r.msg.Meta.Enqueued; at > 0 {
		return time.UnixMilli(at)
	}
	return entryTime(r.entry.ID)
}

// entryTime is the server's time at which an entry was added.
func entryTime(id string) time.Time {
	text, _, _ := strings.Cut(id, "-")
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// handle runs one entry and says what is to become of it.
func (w *Worker) handle(ctx context.Context, e *stream.Entry, queue Queue) *outcome {
	r := &run{worker: w, entry: e, queue: queue, begun: time.Now()}
	w.meters.fetch(queue)
	w.fetched.Add(1)
	w.fetchedAt.Store(r.begun.UnixNano())
	var err error
	if r.msg, err = decode(e); err != nil {
		return w.undecodable(r, err)
	}
	r.number()
	r.handler = w.handlers[r.msg.Name]
	if err := r.open(); err != nil {
		return w.undecodable(r, err)
	}
	r.configure()
	o := r.refuse(ctx)
	if o == nil {
		o = r.execute(ctx)
	} else if r.msg.Meta.Blocked > 0 {
		r.leave(ctx)
	}
	o = r.spread(o)
	w.observe(r, o)
	return o
}

// number gives the run its fence: above that of every run before, whether that one failed, was put back, or took its worker with it.
func (r *run) number() {
	r.fence = max(uint64(r.attempt())<<32, uint64(max(r.msg.Meta.Fence, 0))) + uint64(r.entry.Deliveries)
}

// decode reads the message of an entry.
func decode(e *stream.Entry) (wire.Message, error) {
	if e.Data == "" {
		return wire.Message{}, errors.New(`the entry has no field "data"`)
	}
	// The message keeps slices of what it is decoded from, and nobody writes to them.
	return wire.Decode(unsafe.Slice(unsafe.StringData(e.Data), len(e.Data)))
}

// refuse is the outcome of a task that is not to run now, nil if it is.
func (r *run) refuse(ctx context.Context) *outcome {
	w := r.worker
	switch {
	case w.control.cancels(&r.msg):
		return r.end(Cancelled, ErrCancelled)
	case r.msg.Meta.Deadline > 0 && r.serverTime().UnixMilli() > r.msg.Meta.Deadline:
		return r.end(Dead, fmt.Errorf("%w: its deadline was %s", ErrTimeout, time.UnixMilli(r.msg.Meta.Deadline).UTC().Format(time.RFC3339)))
	case w.control.typePaused(r.msg.Name) || !r.set().IsEnabled():
		return r.park()
	case r.handler == nil:
		return r.unknown(fmt.Errorf("%w: %q", ErrUnknownTask, r.msg.Name))
	case r.msg.Kwargs != nil:
		return r.failed(keywords(&r.msg), nil)
	case r.grouped():
		return r.stopped(ctx)
	}
	return nil
}

// keywords is the error of a message with keyword arguments: a peer means something by them, and handlers in Go cannot get them.
func keywords(m *wire.Message) error {
	return &argumentError{fmt.Errorf("handlers in Go take no keyword arguments, the message has %s", clip(string(jsonOf(m.Kwargs)), maxHistoryText))}
}

// stopped asks the group of a child that is not new whether it was cancelled: its mark may be gone by then. One round trip; none for a child that
// has only waited in its queue, and for less than a mark counts.
func (r *run) stopped(ctx context.Context) *outcome {
	if r.msg.Meta.Enqueued == 0 && r.serverTime().Sub(entryTime(r.entry.ID)) < markFor/2 {
		return nil
	}
	c := r.worker.client
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply := c.rdb.Do(call, c.rdb.B().Hget().Key(c.keys.GroupState(r.msg.Labels.String(groupLabel))).Field("stopped").Build())
	err := reply.Error()
	var refused *rueidis.RedisError
	switch {
	case err == nil:
		return r.end(Cancelled, ErrCancelled)
	case errors.As(err, &refused) && !redis.Away(err): // nil, or a key of another type: the group was not stopped
		return nil
	}
	return r.again(Returned, jitter(time.Second), fmt.Errorf("task: state of group %s: %w", r.msg.Labels.String(groupLabel), err))
}

const firstUnknown = 100 * time.Millisecond // before a task whose name or layout a worker does not know is looked at again; it doubles

// unknown puts a task back for workers that know it.
func (r *run) unknown(err error) *outcome {
	n := r.msg.Meta.Unknown
	if n >= int64(r.worker.opts.MaxUnknown) {
		return r.end(Dead, fmt.Errorf("%w, put back %d times", err, n))
	}
	r.msg.Meta.Unknown++
	return r.again(Unknown, jitter(min(firstUnknown<<min(n, 10), time.Minute)), err)
}

// execute takes the locks, calls the handler and judges what it returned.
func (r *run) execute(parent context.Context) *outcome {
	s := r.handler.spec
	r.keep = keepFor(s, r.msg.Meta.Retention)
	if o := r.lock(parent); o != nil {
		return o
	}
	if r.msg.Meta.Start != "" {
		r.releaseStart(parent)
	}
	base, unguard := r.base(parent)
	defer unguard()
	r.limit()
	ctx := r.live(base)
	r.worker.enter(r, ctx)
	returned := false
	defer func() {
		if !returned { // runtime.Goexit, as the FailNow of a test does: the handler has failed, and its slot is another goroutine's now
			o := r.spread(r.conclude(parent, nil, ErrExited))
			r.worker.observe(r, o)
			r.entry.Effect = o
		}
	}()
	value, err := r.through(r.trace(ctx))
	returned = true
	return r.conclude(parent, value, err)
}

// conclude is what follows the handler.
func (r *run) conclude(parent context.Context, value []byte, err error) *outcome {
	r.worker.leave(r)
	cause := r.ctx.close(err)
	r.unlock(parent)
	if r.members != nil {
		return r.judgeBatch(err, cause)
	}
	return r.judge(value, err, cause)
}

// base ends with the parent, or with the first lock that is lost.
func (r *run) base(parent context.Context) (base context.Context, end func()) {
	if r.held == nil {
		return parent, func() {}
	}
	return r.held.Guard(parent)
}

// limit sets the time limits of the run.
func (r *run) limit() {
	timeout := valueOr(r.set().Timeout, r.handler.spec.timeout)
	if own := r.msg.Meta.Timeout; own != 0 {
		timeout = time.Duration(own) * time.Millisecond
	}
	if timeout > 0 {
		r.until = r.begun.Add(timeout)
	}
	if end := r.msg.Meta.Deadline; end > 0 {
		if at := r.begun.Add(time.UnixMilli(end).Sub(r.serverTime())); r.until.IsZero() || at.Before(r.until) {
			r.until = at
		}
	}
}

// ClientFrom is the worker's Client inside a handler, nil outside.
func ClientFrom(ctx context.Context) *Client {
	if r := running(ctx); r != nil {
		return r.worker.client
	}
	return nil
}

// through calls the handler through the middleware. A panic is an error.
func (r *run) through(ctx context.Context) (value []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if all := r.worker.opts.Middleware; len(all) > 0 {
		return r.around(ctx, all)
	}
	return r.handler.call(ctx, r)
}

// around calls the handler through that middleware.
func (r *run) around(ctx context.Context, all []Middleware) (value []byte, err error) {
	next := func(ctx context.Context) (err error) { value, err = r.handler.call(ctx, r); return err }
	info := r.info()
	for i := len(all) - 1; i >= 0; i-- {
		around, inner := all[i], next
		next = func(ctx context.Context) error { return around(ctx, info, inner) }
	}
	err = next(ctx)
	return value, err
}

// judge says what becomes of the task. cause is why its context ended, nil if it did not.
func (r *run) judge(value []byte, err, cause error) *outcome {
	if err == nil {
		return r.done(value)
	}
	return r.judgeError(err, cause)
}

func (r *run) judgeError(err, cause error) *outcome {
	var v *verdict
	var lost *lock.LostError
	switch {
	case errors.Is(cause, ErrLost), errors.Is(cause, ErrStopped):
		return r.again(Returned, 0, err)
	case errors.Is(cause, ErrCancelled):
		return r.end(Cancelled, ErrCancelled)
	case errors.As(err, &v) && v.snooze:
		r.msg.Meta.Snoozes++
		return r.again(Snoozed, v.delay, nil)
	case errors.Is(cause, ErrTimeout) && !errors.Is(err, ErrTimeout):
		err = fmt.Errorf("%w: %w", ErrTimeout, err)
	case errors.As(cause, &lost) && !errors.Is(err, cause):
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return r.failed(err, v)
}

// failed asks the retry policy.
func (r *run) failed(err error, v *verdict) *outcome {
	var args *argumentError
	if errors.As(err, &args) && errors.Is(args, ErrLayout) {
		return r.unknown(args)
	}
	attempt := r.attempt()
	r.msg.Meta.History = append(r.msg.Meta.History, wire.Failure{Attempt: int64(attempt), At: time.Now().UnixMilli(), Error: clip(err.Error(), maxHistoryText)})
	if args != nil || v != nil && v.final {
		return r.end(Dead, err)
	}
	if n := r.msg.Meta.Retries; n > 0 && int64(attempt) >= n {
		return r.end(Dead, err)
	}
	delay, ok := r.retry().Delay(attempt, err)
	if !ok {
		return r.end(Dead, err)
	}
	if v != nil && v.after {
		delay = v.delay
	}
	r.msg.Labels = r.msg.Labels.Set(retryLabel, int64(attempt))
	return r.again(Retried, delay, err)
}

const (
	maxHistoryText = 1024 // bytes of one error in the history
	maxErrorText   = 8 << 10
)

func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// enter and leave keep the list of what runs.
func (w *Worker) enter(r *run, ctx *runContext) {
	w.mu.Lock()
	r.ctx = ctx
	w.running[r] = struct{}{}
	w.mu.Unlock()
	w.meters.enter(r)
}

func (w *Worker) leave(r *run) {
	w.mu.Lock()
	delete(w.running, r)
	told := r.told
	w.mu.Unlock()
	w.meters.leave(r)
	if told {
		w.log.Warn("task: a stuck handler has returned", "task", r.msg.ID, "name", r.msg.Name)
	}
}

func (w *Worker) observe(r *run, o *outcome) {
	r.endSpan(o)
	if w.opts.Observe == nil && w.meters == nil && w.control.watched() == "" {
		return
	}
	if o.members != nil {
		for _, m := range o.members {
			w.observe(m.run, m)
		}
		return
	}
	r.took = time.Since(r.begun)
	e := Event{Outcome: o.kind, Err: o.err, Wait: max(r.inQueue(), 0), Took: r.took}
	w.meters.end(r, o, e.Wait, e.Took)
	if w.opts.Observe == nil {
		return
	}
	if r.handler != nil {
		e.Info = r.info()
		e.Info.Attempt = o.attempt()
	} else {
		e.Info = Info{ID: r.msg.ID, Name: r.msg.Name, Queue: r.queue, run: r}
	}
	w.callback("Observe", func() { w.opts.Observe(e) })
}

// callback calls a function of the user's. Its panic is logged: nothing is wrong with the task that it is told of.
func (w *Worker) callback(name string, f func()) {
	defer func() {
		if v := recover(); v != nil {
			w.log.Error("task: WorkerOptions."+name+" panicked", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	f()
}
