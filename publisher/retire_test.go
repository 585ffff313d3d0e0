package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// active says whether a scope is among those that are looked at.
func (p *plant) active(scope isa95.Scope) bool {
	n, err := p.redisDo("SISMEMBER", p.keys.ActiveScopes(), string(scope)).AsInt64()
	testenv.Must(p.t, err)
	return n == 1
}

// rounds waits until the broker was compared with the store n times more.
func (p *plant) rounds(i *instance, n int64) {
	p.t.Helper()
	from := i.Stats().Reconciled
	p.eventually("comparisons", func() error {
		now := i.Stats().Reconciled
		return wrongIf(now < from+n, "%d of %d", now-from, n)
	})
}

// busy compares and renews all the time.
func busy(s *setup) { s.Audit, s.Refresh = 5*time.Millisecond, 5*time.Millisecond }

// The index of a scope without job orders is published once and not renewed, over instances too. When the broker has it no more, the
// scope leaves the active ones; an order that comes later has a higher seq.
func TestScopeWithoutOrdersRetires(t *testing.T) {
	p := newPlant(t)
	i := p.start(busy)
	p.move("old", "JO-1", isa95.Store, isa95.Cancel)
	p.move("used", "JO-2", isa95.Store)
	p.eventually("the topics of the order deleted", func() error {
		n, err := p.redisDo("EXISTS", p.keys.PubIndex("old"), p.keys.PubDone("old")).AsInt64()
		return wrongIf(err != nil || n > 0, "%d keys: %w", n, err)
	})
	p.inSync()
	last := p.index("old").Seq
	p.rounds(i, 3)
	p.forget()
	p.rounds(i, 5)
	if old, used := len(p.messages("old/")), len(p.messages("used/state-index")); old != 0 || used == 0 {
		t.Errorf("%d messages of a scope without orders, %d indexes of the other", old, used)
	}
	i.stop()
	i = p.working(busy)
	p.rounds(i, 5)
	if n := len(p.messages("old/")); n != 0 {
		t.Errorf("another instance sent %d messages of the scope", n)
	}
	if !p.active("old") {
		t.Error("it retired while the broker had its index")
	}

	testenv.Must(t, p.reader.Retain(t.Context(), prefix+"/old/state-index", nil, 0)) // as if it had expired
	p.eventually("the scope retires", func() error {
		return wrongIf(p.active("old"), "it is active")
	})
	p.inSync()
	if has := fmt.Sprint(topics(p.retained())); has != "[used/order/JO-2 used/state-index]" {
		t.Errorf("retained: %s", has)
	}
	p.move("old", "JO-3", isa95.Store)
	p.inSync()
	if x := p.index("old"); x.Seq <= last || len(x.Jobs) != 1 {
		t.Errorf("seq %d with %d orders after seq %d", x.Seq, len(x.Jobs), last)
	}
	p.rounds(i, 3)
	if !p.active("old") {
		t.Error("a scope with an order is not active")
	}
}

// A scope retires only without job orders and after the topics of its last ones were deleted. Its index stays until it expires, and goes
// on with the next order.
func TestRetireAtOnce(t *testing.T) {
	p := newPlant(t)
	retires := func(when string, want error) {
		t.Helper()
		if err := p.store.Retire(t.Context(), "old"); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
	retires("it never had an order", jobstore.ErrNotFound)
	p.move("old", "JO-1", isa95.Store)
	retires("with an order", jobstore.ErrScopeInUse)
	i := p.start()
	p.inSync()
	i.stop()
	p.move("old", "JO-1", isa95.Cancel)
	retires("with topics that are not deleted", jobstore.ErrScopeInUse)
	p.start()
	p.inSync()
	last := p.index("old").Seq
	retires("without an order", nil)
	retires("once more", jobstore.ErrNotFound)
	p.inSync()
	if has := fmt.Sprint(topics(p.retained())); p.active("old") || has != "[old/state-index]" {
		t.Errorf("active %v, retained: %s", p.active("old"), has)
	}
	p.move("old", "JO-2", isa95.Store)
	p.inSync()
	if x := p.index("old"); x.Seq <= last || len(x.Jobs) != 1 {
		t.Errorf("seq %d with %d orders after seq %d", x.Seq, len(x.Jobs), last)
	}
}

// Scopes that retire and get orders at the same time end with all that they shall have.
func TestRetireMeetsAnOrder(t *testing.T) {
	p := newPlant(t)
	p.start(func(s *setup) { s.Audit, s.Block = 5*time.Millisecond, 10*time.Millisecond })
	stop := p.run(func(ctx context.Context) error {
		for ctx.Err() == nil {
			for n := range 5 {
				err := p.store.Retire(ctx, isa95.Scope("s"+strconv.Itoa(n)))
				if err != nil && ctx.Err() == nil && !errors.Is(err, jobstore.ErrScopeInUse) && !errors.Is(err, jobstore.ErrNotFound) {
					return err
				}
			}
		}
		return nil
	})
	for n := range 30 {
		s := isa95.Scope("s" + strconv.Itoa(n%5))
		p.move(s, isa95.JobOrderID(fmt.Sprintf("JO-%d", n)), isa95.Store, isa95.Cancel)
		if n%3 == 0 {
			p.inSync()
		}
		p.move(s, isa95.JobOrderID(fmt.Sprintf("JO-%d-again", n)), isa95.Store)
		if n < 25 {
			p.move(s, isa95.JobOrderID(fmt.Sprintf("JO-%d-again", n)), isa95.Cancel)
		}
	}
	stop()
	p.inSync()
	for n := range 5 {
		s := isa95.Scope("s" + strconv.Itoa(n))
		if x := p.index(s); len(x.Jobs) != 1 || !p.active(s) {
			t.Errorf("%s: %d orders, active %v", s, len(x.Jobs), p.active(s))
		}
		p.seqs(s)
	}
}

// With the shortest expiry: within twice of it, a scope that is not used any more has no retained topic and is not active.
func TestScopeRetiresInTime(t *testing.T) {
	long.Test(t, "waits for topics to expire")
	p := newPlant(t)
	p.start(func(s *setup) { s.RetainedTTL = time.Minute })
	p.move("old", "JO-1", isa95.Store, isa95.Cancel)
	p.inSync(func(s *setup) { s.RetainedTTL = time.Minute })
	began := time.Now()
	p.eventually("the scope retires", func() error {
		left := topics(p.retained())
		return wrongIf(len(left) > 0 || p.active("old"), "topics %v, active %v", left, p.active("old"))
	})
	t.Logf("it retired after %v", time.Since(began).Round(time.Second))
	if took := time.Since(began); took > 2*time.Minute+30*time.Second {
		t.Errorf("it took %v", took)
	}
}
