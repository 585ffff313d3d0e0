package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/task/internal/wire"
)

// Call runs one task by hand, in this process, for people and for tests: there is no message, so nothing of it is in Redis, it is not tried again, and it tells no group.
// Locks are taken, renewed and given back as in a worker, and a *lock.HeldError says which cannot be had; limiters are skipped. The dependencies of the handler are
// made; those in overrides win. The time limit of the type holds. c must not be nil.
func (t *Type[T, R]) Call(ctx context.Context, c *Client, args T, h Handler, overrides ...Provider) (R, error) {
	var none R
	if h.spec != &t.spec {
		return none, fmt.Errorf("task: call: the handler is not one of type %q: make it with its Handle", t.name)
	}
	raw, err := t.args.AppendArgs(nil, args)
	if err != nil {
		return none, fmt.Errorf("task: call %s: %w", t.name, err)
	}
	value, err := h.callByHand(ctx, c, raw, overrides)
	if err != nil {
		return none, err
	}
	return t.out.DecodeValue(value)
}

// CallJSON is Type.Call for a handler whose type is known by its name only: args is a JSON array of the arguments, "" = none, and what is returned is JSON, too.
func CallJSON(ctx context.Context, c *Client, h Handler, args []byte, overrides ...Provider) ([]byte, error) {
	if len(args) == 0 {
		args = []byte("[]")
	}
	raw, err := wire.FromJSON(args)
	if err == nil {
		m := wire.Message{ID: "-", Name: "-", Args: raw}
		_, err = m.Append(nil)
	}
	if err != nil {
		return nil, fmt.Errorf("task: call %s: arguments: want a JSON array: %w", h.name(), err)
	}
	value, err := h.callByHand(ctx, c, raw, overrides)
	if err != nil {
		return nil, err
	}
	return wire.ToJSON(value)
}

func (h Handler) name() string {
	if h.spec == nil {
		return ""
	}
	return h.spec.name
}

func (h Handler) callByHand(ctx context.Context, c *Client, args []byte, overrides []Provider) ([]byte, error) {
	switch {
	case c == nil:
		return nil, errors.New("task: call: the Client is missing: its Redis has the locks")
	case h.spec == nil:
		return nil, errors.New("task: call: an empty Handler: make it with Type.Handle")
	}
	log := c.log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	now := time.Now()
	r := &run{
		worker: &Worker{client: c, log: log}, handler: &h, entry: &stream.Entry{Deliveries: 1}, queue: queueOf(h.spec.priority, h.spec.size),
		msg:   wire.Message{ID: newID(), Name: h.spec.name, Labels: h.spec.labels, Args: args, Meta: wire.Meta{Enqueued: now.UnixMilli()}},
		keep:  time.Nanosecond, // the value is wanted, whatever the type says
		begun: now, byHand: true, overrides: overrides,
	}
	r.number()
	value, err := r.byHandUnderLocks(ctx)
	if err != nil {
		return nil, fmt.Errorf("task: call %s: %w", h.spec.name, err)
	}
	return value, nil
}

// byHandUnderLocks is execute without a message.
func (r *run) byHandUnderLocks(parent context.Context) ([]byte, error) {
	specs, err := r.specs()
	if err != nil {
		return nil, err
	}
	if len(specs) > 0 {
		if r.held, err = r.take(parent, specs); err != nil {
			return nil, err
		}
		defer r.unlock(parent)
	}
	base, unguard := r.base(parent)
	defer unguard()
	r.limit()
	ctx := r.live(base)
	value, err := r.call(ctx)
	if cause := ctx.close(err); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return value, err
}
