package lock

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TryOptions are those of Try. The zero value asks once, for an owner of its own.
type TryOptions struct {
	// Owner is who will have the locks; 1 to 128 bytes of UTF-8 without control characters. "" = 128 random bits in hex. Locks are not
	// re-entrant: an owner that has one is refused it. Only a slot of a concurrency limiter is had again by its owner, for longer.
	Owner string

	// Waiter is who gets a place in the line of the lock that refuses: who comes later is refused until the waiter had its turn. When that comes,
	// its name is among the woken (Held.Release, HeldError.Woken, and the channel lock:wake); then it has a second to try again under this name, or
	// loses its place. "" = no place: then it may be passed by anybody.
	Waiter string

	// WaitFor is how long the place is kept, from this try on; at least 2 s, 0 = 30 s. For Write without Waiter: how long, after
	// being refused because of readers, new readers are held off so that a later try finds none; 0 = 2 s.
	WaitFor time.Duration
}

const (
	minPlace      = 2 * grace
	defaultPlace  = 30 * time.Second
	defaultIntent = 2 * time.Second
)

func (o TryOptions) withDefaults() (TryOptions, error) {
	if o.Owner == "" {
		o.Owner = newOwner()
	}
	if err := checkPart("TryOptions.Owner", o.Owner); err != nil {
		return o, err
	}
	usual := defaultIntent
	if o.Waiter != "" {
		if err := checkPart("TryOptions.Waiter", o.Waiter); err != nil {
			return o, err
		}
		usual = defaultPlace
	}
	o.WaitFor = cmp.Or(o.WaitFor, usual)
	if o.WaitFor < minPlace {
		return o, &SpecError{"TryOptions.WaitFor", o.WaitFor.String(), "must be 0 (the default) or at least " + minPlace.String()}
	}
	return o, nil
}

func newOwner() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	return hex.EncodeToString(b[:])
}

// Try takes all of specs or none and never waits. A *HeldError says who has one of them; a *SpecError, an *UnknownTypeError or a *TypeError what is
// wrong. After any other error it is unknown whether they were taken: Try then gives them back, for at most 2 s; if that fails too they
// expire, and quota of rates stays used up.
//
// It is one script and one round trip if all keys are in one slot, as they are on a single server. Else the locks are taken one by one, in
// an order that is the same for everybody, limiters last and rates last of all; when one refuses, those before it are given back with
// their quota. The locks are renewed until Release, which must be called; ctx bounds the asking only.
func (l *Locker) Try(ctx context.Context, specs []Spec, o TryOptions) (*Held, error) {
	parts, err := l.parts(specs)
	if err != nil {
		return nil, err
	}
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	h := newHeld(ctx, l, o.Owner)
	for _, group := range l.groups(parts) {
		if err := h.take(ctx, group, o); err != nil {
			h.rollBack(ctx, err)
			return nil, err
		}
	}
	h.start()
	return h, nil
}

// take adds a group of locks to h. After an error with an unknown outcome they are in h too, to be given back.
func (h *Held) take(ctx context.Context, group []part, o TryOptions) error {
	keys, args := h.l.call(group, nil, o.Owner, o.Waiter, milliseconds(o.WaitFor))
	sent := time.Now()
	reply, err := takeScript.Run(ctx, h.l.rdb, keys, args...).AsStrSlice()
	if err == nil && len(reply) == len(group)+2 && reply[0] == "ok" {
		return h.add(group, sent, reply[1], reply[2:])
	}
	if err == nil {
		err = refusal(group, reply)
	}
	_, held := errors.AsType[*HeldError](err)
	_, typ := errors.AsType[*TypeError](err)
	if held || typ {
		return err
	}
	for _, p := range group {
		h.leases = append(h.leases, &taken{part: p})
	}
	return fmt.Errorf("lock: try %s: %w", names(group), err)
}

// add notes what was taken. Trust is counted from before the request was sent.
func (h *Held) add(group []part, sent time.Time, micros string, marks []string) error {
	us, err := strconv.ParseInt(micros, 10, 64)
	if err != nil {
		return fmt.Errorf("lock: script replied %q as its time", micros)
	}
	h.at = time.UnixMicro(us)
	if h.sent.IsZero() {
		h.sent = sent
	}
	for i, p := range group {
		s := &taken{part: p, mark: marks[i]}
		if !p.spec.Limiter() {
			if s.fence, err = strconv.ParseUint(marks[i], 10, 64); err != nil {
				return fmt.Errorf("lock: script replied %q as a fence", marks[i])
			}
		}
		h.leases = append(h.leases, s)
	}
	return nil
}

// refusal is what take.lua says other than ok.
func refusal(group []part, reply []string) error {
	if len(reply) == 4 && reply[0] == "type" {
		return &TypeError{Key: reply[1], Want: reply[2], Have: reply[3]}
	}
	if len(reply) < 6 || reply[0] != "held" {
		return fmt.Errorf("script replied %q", reply)
	}
	n, err := integers(reply[1], reply[3], reply[4], reply[5])
	if err != nil || n[0] < 1 || int(n[0]) > len(group) {
		return fmt.Errorf("script replied %q", reply)
	}
	p := group[n[0]-1]
	e := &HeldError{Spec: p.spec, Key: p.key(), Owner: reply[2], Ahead: int(n[3]), Woken: reply[6:]}
	if n[1] >= 0 && e.Owner != "" {
		e.Until = time.Now().Add(time.Duration(n[1]) * time.Millisecond)
	}
	if n[2] >= 0 {
		e.RetryAfter = max(time.Duration(n[2])*time.Microsecond, time.Millisecond)
	}
	return e
}

// integers reads words of a reply.
func integers(words ...string) (n []int64, err error) {
	n = make([]int64, len(words))
	for i, word := range words {
		if n[i], err = strconv.ParseInt(word, 10, 64); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func names(group []part) string {
	all := make([]string, len(group))
	for i, p := range group {
		all[i] = p.key()
	}
	return strings.Join(all, ", ")
}

// rollBack gives back, with its quota, what was taken before err.
func (h *Held) rollBack(ctx context.Context, err error) {
	h.lose(ErrReleased)
	if len(h.leases) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	woken, failed := h.give(ctx, true)
	if _, lost := errors.AsType[*LostError](failed); failed != nil && !lost {
		h.l.log.Warn("lock: cannot give back what was taken; it expires", "err", failed, "because", err)
	}
	if held, ok := errors.AsType[*HeldError](err); ok {
		held.Woken = append(held.Woken, woken...)
	}
}
