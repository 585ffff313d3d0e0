package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/task/internal/wire"
)

// Trial is what a handler finds when Type.Try runs it. The zero value is the first run of a task that was submitted just now.
type Trial struct {
	ID       string            // "" = a new one
	Attempt  int               // 0 = 1
	Labels   map[string]string // as for WithLabels
	GroupID  string            // "" = in no group
	ParentID string            // "" = not submitted by a task
	Enqueued time.Time         // when it was submitted; zero = now
	Deadline time.Time         // zero = none
	Timeout  time.Duration     // of the run, to the millisecond; 0 = that of the type, negative = none

	// Client is what Info.Client and ClientFrom return. nil = none: then the handler must not submit tasks.
	Client *Client
	// Middleware runs around the handler, the first outermost.
	Middleware []Middleware
}

// Tried is how a run by Type.Try ended.
type Tried[R any] struct {
	Value   R
	Err     error         // of the run, for errors.Is and errors.As; nil if it succeeded
	Outcome Outcome       // what a worker would make of it
	Delay   time.Duration // until the task would run again, if Outcome is Retried or Snoozed
	Took    time.Duration // of the run
}

// Try runs a handler once, here and now, as a worker would, but without Redis: arguments and result are encoded and decoded, the middleware runs around the
// handler, the context has the run's time limit, a panic is an error, and the type's retry policy says what would come next. Locks are not taken, and nothing is stored. It is
// what package tasktest is made of. The error is that of the call: h is no handler of t, or the task is one that Submit would refuse.
func (t *Type[T, R]) Try(ctx context.Context, h Handler, args T, o Trial) (tried Tried[R], err error) {
	r, err := t.trial(ctx, h, args, o)
	if err != nil {
		return tried, err
	}
	value, out := r.try(ctx)
	tried.Outcome, tried.Err, tried.Delay, tried.Took = out.kind, out.err, out.delay, time.Since(r.begun)
	if out.kind == Done {
		tried.Value, err = t.out.DecodeValue(value)
	}
	return tried, err
}

// trial is the run of a task that went through a message.
func (t *Type[T, R]) trial(ctx context.Context, h Handler, args T, o Trial) (*run, error) {
	switch {
	case h.spec == nil:
		return nil, errors.New("task: Try: an empty Handler: make it with Type.Handle")
	case h.spec != &t.spec:
		return nil, fmt.Errorf("task: Try: the handler is one of %q, want one of %q", h.spec.name, t.name)
	case o.Attempt < 0:
		return nil, fmt.Errorf("task: Trial.Attempt %d: want 1 or more, 0 for 1", o.Attempt)
	}
	c := o.Client
	if c == nil {
		c = &Client{opts: Options{MaxMessage: defaultMaxMessage}}
	}
	s, err := t.submission(ctx, c, args, []SubmitOption{submitOption(o.apply)})
	if err != nil {
		return nil, err
	}
	s.meta.Parent = o.ParentID
	raw, err := c.encode(&t.spec, s)
	if err != nil {
		return nil, err
	}
	r := &run{
		worker:  &Worker{client: c, opts: WorkerOptions{Middleware: o.Middleware}, log: slog.New(slog.DiscardHandler)},
		handler: &h, queue: t.Queue(), begun: time.Now(),
		keep: time.Nanosecond, // the value is wanted, whatever the type says
	}
	r.entry = &stream.Entry{ID: strconv.FormatInt(r.begun.UnixMilli(), 10) + "-0", Data: string(raw), Deliveries: 1}
	if r.msg, err = decode(r.entry); err == nil {
		r.number()
	}
	return r, err
}

func (o Trial) apply(s *submission) {
	s.labels = o.Labels
	if o.ID != "" {
		s.id = o.ID
	}
	if !o.Enqueued.IsZero() {
		s.meta.Enqueued = o.Enqueued.UnixMilli()
	}
	if !o.Deadline.IsZero() {
		s.meta.Deadline = o.Deadline.UnixMilli()
	}
	if o.Timeout != 0 {
		RunTimeout(o.Timeout).applySubmit(s)
	}
	if o.GroupID != "" {
		s.own = append(s.own, wire.Label{Key: "group_id", Value: o.GroupID})
	}
	if o.Attempt > 1 {
		s.own = append(s.own, wire.Label{Key: retryLabel, Value: int64(o.Attempt - 1)})
	}
}

// try calls the handler and judges what it returned.
func (r *run) try(parent context.Context) ([]byte, *outcome) {
	r.limit()
	ctx := r.live(parent)
	value, err := r.through(ctx)
	cause := ctx.close(err)
	if err == nil {
		return value, &outcome{kind: Done}
	}
	o := r.judge(nil, err, cause)
	if o.err == nil {
		o.err = err
	}
	return nil, o
}
