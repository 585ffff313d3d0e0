package publisher_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/taktworks/takt/isa95"
)

// consistent checks every message heard of a scope, in the order in which the broker sent them: each topic that the last index names
// is retained, order/{id} of each job order and result/{id} of each with has_result.
func (p *plant) consistent(scopes ...isa95.Scope) {
	p.t.Helper()
	p.hearAll()
	p.mu.Lock()
	heard := slices.Clone(p.heard)
	p.mu.Unlock()
	for _, s := range scopes {
		base := prefix + "/" + string(s) + "/"
		retained, named := make(map[string]bool), make(map[string]bool)
		contradictions := 0
		wrong := func(format string, args ...any) {
			if contradictions++; contradictions <= 5 {
				p.t.Errorf("%s: %s", s, fmt.Sprintf(format, args...))
			}
		}
		for _, m := range below(heard, string(s)+"/") {
			topic := strings.TrimPrefix(m.Topic, base)
			if topic != "state-index" {
				if retained[topic] = len(m.Payload) > 0; !retained[topic] && named[topic] {
					wrong("%s is deleted while the index names it", topic)
				}
				continue
			}
			var x isa95.StateIndex
			if err := isa95.Unmarshal(m.Payload, &x); err != nil {
				p.t.Fatalf("state index %s: %v", m.Payload, err)
			}
			clear(named)
			for _, e := range x.Jobs {
				named["order/"+e.JobOrderID] = true
				if e.HasResult {
					named["result/"+e.JobOrderID] = true
				}
			}
			for topic := range named {
				if !retained[topic] {
					wrong("index %d names %s, which is not retained", x.Seq, topic)
				}
			}
		}
		if contradictions > 0 {
			p.t.Errorf("%s: %d contradictions between index and topics", s, contradictions)
		}
	}
}

// Index and topics agree at each message, on the way in and on the way out: 400 job orders in two scopes go from Store to Clear, some
// are cancelled, some ids are used again at once, while publishers come and go.
func TestIndexNamesOnlyTopics(t *testing.T) {
	t.Parallel()
	const orders, live = 200, 40 // of each scope; at once
	p := newPlant(t)
	i := p.start()
	scopes := []isa95.Scope{"in", "out"}
	var stories sync.WaitGroup
	for _, s := range scopes {
		stories.Go(func() {
			id := func(n int) isa95.JobOrderID { return isa95.JobOrderID(fmt.Sprintf("%s-%d", s, n)) }
			at := func(n, age int, f func(id isa95.JobOrderID)) {
				if n -= age; n >= 0 && n < orders {
					f(id(n))
				}
			}
			for n := range orders + live {
				at(n, 0, func(id isa95.JobOrderID) { p.move(s, id, isa95.StoreAndStart) })
				at(n, live/4, func(id isa95.JobOrderID) { p.move(s, id, isa95.Run) })
				at(n, live/2, func(id isa95.JobOrderID) { p.move(s, id, isa95.End) })
				at(n, live-1, func(id isa95.JobOrderID) {
					p.move(s, id, isa95.Clear)
					switch n % 10 {
					case 3:
						p.move(s, id, isa95.Store, isa95.Cancel)
					case 7:
						p.move(s, id, isa95.StoreAndStart, isa95.Abort, isa95.Clear)
					case 9:
						p.move(s, id, isa95.Store)
					}
				})
			}
		})
	}
	ended := make(chan struct{})
	go func() { stories.Wait(); close(ended) }()
	for over := false; !over; { // the next one takes over with whatever the one before left half done
		before := i.Stats().Batches
		p.eventually("some batches, or the end", func() error {
			select {
			case <-ended:
				over = true
				return nil
			default:
			}
			done := i.Stats().Batches - before
			return wrongIf(done < 20, "%d batches", done)
		})
		next := p.start()
		i.stop()
		i = next
	}
	p.inSync()
	p.consistent(scopes...)
	for _, s := range scopes {
		p.seqs(s)
		if x := p.index(s); len(x.Jobs) != orders/10 {
			t.Errorf("%s: %d job orders are left, want %d", s, len(x.Jobs), orders/10)
		}
	}
}
