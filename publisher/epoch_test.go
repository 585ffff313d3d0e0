package publisher_test

import (
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
)

// copyOf is everything stored, to be restored as an older copy.
func (p *plant) copyOf() map[string]string {
	p.t.Helper()
	names, err := p.redisDo("KEYS", p.keys.Prefix()+":*").AsStrSlice()
	testenv.Must(p.t, err)
	all := make(map[string]string)
	for _, name := range names {
		if name != p.keys.PublisherLease() {
			all[name], _ = p.redisDo("DUMP", name).ToString()
		}
	}
	return all
}

func (p *plant) restore(copied map[string]string) {
	p.t.Helper()
	p.redisDo("FLUSHALL")
	for name, dump := range copied {
		p.redisDo("RESTORE", name, "0", dump, "REPLACE") // the publisher may have written it meanwhile
	}
}

// anew waits until the index of a scope has another epoch and a higher seq than before, and returns it.
func (p *plant) anew(before isa95.StateIndex) isa95.StateIndex {
	p.t.Helper()
	var x isa95.StateIndex
	p.eventually("another epoch in "+before.Scope, func() error {
		x = p.index(isa95.Scope(before.Scope))
		return wrongIf(x.Epoch == "" || x.Epoch == before.Epoch || x.Seq <= before.Seq, "epoch %q, seq %d, before %q, %d", x.Epoch, x.Seq, before.Epoch, before.Seq)
	})
	return x
}

// The epoch of the state indexes changes when the store lost something, in all scopes, also in those that the store does not know any
// more; it is kept over anything else.
func TestEpoch(t *testing.T) {
	long.Test(t, "waits until a lease is missed")
	for _, c := range []struct {
		what string
		do   func(p *plant, older map[string]string, restart func())
		lost bool
		jobs []int // in the indexes of quiet and busy afterwards
	}{
		{"everything deleted", func(p *plant, _ map[string]string, _ func()) { p.redisDo("FLUSHALL") }, true, []int{0, 0}},
		{"an older copy", func(p *plant, older map[string]string, _ func()) { p.restore(older) }, true, []int{1, 1}},
		{"an older copy, the publisher began anew", func(p *plant, older map[string]string, restart func()) { p.restore(older); restart() }, true, []int{1, 1}},
		{"a change was lost in a failover", func(p *plant, _ map[string]string, _ func()) { p.redisDo("SET", p.keys.PubEpoch(), "another") }, true, []int{1, 2}},
		{"the publisher began anew", func(_ *plant, _ map[string]string, restart func()) { restart() }, false, []int{1, 2}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			i := p.start(short)
			p.move("quiet", "Q-1", isa95.Store)
			p.move("busy", "B-1", isa95.Store)
			p.inSync()
			older := p.copyOf()
			p.move("busy", "B-2", isa95.StoreAndStart, isa95.Run)
			p.inSync()
			quiet, busy := p.index("quiet"), p.index("busy")
			if quiet.Epoch == "" || quiet.Epoch != busy.Epoch {
				t.Fatalf("epochs %q and %q", quiet.Epoch, busy.Epoch)
			}
			c.do(p, older, func() {
				i.stop()
				i = p.start(short)
			})
			if c.lost {
				a, b := p.anew(quiet), p.anew(busy)
				p.eventually("one epoch, and the orders that are left", func() error {
					a, b = p.index("quiet"), p.index("busy")
					return wrongIf(a.Epoch != b.Epoch || len(a.Jobs) != c.jobs[0] || len(b.Jobs) != c.jobs[1], "%+v, %+v", a, b)
				})
			}
			before := p.index("busy").Epoch
			p.move("busy", "B-3", isa95.Store) // everything goes on
			p.inSync()
			if x := p.index("busy"); x.Epoch != before || entry(x, "B-3").JobOrderID == "" || !c.lost && x.Epoch != busy.Epoch {
				t.Errorf("%+v, epoch before %q", x, before)
			}
			p.seqs("quiet")
			p.seqs("busy")
			p.consistent("quiet", "busy")
		})
	}
}

// In wire form the payload has only the members of the original: the epoch is a user property.
func TestEpochInWireForm(t *testing.T) {
	long.Test(t, "waits until a lease is missed")
	p := newPlant(t)
	wire := func(s *setup) { s.StateIndexKeys = isa95.Wire }
	i := p.start(short, wire)
	p.move(scope, "JO-1", isa95.Store)
	p.inSync(wire)
	property := func() string {
		t.Helper()
		m := p.retained()["m42/state-index"]
		if strings.Contains(string(m.Payload), "epoch") || len(m.User) != 1 || m.User[0].Name != "epoch" {
			t.Fatalf("%s with %v", m.Payload, m.User)
		}
		return m.User[0].Value
	}
	epoch, seq := property(), p.index(scope).Seq
	for _, m := range p.messages("m42/order/") {
		if m.User != nil {
			t.Errorf("%s has %v", m.Topic, m.User)
		}
	}
	i.stop()
	p.working(short, wire)
	p.inSync(wire)
	if property() != epoch || p.index(scope).Seq != seq {
		t.Errorf("began anew: epoch %q, seq %d; before %q, %d", property(), p.index(scope).Seq, epoch, seq)
	}
	p.redisDo("FLUSHALL")
	p.eventually("another epoch", func() error {
		m := p.retained()["m42/state-index"]
		return wrongIf(len(m.User) != 1 || m.User[0].Value == epoch, "%v", m.User)
	})
}
