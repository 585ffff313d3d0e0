package publisher_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
)

// A change costs Redis what it is, however many job orders of its scope are live: their entries are neither read nor sent again.
func TestCostOfAChangeIsThatOfTheChange(t *testing.T) {
	p := newPlant(t)
	const orders = 1000
	for n := range orders {
		p.move("full", isa95.JobOrderID(fmt.Sprint("F-", n)), isa95.Store)
	}
	p.move("empty", "E-0", isa95.Store)
	proxy := testenv.CountingProxy(t, p.redis.URL)
	p.start(func(s *setup) {
		s.redisURL, s.Lease, s.Block, s.Audit = proxy.URL, 10*time.Minute, time.Minute, 10*time.Minute
	})
	p.inSync()
	bytes := make(map[isa95.Scope]int64)
	for _, s := range []isa95.Scope{"empty", "full"} {
		for n := range 2 { // the second time with everything in place
			var total atomic.Int64
			proxy.Tap(func(fromClient bool, data []byte) {
				if !fromClient {
					total.Add(int64(len(data)))
				}
			})
			p.move(s, isa95.JobOrderID(fmt.Sprint(strings.ToUpper(string(s)), "-", n)), isa95.Store)
			p.inSync()
			proxy.Tap(nil)
			bytes[s] = total.Load()
		}
	}
	if bytes["full"] > bytes["empty"]+500 {
		t.Errorf("Redis sent %d bytes for a change in a scope of %d job orders, %d in an empty one", bytes["full"], orders, bytes["empty"])
	}
	if x := p.index("full"); len(x.Jobs) != orders+2 {
		t.Errorf("%d job orders in the index", len(x.Jobs))
	}
	p.seqs("full")
	p.consistent("full", "empty")
}

// An index that is kept in memory and changed piece by piece is the one that is read as a whole.
func TestChangedIndexIsTheWholeIndex(t *testing.T) {
	p := newPlant(t)
	i := p.start()
	for n := range 60 {
		id := isa95.JobOrderID(fmt.Sprint("JO-", n%20))
		switch n / 20 {
		case 0:
			p.move(scope, id, isa95.StoreAndStart)
		case 1:
			p.move(scope, id, isa95.Run, isa95.End)
		default:
			if n%3 == 0 {
				p.move(scope, id, isa95.Clear)
			}
			if n%6 == 0 {
				p.move(scope, id, isa95.Store)
			}
		}
		if n%7 == 0 {
			p.inSync() // which compares with the index made of everything stored
		}
	}
	p.inSync()
	before := p.index(scope)
	i.stop()
	i = p.working()
	p.inSync()
	if after := p.index(scope); after.Seq != before.Seq || len(after.Jobs) != len(before.Jobs) {
		t.Errorf("seq %d with %d job orders, read as a whole %d with %d", before.Seq, len(before.Jobs), after.Seq, len(after.Jobs))
	}
}
