package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// releaseTime bounds a release.
const releaseTime = 5 * time.Second

// Release gives all locks back, each for itself, in reverse order, and ends the context with ErrReleased. woken are the waiters whose turn it
// is now; they have been told on the channel lock:wake, and whoever keeps waiters elsewhere starts them. It works also when ctx has ended, for
// at most 5 s. It never makes work that was done undone: an error is to be logged. A *LostError names a lock that was not ours any more, so
// that the work may not have been alone; after any other the locks expire. One round trip if all keys are in one slot; none if there is
// nothing to give back but rates, whose quota stays used. A second call does nothing.
func (h *Held) Release(ctx context.Context) (woken []string, err error) { return h.end(ctx, false) }

// Refund is Release for work that did not begin: the quota of rates is given back, too.
func (h *Held) Refund(ctx context.Context) (woken []string, err error) { return h.end(ctx, true) }

func (h *Held) end(ctx context.Context, refund bool) (woken []string, err error) {
	h.once.Do(func() {
		h.stop()
		<-h.ended
		h.lose(ErrReleased)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
		defer cancel()
		woken, err = h.give(ctx, refund)
	})
	return woken, err
}

// give gives back what there is, each group for itself.
func (h *Held) give(ctx context.Context, refund bool) (woken []string, _ error) {
	var parts []part
	marks := make(map[string]string, len(h.leases))
	for _, s := range slices.Backward(h.leases) {
		if s.spec.kind == kindRate && !refund {
			continue
		}
		parts = append(parts, s.part)
		marks[s.key()] = s.mark
	}
	flag := "0"
	if refund {
		flag = "1"
	}
	var errs []error
	for _, group := range h.l.groups(parts) {
		groupMarks := make([]string, len(group))
		for i, p := range group {
			groupMarks[i] = marks[p.key()]
		}
		keys, args := h.l.call(group, groupMarks, h.owner, flag)
		reply, err := giveScript.Run(ctx, h.l.rdb, keys, args...).AsStrSlice()
		if err == nil && len(reply) < len(group) {
			err = fmt.Errorf("script replied %q", reply)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("lock: release %s: %w", names(group), err))
			continue
		}
		for i, p := range group {
			if reply[i] != "ok" {
				errs = append(errs, &LostError{Key: p.key()})
			}
		}
		woken = append(woken, reply[len(group):]...)
	}
	return woken, errors.Join(errs...)
}
