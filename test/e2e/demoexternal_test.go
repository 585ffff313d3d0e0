package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/test/rig"
)

// A demo on a store that stays, interrupted or out of time while all its orders run: it removes them, so that the next one begins as the first did.
func TestDemoWithdrawsItsOrders(t *testing.T) {
	long.Test(t, "waits for a demo that gives up")
	t.Parallel()
	s := &shell{rig.New(t, rig.Options{NoStation: true}), t}
	slow, quick := rig.Cell(t, 6, "10h"), rig.Cell(t, 6, "5ms..20ms")
	patient(t, filepath.Join(slow, "recipe.json"))

	demo := rig.Start(t, s.Args("demo", "--example", slow)...)
	demo.Await("orders 6/6")
	demo.Signal(syscall.SIGINT)
	if code := demo.Exit(); code != failed {
		t.Errorf("exit status %d\n%s", code, demo.Stderr())
	}
	for _, want := range []string{"stopped before the end; outstanding are 6 job orders\n", "  JO-001: Running, ", "\n6 job orders of this demo were aborted and cleared"} {
		if !strings.Contains(demo.Stderr(), want) {
			t.Errorf("no %q in\n%s", want, demo.Stderr())
		}
	}
	s.run(ok, "job list", "(none)")
	s.run(ok, "demo --outage 10ms --example "+quick)

	testenv.LongEnough(t, 5*time.Second, func(limit time.Duration) bool {
		s := &shell{rig.New(t, rig.Options{NoStation: true}), t}
		r := s.Takt("demo", "--timeout", limit.String(), "--example", slow)
		if !strings.Contains(r.Stderr, "\n6 job orders of this demo were aborted and cleared") {
			t.Logf("within %v: %s", limit, r.Stderr)
			return false
		}
		if want := fmt.Sprintf("gave up after %v; outstanding are 6 job orders\n", limit); r.Code != failed || !strings.Contains(r.Stderr, want) {
			t.Errorf("exit status %d, want %q\n%s", r.Code, want, r.Stderr)
		}
		s.run(ok, "job list", "(none)")
		return true
	})
}

// Where nothing answers, the demo says what it leaves and how to remove it; and it does not begin while orders of its ids are there.
func TestDemoSaysWhatItLeaves(t *testing.T) {
	long.Test(t, "kills a process")
	t.Parallel()
	s := &shell{rig.New(t, rig.Options{NoStation: true}), t}
	serve := s.Serve("a")
	slow := rig.Cell(t, 2, "10h")
	patient(t, filepath.Join(slow, "recipe.json"))
	demo := rig.Start(t, s.Args("demo", "--no-serve", "--timeout", "1m", "--example", slow)...)
	demo.Await("orders 2/2")
	serve.Kill()
	demo.Signal(syscall.SIGINT)
	removal := `for id in 'JO-001' 'JO-002'; do takt job abort "$id" --scope test-cell; takt job clear "$id" --scope test-cell; done`
	if code := demo.Exit(); code != failed || !strings.Contains(demo.Stderr(), "2 job orders of this demo are left in the store of --redis") || !strings.Contains(demo.Stderr(), "to remove them:\n  "+removal) {
		t.Errorf("exit status %d\n%s", code, demo.Stderr())
	}

	s.Serve("a")
	s.state("JO-001", "Aborted") // the command to abort it waited at the broker
	s.run(usage, "demo --example "+slow, "has 2 of the 2 job orders of this demo, such as JO-001, which is Aborted: nothing was sent", "--prefix", removal)
	s.run(ok, "job abort JO-002 --scope test-cell")
	for n := range 2 {
		s.run(ok, fmt.Sprintf("job clear JO-00%d --scope test-cell", n+1))
	}
	s.run(ok, "job list", "(none)")
}
