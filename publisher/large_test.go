package publisher_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// large stores job orders of some hundred kilobytes.
func (p *plant) large(name string, n, size int) {
	p.t.Helper()
	text, err := json.Marshal(strings.Repeat("x", size))
	testenv.Must(p.t, err)
	for i := range n {
		id := isa95.JobOrderID(fmt.Sprintf("%s-%02d", name, i))
		p.change(scope, id, func(*jobstore.Snapshot) jobstore.Change {
			order := &isa95.JobOrder{JobOrderID: string(id), JobOrderParameters: []isa95.Parameter{{ID: "program", Value: text}}}
			state := isa95.State{Top: isa95.NotAllowedToStart, Sub: isa95.Ready}
			return jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Store, State: state, Order: order}, Now: p.store.Now()}
		})
	}
}

// Documents that are together larger than what is read at once are read and published in parts: 18 of 600 kB, at the start and in one batch. One
// that cannot be read is a dead letter in whichever part it comes; the state index names it.
func TestLargeOrdersArePublishedInParts(t *testing.T) {
	const (
		orders = 18
		size   = 600_000
	)
	p := newPlant(t)
	proxy, through := p.counted()
	published := func(name string, want int) {
		t.Helper()
		p.eventually(fmt.Sprintf("%d orders %s are published", want, name), func() error {
			if n := len(p.soFar("m42/order/" + name)); n != want {
				return fmt.Errorf("%d are", n)
			}
			return p.caughtUp()
		})
	}
	p.large("START", orders, size)
	i := p.start(through)
	published("START", orders)

	before := i.Stats().Batches
	proxy.Reset()
	proxy.Stall(true)
	p.large("BATCH", orders, size)
	p.redisDo("SET", p.keys.JobOrder("BATCH-15"), `{"JobOrder":`)
	proxy.Stall(false)
	published("BATCH", orders-1)
	all := p.indexes(scope)
	if x := all[len(all)-1]; len(x.Jobs) != 2*orders || entry(x, "BATCH-15").JobOrderID == "" {
		t.Errorf("the index names %d orders, want all %d", len(x.Jobs), 2*orders)
	}
	if letters := i.Stats().DeadLetters; letters != 1 {
		t.Errorf("%d dead letters, want 1", letters)
	}
	batches := int(i.Stats().Batches - before)
	if trips := proxy.Trips(); trips >= orders {
		t.Errorf("%d round trips for %d batches, want some", trips, batches)
	}
}
