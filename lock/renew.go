package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
)

// start begins the renewal, if there is something that expires.
func (h *Held) start() {
	var loop context.Context
	loop, h.stop = context.WithCancel(context.Background())
	h.ended = make(chan struct{})
	period := h.period()
	if period == 0 {
		close(h.ended)
		return
	}
	go func() {
		defer close(h.ended)
		h.keep(loop, period)
	}()
}

// period is a third of the shortest time to live; all are renewed then, in one step.
func (h *Held) period() time.Duration {
	var shortest time.Duration
	for _, s := range h.leases {
		if ttl := s.spec.ttl; ttl > 0 && (shortest == 0 || ttl < shortest) {
			shortest = ttl
		}
	}
	return shortest / 3
}

// keep renews what is held until loop ends or all is lost. What is lost ends the context; the rest is kept until the release, for the work may still
// be on its way out.
func (h *Held) keep(loop context.Context, period time.Duration) {
	pause := period
	var last error
	for {
		left, ok := h.left()
		if !ok || !lifecycle.Sleep(loop, min(pause, left)) {
			return
		}
		if left, ok = h.left(); ok && left > 0 {
			attempt, cancel := context.WithTimeout(loop, left)
			last = h.renew(attempt)
			cancel()
		}
		if loop.Err() != nil {
			return
		}
		h.expire(last)
		pause = period
		if last != nil {
			pause = max(period/8, time.Millisecond)
		}
	}
}

// left is how long all that is not lost yet is trusted.
func (h *Held) left() (shortest time.Duration, ok bool) {
	for _, s := range h.leases {
		if d, living := s.left(); living && (!ok || d < shortest) {
			shortest, ok = d, true
		}
	}
	return shortest, ok
}

// expire gives up what is not trusted any more.
func (h *Held) expire(why error) {
	if why == nil {
		why = errors.New("this process was stopped for too long")
	}
	for _, s := range h.leases {
		if left, living := s.left(); living && left <= 0 {
			h.forfeit(s, why)
		}
	}
}

func (h *Held) forfeit(s *lease, why error) {
	if s.forfeit() {
		err := &LostError{Key: s.key(), Err: why}
		h.l.log.Warn("lock: lost", "key", s.key(), "owner", h.owner, "err", err)
		h.lose(err)
	}
}

// Extend renews all locks now, for their full time from now. A *LostError means that one is not ours any more, which also ends the context; after any
// other error nothing is known, and what was trusted before still is. One round trip if all keys are in one slot.
func (h *Held) Extend(ctx context.Context) error {
	if errors.Is(context.Cause(h.ctx), ErrReleased) {
		return ErrReleased
	}
	if err := h.renew(ctx); err != nil {
		return err
	}
	var lost *LostError
	if errors.As(context.Cause(h.ctx), &lost) {
		return lost
	}
	return nil
}

// renew asks for more time for all that is not lost, and notes what is.
func (h *Held) renew(ctx context.Context) error {
	byKey := make(map[string]*lease, len(h.leases))
	var parts []part
	for _, s := range h.leases {
		if _, living := s.left(); living {
			byKey[s.key()] = s
			parts = append(parts, s.part)
		}
	}
	var errs []error
	for _, group := range h.l.groups(parts) {
		keys, args := h.l.call(group, nil, h.owner)
		sent := time.Now()
		reply, err := renewScript.Run(ctx, h.l.rdb, keys, args...).AsStrSlice()
		if err == nil && len(reply) != len(group) {
			err = fmt.Errorf("script replied %q", reply)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("lock: renew %s: %w", names(group), err))
			continue
		}
		for i, p := range group {
			if s := byKey[p.key()]; reply[i] == "ok" {
				s.trust(sent)
			} else if errors.Is(context.Cause(h.ctx), ErrReleased) {
				return ErrReleased // given back while this was under way
			} else {
				h.forfeit(s, nil)
			}
		}
	}
	return errors.Join(errs...)
}
