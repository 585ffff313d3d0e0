package task

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/taktworks/takt/task/internal/wire"
)

var membersCodec = must(wire.NewCodec[[][]byte](wire.ByPosition))

// HandleBatch is Handle for a type with Aggregate: f gets the tasks that were collected, in the order of their submission, one at least. Each of them ends on its own, with its
// own result (if it was submitted with Keep), dead letter and count:
//
//   - f returns nil: all are done.
//   - f returns a *BatchError: those that it names by their place in jobs have failed; they are retried one by one, or dead, as the type's retry policy says of
//     each error. The others are done.
//   - f returns another error: all have failed. They are retried together, and dead together.
//
// What was cancelled, or is past its Deadline, when the call begins, ends without it.
func (t *Type[T, R]) HandleBatch(f func(ctx context.Context, jobs []*Job[T]) error) Handler {
	h := Handler{spec: &t.spec, batch: true}
	h.call = func(ctx context.Context, r *run) ([]byte, error) {
		if r.members == nil {
			args, err := t.arguments(r)
			if err != nil {
				return nil, err
			}
			err = f(ctx, []*Job[T]{{Info: r.info(), Args: args}})
			if some, ok := errors.AsType[*BatchError](err); ok {
				err = some.Errs[0]
			}
			return nil, err
		}
		jobs := make([]*Job[T], 0, len(r.members))
		for _, m := range r.members {
			if m.out != nil {
				continue
			}
			args, err := t.arguments(m)
			if err != nil {
				m.out = m.failed(err, nil)
				continue
			}
			m.until = r.until
			jobs = append(jobs, &Job[T]{Info: m.info(), Args: args})
		}
		if len(jobs) == 0 {
			return nil, nil
		}
		return nil, f(ctx, jobs)
	}
	return h
}

// open makes the members of an aggregate. An aggregate that cannot be read has none, and is dead as any other message.
func (r *run) open() error {
	if is, _ := r.msg.Labels.Get(batchLabel); is != true {
		return nil
	}
	raw, err := membersCodec.DecodeArgs(r.msg.Args)
	if err != nil {
		return err
	}
	if len(raw) == 0 {
		return errors.New("task: an aggregate without members")
	}
	r.members = make([]*run, len(raw))
	for i, b := range raw {
		m := &run{worker: r.worker, handler: r.handler, entry: r.entry, queue: r.queue, begun: r.begun}
		r.members[i] = m
		if m.msg, err = wire.Decode(b); err != nil {
			m.out = r.worker.unreadable(m, ownName+"raw:"+string(r.queue)+":"+r.entry.ID+":"+strconv.Itoa(i), b, err)
			continue
		}
		if r.handler != nil {
			m.keep = keepFor(r.handler.spec, m.msg.Meta.Retention)
		}
		if n := r.attempt() - 1; n > 0 {
			m.msg.Labels = m.msg.Labels.Set(retryLabel, int64(n))
		}
		m.msg.Meta.History = r.msg.Meta.History
		m.msg.Meta.Fence = max(m.msg.Meta.Fence, r.msg.Meta.Fence)
		m.number()
		switch end := m.msg.Meta.Deadline; {
		case r.worker.control.cancels(&m.msg):
			m.out = m.end(Cancelled, ErrCancelled)
		case end > 0 && r.serverTime().UnixMilli() > end:
			m.out = m.end(Dead, fmt.Errorf("%w: its deadline was %s", ErrTimeout, time.UnixMilli(end).UTC().Format(time.RFC3339)))
		case m.msg.Kwargs != nil && r.handler != nil:
			m.out = m.end(Dead, keywords(&m.msg))
		}
	}
	return nil
}

// judgeBatch is judge for an aggregate.
func (r *run) judgeBatch(err, cause error) *outcome {
	var some *BatchError
	if !errors.As(err, &some) {
		return r.spread(r.judge(nil, err, cause))
	}
	i := -1
	for _, m := range r.members {
		if m.out != nil {
			continue
		}
		if i++; some.Errs[i] != nil {
			m.out = m.judge(nil, some.Errs[i], cause)
		}
	}
	return r.spread(r.done(nil))
}

// spread gives the members of an aggregate that has ended their own ends. One that runs again keeps them all.
func (r *run) spread(o *outcome) *outcome {
	if r.members == nil || !o.terminal() {
		return o
	}
	o.members = make([]*outcome, len(r.members))
	for i, m := range r.members {
		if m.out == nil && o.kind == Done {
			m.out = m.done(nil)
		} else if m.out == nil {
			m.msg.Meta.History = r.msg.Meta.History
			m.msg.Meta.Fence = max(m.msg.Meta.Fence, r.msg.Meta.Fence)
			m.number()
			m.out = m.end(o.kind, o.err)
		}
		o.members[i] = m.out
	}
	return o
}
