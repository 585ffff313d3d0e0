package publisher_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
)

// With the shortest expiry: within twice of it, a scope that is not used any more has no retained topic and is not active.
func TestScopeRetiresInTime(t *testing.T) {
	long.Test(t, "waits for topics to expire")
	p := newPlant(t)
	p.start(func(s *setup) { s.RetainedTTL = time.Minute })
	p.move("old", "JO-1", isa95.Store, isa95.Cancel)
	p.inSync(func(s *setup) { s.RetainedTTL = time.Minute })
	began := time.Now()
	p.eventually("the scope retires", func() error {
		if left := topics(p.retained()); len(left) > 0 || p.active("old") {
			return fmt.Errorf("topics %v, active %v", left, p.active("old"))
		}
		return nil
	})
	t.Logf("it retired after %v", time.Since(began).Round(time.Second))
	if took := time.Since(began); took > 2*time.Minute+30*time.Second {
		t.Errorf("it took %v", took)
	}
}
