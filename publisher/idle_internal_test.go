package publisher

import (
	"testing"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// An order of an idle scope came and was cancelled, and a comparison reads it before its entry is gone: the scope is neither used nor
// idle anew. That its index was published since is still known at the next comparison, which lets the scope rest for the whole time.
func TestComparisonBetweenAnOrderAndItsEnd(t *testing.T) {
	const scope isa95.Scope = "old"
	soon := time.Now().Add(time.Minute)
	term := &term{
		idle:   map[isa95.Scope]time.Time{scope: soon},
		stored: map[isa95.Scope]bool{scope: true},
		again:  map[isa95.Scope]bool{scope: true}, // its index was published after it came to rest
	}
	ending := []*jobstore.RetainedJob{{Scope: scope, JobOrderID: "JO-2", Listed: true, Want: jobstore.IndexEntry{Gone: true}}}
	if err := term.rests(t.Context(), []jobstore.RetainedScope{{Scope: scope, Jobs: ending}}, nil); err != nil {
		t.Fatal(err)
	}
	if !term.again[scope] || !term.idle[scope].Equal(soon) {
		t.Errorf("with an order that is ending: published since %v, idle until %v", term.again[scope], term.idle[scope])
	}
}
