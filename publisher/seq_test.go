package publisher_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
)

// What is published again keeps its seq: at start, by a replay, by a refresh.
func TestSameContentKeepsItsSeq(t *testing.T) {
	p := newPlant(t)
	i := p.start()
	p.move(scope, "JO-1", isa95.StoreAndStart, isa95.Run, isa95.End)
	p.move(scope, "JO-2", isa95.Store)
	p.inSync()
	seq := p.index(scope).Seq
	for range 3 {
		i.stop()
		p.forget()
		i = p.start()
		p.eventually("the index at start", func() error { return p.atLeast(1, "m42/state-index") })
	}
	i.stop()
	p.redisDo("DEL", p.keys.Cursors()) // a lost cursor replayed everything
	p.start(func(s *setup) { s.Refresh = 100 * time.Millisecond })
	p.forget()
	p.eventually("some refreshes", func() error { return p.atLeast(4, "m42/state-index") })
	for _, x := range p.indexes(scope) {
		if x.Seq != seq {
			t.Errorf("seq %d, want %d still", x.Seq, seq)
		}
	}
	if stored, _ := p.redisDo("GET", p.keys.PubSeq("m42")).AsInt64(); stored != seq {
		t.Errorf("the store is at seq %d, want %d", stored, seq)
	}
}

func (p *plant) atLeast(n int, beginnings ...string) error {
	if have := len(p.soFar(beginnings...)); have < n {
		return fmt.Errorf("%d messages on %v, want %d", have, beginnings, n)
	}
	return nil
}

// short gives leases of half a second.
func short(s *setup) { s.Lease = 500 * time.Millisecond }

// Topics of scopes that the store does not know may belong to another store: they stay, and Check reports them.
// So are topics whose scope or id is no name that Takt takes, those of a known scope, too.
func TestForeignScopesAreLeftAlone(t *testing.T) {
	p := newPlant(t)
	long := strings.Repeat("L", 300)
	for _, topic := range []string{"elsewhere/order/JO-1", "elsewhere/state-index", "m42/order/OLD", "m42/result/OLD", "m42/order/" + long, "m42/result/" + long, long + "/state-index"} {
		testenv.Must(t, p.reader.Retain(t.Context(), prefix+"/"+topic, []byte(`{}`), time.Hour))
	}
	i := p.start(busy)
	p.move(scope, "JO-1", isa95.Store)
	p.eventually("what is left is foreign", func() error {
		err := p.check()
		if err != nil && strings.Contains(err.Error(), prefix+"/elsewhere: 2 retained topics are of a scope that the store does not have;") &&
			strings.Contains(err.Error(), prefix+"/m42: 2 retained topics have a scope or an id that is no name that Takt takes, such as") &&
			strings.Contains(err.Error(), "L: 1 retained topics have a scope or an id that is no name") && strings.Count(err.Error(), "\n") == 2 {
			return nil
		}
		return fmt.Errorf("check: %w", err)
	})
	p.rounds(i, 3)
	if has := topics(p.retained()); fmt.Sprint(has) != fmt.Sprintf("[%s/state-index elsewhere/order/JO-1 elsewhere/state-index m42/order/JO-1 m42/order/%[1]s m42/result/%[1]s m42/state-index]", long) {
		t.Errorf("retained: %v", has)
	}
}
