package publisher_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// active says whether a scope is among those that are looked at.
func (p *plant) active(scope isa95.Scope) bool {
	n, err := p.redisDo("SISMEMBER", p.keys.ActiveScopes(), string(scope)).AsInt64()
	if err != nil {
		p.t.Fatal(err)
	}
	return n == 1
}

// restsUntil waits until a scope is noted as idle, and says until when.
func (p *plant) restsUntil(scope isa95.Scope) (until time.Time) {
	p.t.Helper()
	p.eventually("the scope is idle", func() error {
		score, err := p.redisDo("ZSCORE", p.keys.PubIdle(), string(scope)).AsFloat64()
		until = time.UnixMilli(int64(score))
		return err
	})
	return until
}

// rounds waits until the broker was compared with the store n times more.
func (p *plant) rounds(i *instance, n int64) {
	p.t.Helper()
	from := i.Stats().Reconciled
	p.eventually("comparisons", func() error {
		if now := i.Stats().Reconciled; now < from+n {
			return fmt.Errorf("%d of %d", now-from, n)
		}
		return nil
	})
}

// busy compares and renews all the time.
func busy(s *setup) { s.Audit, s.Refresh = 5*time.Millisecond, 5*time.Millisecond }

// The index of a scope without job orders is published once and not renewed, over instances too. When it has expired the scope leaves
// the active ones; an order that comes later has a higher seq.
func TestScopeWithoutOrdersRetires(t *testing.T) {
	p := newPlant(t)
	i := p.start(busy)
	p.move("old", "JO-1", isa95.Store, isa95.Cancel)
	p.move("used", "JO-2", isa95.Store)
	p.inSync()
	until := p.restsUntil("old")
	if left := until.Sub(p.store.Now()); left < 47*time.Hour || left > 48*time.Hour {
		t.Errorf("it rests for %v", left)
	}
	last := p.index("old").Seq
	p.rounds(i, 3)
	p.forget()
	p.rounds(i, 5)
	if old, used := len(p.messages("old/")), len(p.messages("used/state-index")); old != 0 || used == 0 {
		t.Errorf("%d messages of a scope without orders, %d indexes of the other", old, used)
	}
	i.stop()
	i = p.start(busy)
	p.eventually("publishing", func() error { return p.publishing(i) })
	p.rounds(i, 5)
	if n := len(p.messages("old/")); n != 0 {
		t.Errorf("another instance sent %d messages of the scope", n)
	}
	if again := p.restsUntil("old"); !again.Equal(until) {
		t.Errorf("another instance lets it rest until %v, not %v", again, until)
	}

	p.redisDo("ZADD", p.keys.PubIdle(), fmt.Sprint(p.store.Now().Add(-time.Second).UnixMilli()), "old")
	p.eventually("the scope retires", func() error {
		if p.active("old") {
			return errors.New("it is active")
		}
		return nil
	})
	if n, err := p.redisDo("EXISTS", p.keys.PubIdle()).AsInt64(); err != nil || n != 0 {
		t.Errorf("%s is left over: %v", p.keys.PubIdle(), err)
	}
	p.inSync()
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

// An empty index that the broker has lost comes again, but only for the time that is left. An order that comes and goes meanwhile
// leaves an index that is kept for its own time.
func TestIdleIndexIsKeptForItsTime(t *testing.T) {
	p := newPlant(t)
	i := p.start(busy)
	p.move("old", "JO-1", isa95.Store, isa95.Cancel)
	p.restsUntil("old")
	p.redisDo("ZADD", p.keys.PubIdle(), fmt.Sprint(p.store.Now().Add(100*time.Second).UnixMilli()), "old")
	p.rounds(i, 2)
	if err := p.reader.Retain(t.Context(), prefix+"/old/state-index", nil, 0); err != nil {
		t.Fatal(err)
	}
	p.eventually("the index is back", func() error {
		m, ok := p.retained()["old/state-index"]
		if !ok || m.Expiry > 100*time.Second || m.Expiry < time.Second {
			return fmt.Errorf("%v, expires in %v", ok, m.Expiry)
		}
		return nil
	})
	p.inSync()
	p.move("old", "JO-2", isa95.Store, isa95.Cancel)
	p.inSync()
	p.eventually("it rests for the whole time", func() error {
		if left := p.restsUntil("old").Sub(p.store.Now()); left < 47*time.Hour {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	if m := p.retained()["old/state-index"]; m.Expiry < 47*time.Hour {
		t.Errorf("the index after another order expires in %v", m.Expiry)
	}
}

// At once means: with the next look at the changes, and without the topic. It needs a scope without orders.
func TestRetireAtOnce(t *testing.T) {
	p := newPlant(t)
	p.start()
	p.move("old", "JO-1", isa95.Store)
	p.inSync()
	if err := p.store.RetireSoon(t.Context(), "old"); !errors.Is(err, jobstore.ErrScopeInUse) {
		t.Errorf("with an order: %v", err)
	}
	if err := p.store.RetireSoon(t.Context(), "never"); !errors.Is(err, jobstore.ErrNotFound) {
		t.Errorf("a scope that never was: %v", err)
	}
	p.move("old", "JO-1", isa95.Cancel)
	last := p.index("old").Seq
	if err := p.store.RetireSoon(t.Context(), "old"); err != nil { // its topics may not be deleted yet
		t.Fatal(err)
	}
	p.eventually("no topic is left", func() error {
		if p.active("old") {
			return errors.New("it is active")
		}
		if left := topics(p.retained()); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	if err := p.store.RetireSoon(t.Context(), "old"); !errors.Is(err, jobstore.ErrNotFound) {
		t.Errorf("once more: %v", err)
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
	for n := range 30 {
		s := isa95.Scope("s" + strconv.Itoa(n%5))
		p.move(s, isa95.JobOrderID(fmt.Sprintf("JO-%d", n)), isa95.Store, isa95.Cancel)
		if err := p.store.RetireSoon(t.Context(), s); err != nil && !(n >= 5 && errors.Is(err, jobstore.ErrNotFound)) { // what was asked for the time before may retire it now
			t.Fatal(err)
		}
		if n%3 != 0 {
			time.Sleep(time.Duration(n) * time.Millisecond / 2)
		}
		p.move(s, isa95.JobOrderID(fmt.Sprintf("JO-%d-again", n)), isa95.Store)
		if n < 25 {
			p.move(s, isa95.JobOrderID(fmt.Sprintf("JO-%d-again", n)), isa95.Cancel)
		}
	}
	p.inSync()
	for n := range 5 {
		s := isa95.Scope("s" + strconv.Itoa(n))
		if x := p.index(s); len(x.Jobs) != 1 || !p.active(s) {
			t.Errorf("%s: %d orders, active %v", s, len(x.Jobs), p.active(s))
		}
		p.seqs(s)
	}
}
