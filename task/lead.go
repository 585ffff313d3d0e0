package task

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis/script"
)

//go:embed lead.lua
var leadLua string

var leadScript = script.New("task/lead", leadLua)

// errNotLeader: another scheduler leads by now, or may; nothing was written.
var errNotLeader = errors.New("task: this scheduler leads no more")

// epoch makes times comparable by the monotonic clock alone.
var epoch = time.Now()

// leader is a Scheduler from one election until it leads no more. Its entries are one goroutine's.
type leader struct {
	s       *Scheduler
	term    int64
	until   atomic.Int64 // it leads without doubt until then: nanoseconds since epoch
	entries map[string]*tracked
	read    time.Time // when all entries were read
	reread  bool
	warned  map[string]bool
	config  Config
	text    string // of config
}

// take tries to be elected. If that fails, l is nil and wait says when to try again.
func (s *Scheduler) take(ctx context.Context) (l *leader, wait time.Duration) {
	l = &leader{s: s, reread: true, warned: make(map[string]bool)}
	sent := time.Now()
	n, ok, err := s.leadCall(ctx, "take", s.election)
	switch {
	case err != nil && ctx.Err() != nil:
		s.give(ctx, 0) // its reply may have been lost
		return nil, 0
	case err != nil:
		s.log.Warn("task: no scheduler can be elected, Redis does not answer as it should", "error", err)
		return nil, candidatePoll/2 + rand.N(candidatePoll/2)
	case ok:
		s.election, l.term = n, n
		l.trust(sent)
		return l, 0
	case n < 0:
		return nil, candidatePoll
	}
	return nil, min(time.Duration(n)*time.Millisecond+rand.N(20*time.Millisecond)+time.Millisecond, candidatePoll)
}

// trust sets how long the leader believes in its lease. It asks the clock, not a timer, so it is right also in the first instant after a pause of the process.
func (l *leader) trust(sent time.Time) {
	ttl := l.s.opts.Lease
	l.until.Store(int64(sent.Sub(epoch) + ttl - ttl/10)) // the rest is for clocks that run apart
}

func (l *leader) left() time.Duration { return time.Duration(l.until.Load()) - time.Since(epoch) }

// lead submits what is due until ctx ends, or the lease is lost, and says why. In the first case it resigns.
func (l *leader) lead(ctx context.Context) error {
	life, lose := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { l.keep(life, lose) })
	err := l.run(life)
	if cause := context.Cause(life); errors.Is(cause, errNotLeader) {
		err = cause
	}
	lose(nil)
	keeping.Wait()
	if !errors.Is(err, errNotLeader) {
		l.s.give(ctx, l.term)
	}
	return err
}

// keep renews the lease every third of it, or ends life when it could not.
func (l *leader) keep(life context.Context, lose context.CancelCauseFunc) {
	ttl := l.s.opts.Lease
	for pause := ttl / 3; lifecycle.Sleep(life, min(pause, l.left())); {
		if l.left() <= 0 {
			lose(errNotLeader)
			return
		}
		call, cancel := context.WithTimeout(life, l.left())
		sent := time.Now()
		_, kept, err := l.s.leadCall(call, "keep", l.term)
		cancel()
		switch {
		case kept:
			l.trust(sent)
			pause = ttl / 3
		case err == nil:
			lose(errNotLeader)
			return
		default:
			pause = max(ttl/20, time.Millisecond)
		}
	}
}

// give lets the next one lead. Should that fail, the lease expires by itself.
func (s *Scheduler) give(ctx context.Context, term int64) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, _, err := s.leadCall(call, "give", term); err != nil {
		s.log.Warn("task: the scheduler's lease cannot be given back, it expires", "error", err)
	}
}

func (s *Scheduler) leadCall(ctx context.Context, action string, term int64) (n int64, ok bool, err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	k := s.client.keys
	reply, err := leadScript.Run(call, s.client.rdb, []string{k.SchedulerLock(), k.SchedulerTerm()},
		action, s.token(), ms(s.opts.Lease), strconv.FormatInt(term, 10), k.SchedulerEntries()).AsIntSlice()
	if err != nil {
		return 0, false, err
	}
	if len(reply) != 2 {
		return 0, false, fmt.Errorf("task: lead.lua replied %v", reply)
	}
	if reply[0] < 0 {
		s.log.Warn(script.SteppedBack, "key", k.SchedulerLock())
	}
	return reply[1], reply[0] == 1, nil
}

// token is what the scheduler lock holds while s leads.
func (s *Scheduler) token() string { return script.WithTTL(s.opts.ID, s.opts.Lease) }

// SchedulerLeader is who submits periodic tasks now: the ID of the Scheduler, "" if nobody does, and the number of its election. One round trip.
func (c *Client) SchedulerLeader(ctx context.Context) (id string, term int64, err error) {
	b := c.rdb.B()
	replies := c.rdb.DoMulti(ctx, b.Get().Key(c.keys.SchedulerLock()).Build(), b.Get().Key(c.keys.SchedulerTerm()).Build())
	token, err := replies[0].ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return "", 0, fmt.Errorf("task: scheduler: %w", err)
	}
	if term, err = replies[1].AsInt64(); err != nil && !rueidis.IsRedisNil(err) {
		return "", 0, fmt.Errorf("task: scheduler: %w", err)
	}
	return script.WithoutTTL(token), term, nil
}
