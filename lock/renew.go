package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lease"
)

// start begins the renewal of all that expires, in one step.
func (h *Held) start() {
	var loop context.Context
	loop, h.stop = context.WithCancel(context.Background())
	h.ended = make(chan struct{})
	var shortest time.Duration
	for _, s := range h.living() {
		if ttl := s.spec.ttl; shortest == 0 || ttl < shortest {
			shortest = ttl
		}
	}
	if shortest == 0 {
		close(h.ended)
		return
	}
	h.trust = lease.New(h.sent, shortest)
	go func() {
		defer close(h.ended)
		err := h.trust.Keep(loop, func(ctx context.Context, _ time.Duration, again bool) error {
			run := renewScript.Run
			if again { // the answer may wait behind a large reply
				run = renewScript.RunApart
			}
			return h.renew(ctx, run)
		})
		if err != nil {
			for _, s := range h.living() {
				h.forfeit(s, err)
			}
		}
	}()
}

// Extend renews all locks now, for their full time from now. A *LostError means that one is not ours any more, which also ends the context; after any
// other error nothing is known, and what was trusted before still is. One round trip if all keys are in one slot.
func (h *Held) Extend(ctx context.Context) error {
	if errors.Is(context.Cause(h.ctx), ErrReleased) {
		return ErrReleased
	}
	sent := time.Now()
	err := h.renew(ctx, renewScript.Run)
	if lost, ok := errors.AsType[*LostError](context.Cause(h.ctx)); ok {
		return lost
	}
	if err == nil && h.trust != nil {
		h.trust.Given(sent, h.trust.TTL())
	}
	return err
}

// renew asks for more time for all that is not lost, and notes what is. It returns lease.ErrGone when nothing is left.
func (h *Held) renew(ctx context.Context, run func(context.Context, rueidis.Client, []string, ...string) rueidis.RedisResult) error {
	byKey := make(map[string]*taken, len(h.leases))
	var parts []part
	for _, s := range h.living() {
		byKey[s.key()] = s
		parts = append(parts, s.part)
	}
	var errs []error
	for _, group := range h.l.groups(parts) {
		keys, args := h.l.call(group, nil, h.owner)
		reply, err := run(ctx, h.l.rdb, keys, args...).AsStrSlice()
		if err == nil && len(reply) != len(group) {
			err = fmt.Errorf("script replied %q", reply)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("lock: renew %s: %w", names(group), err))
			continue
		}
		for i, p := range group {
			switch {
			case reply[i] == "ok":
			case errors.Is(context.Cause(h.ctx), ErrReleased):
				return ErrReleased // given back while this was under way
			default:
				h.forfeit(byKey[p.key()], nil)
			}
		}
	}
	if len(errs) == 0 && len(parts) > 0 && len(h.living()) == 0 {
		return lease.ErrGone
	}
	return errors.Join(errs...)
}
