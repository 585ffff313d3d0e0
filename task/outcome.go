package task

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/task/internal/wire"
)

// outcome is what is to become of an entry, for finish.
type outcome struct {
	kind   Outcome
	err    error
	run    *run
	task   string // id
	name   string // of the type, "" = not known
	queue  Queue
	value  []byte        // what a done task returned, msgpack
	keep   time.Duration // how long result is kept
	result []byte        // TaskResult; nil = none is kept
	member []byte        // message of a task that runs again
	delay  time.Duration
	letter []byte // dead letter; nil = none is kept

	members []*outcome // of an aggregate that has ended: those of its members, see batch.go
}

// terminal says that the task has ended.
func (o *outcome) terminal() bool { return o.kind == Done || o.kind == Dead || o.kind == Cancelled }

// attempt is the number of the run that ended so. The message of a task that is retried has that of the next one already.
func (o *outcome) attempt() int {
	if o.kind == Retried {
		return o.run.attempt() - 1
	}
	return o.run.attempt()
}

// keepFor is how long the result of a task is kept, 0 = not at all.
func keepFor(s *spec, own int64) time.Duration {
	switch {
	case own > 0:
		return time.Duration(own) * time.Millisecond
	case own < 0:
		return 0
	}
	return max(s.retention, 0)
}

// done is the outcome of a task that returned value.
func (r *run) done(value []byte) *outcome {
	o := &outcome{kind: Done, run: r, task: r.msg.ID, name: r.msg.Name, queue: r.queue, value: value, keep: r.keep}
	if limit := r.worker.client.opts.MaxMessage; len(value) > limit {
		return r.failed(&resultError{fmt.Errorf("%w: the result has %d bytes, want at most %d (Options.MaxMessage)", ErrTooLarge, len(value), limit)}, nil)
	}
	if r.keep <= 0 {
		return o
	}
	var err error
	result := wire.Result{Value: value, Seconds: time.Since(r.begun).Seconds(), Labels: r.msg.Labels}
	if o.result, err = result.Append(nil); err != nil {
		return r.failed(&resultError{err}, nil)
	}
	if limit := r.worker.client.opts.MaxMessage; len(o.result) > limit {
		return r.failed(&resultError{fmt.Errorf("%w: the result has %d bytes, want at most %d (Options.MaxMessage)", ErrTooLarge, len(o.result), limit)}, nil)
	}
	return o
}

// end is the outcome of a task that is dead or cancelled.
func (r *run) end(kind Outcome, err error) *outcome {
	o := &outcome{kind: kind, err: err, run: r, task: r.msg.ID, name: r.msg.Name, queue: r.queue}
	said := describe(kind, err)
	var retention int64 = -1
	if r.handler != nil {
		retention = int64(keepFor(r.handler.spec, r.msg.Meta.Retention))
	} else if retention = r.msg.Meta.Retention * int64(time.Millisecond); retention == 0 {
		retention = int64(DefaultRetention) // whoever submitted it may wait for it
	}
	if o.keep = time.Duration(retention); o.keep > 0 {
		result := wire.Result{IsErr: true, Seconds: time.Since(r.begun).Seconds(), Err: said, Labels: r.msg.Labels}
		var err error
		if o.result, err = result.Append(nil); err != nil {
			r.worker.log.Error("task: the result of a task that failed is not kept", "task", r.msg.ID, "error", err)
		}
	}
	if kind == Dead && (r.handler == nil || !r.handler.spec.discard) {
		o.letter = r.letter(said, []byte(r.entry.Data), true)
	}
	return o
}

// again is the outcome of a task that runs again after delay.
func (r *run) again(kind Outcome, delay time.Duration, err error) *outcome {
	o := &outcome{kind: kind, err: err, run: r, task: r.msg.ID, name: r.msg.Name, queue: r.queue, delay: delay}
	if r.msg.Meta.Enqueued == 0 {
		r.msg.Meta.Enqueued = entryTime(r.entry.ID).UnixMilli()
	}
	if kind != Retried || r.msg.Meta.Fence > 0 { // else the number of the attempt is enough
		r.msg.Meta.Fence = int64(r.fence)
	}
	var failed error
	if o.member, failed = r.msg.Append(nil); failed != nil {
		return r.end(Dead, errors.Join(err, failed))
	}
	return o
}

// undecodable keeps the bytes of a message that is none.
func (w *Worker) undecodable(r *run, err error) *outcome {
	raw := []byte(r.entry.Data)
	if len(raw) == 0 {
		raw = fmt.Append(nil, r.entry.Fields)
	}
	o := w.unreadable(r, ownName+"raw:"+string(r.queue)+":"+r.entry.ID, raw, err)
	w.observe(r, o)
	return o
}

// unreadable is the outcome of bytes that are no message, under an id of their own.
func (w *Worker) unreadable(r *run, id string, raw []byte, err error) *outcome {
	w.log.Error("task: a message that cannot be read is a dead letter now", "queue", r.queue, "entry", r.entry.ID, "error", err)
	said := &wire.Error{Type: "undecodable", Message: clip(err.Error(), maxErrorText)}
	return &outcome{kind: Dead, err: err, run: r, task: id, queue: r.queue, letter: r.letter(said, raw, false)}
}

// doom is the outcome of a task that took its worker with it too often.
func (w *Worker) doom(e *stream.Entry, queue Queue, err error) *outcome {
	r := &run{worker: w, entry: e, queue: queue, begun: time.Now()}
	var failed error
	if r.msg, failed = decode(e); failed != nil {
		return w.undecodable(r, failed)
	}
	r.number()
	r.handler = w.handlers[r.msg.Name]
	if err := r.open(); err != nil {
		return w.undecodable(r, err)
	}
	o := r.spread(r.end(Dead, err))
	w.observe(r, o)
	return o
}

// describe is an error as it is written down.
func describe(kind Outcome, err error) *wire.Error {
	e := &wire.Error{Type: errorType(err), Message: clip(err.Error(), maxErrorText)}
	if p, ok := errors.AsType[*PanicError](err); ok {
		e.Traceback = clip(string(p.Stack), maxErrorText)
	}
	if kind == Cancelled {
		e.Type = "cancelled"
	}
	return e
}

// errorType names an error by its Go type, without those that only wrap it.
func errorType(err error) string {
	switch {
	case errors.Is(err, stream.ErrDeliveries):
		return "deliveries"
	case errors.Is(err, ErrUnknownTask):
		return "unknown"
	case errors.Is(err, ErrLayout):
		return "layout"
	case errors.Is(err, ErrTimeout):
		return "timeout"
	}
	if v, ok := errors.AsType[*verdict](err); ok && v.err != nil {
		err = v.err
	}
	for {
		name := strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
		inner := errors.Unwrap(err)
		if inner == nil || name != "fmt.wrapError" { // of fmt.Errorf
			return name
		}
		err = inner
	}
}
