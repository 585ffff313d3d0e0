package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lease"
	"github.com/taktworks/takt/internal/redis/script"
)

var leadScript = script.Load(files, "task/lead")

// errNotLeader: another scheduler leads by now, or may; nothing was written.
var errNotLeader = errors.New("task: this scheduler leads no more")

// leader is a Scheduler from one election until it leads no more. Its entries are one goroutine's.
type leader struct {
	s       *Scheduler
	term    int64
	trust   *lease.Lease
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
		l.trust = lease.New(sent, s.opts.Lease)
		return l, 0
	case n < 0:
		return nil, candidatePoll
	}
	return nil, min(time.Duration(n)*time.Millisecond+rand.N(20*time.Millisecond)+time.Millisecond, candidatePoll)
}

// lead submits what is due until ctx ends, or the lease is lost, and says why. In the first case it resigns.
func (l *leader) lead(ctx context.Context) error {
	life, lose := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() {
		if err := l.trust.Keep(life, l.keep); err != nil {
			lose(fmt.Errorf("%w: %w", errNotLeader, err))
		}
	})
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

// keep asks for more of the lease.
func (l *leader) keep(ctx context.Context, _ time.Duration, _ bool) error {
	_, kept, err := l.s.leadCall(ctx, "keep", l.term)
	if err == nil && !kept {
		err = lease.ErrGone
	}
	return err
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
	run := leadScript.Run
	if action == "keep" { // it must not wait behind large replies
		run = leadScript.RunApart
	}
	reply, err := run(call, s.client.rdb, []string{k.SchedulerLock(), k.SchedulerTerm()},
		action, s.opts.ID, ms(s.opts.Lease), strconv.FormatInt(term, 10), k.SchedulerEntries()).AsIntSlice()
	if err != nil {
		return 0, false, err
	}
	if len(reply) != 2 {
		return 0, false, fmt.Errorf("task: lead.lua replied %v", reply)
	}
	return reply[1], reply[0] == 1, nil
}

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
	return token, term, nil
}
