package sfc

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/recipe"
)

// Round trips to Redis per operation: from the arrival of an answer to its commit two at the
// instance that sent the command, three elsewhere; one if no event is awaited, see TestRecalledIsWhatIsStored.
func TestRoundTrips(t *testing.T) {
	p := newSilent(t)
	p.workMaster("WM", []byte(bracket))
	proxyA, proxyB := testenv.CountingProxy(t, p.redis.URL), testenv.CountingProxy(t, p.redis.URL)
	a := p.start("a", setup{idle: true, url: proxyA.URL})
	b := p.start("b", setup{idle: true, url: proxyB.URL})
	s := &steps{p, a, b}
	p.workMasterAt("cell-33", "WM", pushes(1)) // the station runs its own, not the last delivery to any
	ctx := t.Context()

	trips := func(proxy *testenv.Proxy, do func() error) int {
		t.Helper()
		proxy.Reset()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		return proxy.Trips()
	}
	command := func(job, action string) recipe.Command {
		x := p.load(job).Execution
		e := x.Action(action)
		return recipe.Command{
			ID: e.CommandID, JobID: job, Scope: x.Scope, Action: action, TypeID: e.TypeID, CorrelationID: x.CorrelationID,
			Attempt: e.Attempt, Iteration: e.Iteration, Deadline: time.UnixMilli(e.Deadline),
			Token: testSeed.Token(e.CommandID),
		}
	}
	part := func(n int) func(e *instance) func() error {
		return func(e *instance) func() error {
			return func() error { return e.Event(ctx, event07("part.v1", "cell-07", "", fmt.Sprintf(`{"n":%d}`, n))) }
		}
	}
	probe := func(e *instance, n int) func() error {
		return func() error { return e.Event(ctx, event07("probe.v1", "cell-07", "", fmt.Sprintf(`{"bore":%d}`, n))) }
	}
	for round := 1; round <= 2; round++ { // the first compiles the recipe and loads the scripts
		id := fmt.Sprintf("JO-%d", round)
		p.order(id, "WM")
		begun := startTrips(s, proxyA)
		got := map[string]int{"start": begun}
		got["event, at another instance"] = trips(proxyB, part(round)(b))
		got["command sent"] = trips(proxyA, func() error { return a.dispatch(ctx, command(id, "drill")) })
		got["answer, at the sender"] = trips(proxyA, func() error { return a.Answer(ctx, answerTo(command(id, "drill").ID, "{}")) })
		got["event, at the starter"] = trips(proxyA, probe(a, round))
		got["last answer, elsewhere"] = trips(proxyB, func() error { return b.Answer(ctx, answerTo(command(id, "release").ID, "{}")) })
		got["event that comes early"] = trips(proxyB, func() error {
			return b.Event(ctx, event07("other.v1", "cell-07", "", fmt.Sprintf(`{"early":%d}`, round)))
		})
		if state := p.state(id); state != "Ended_Completed" {
			t.Fatalf("%s is %s", id, state)
		}
		if round == 1 {
			t.Logf("cold: %v", got)
			continue
		}
		t.Logf("warm: %v", got)
		for what, want := range map[string]int{
			"start": 2, "command sent": 1, "answer, at the sender": 2, "last answer, elsewhere": 3,
			"event, at the starter": 3, "event, at another instance": 3, "event that comes early": 2,
		} {
			if got[what] != want {
				t.Errorf("%s: %d round trips, want %d", what, got[what], want)
			}
		}
	}
}

// isTrip says whether data is a round trip that names a job order. TCP may split a large command: what does not begin with
// one is the rest of the command before.
func isTrip(data, name []byte) bool { return data[0] == '*' && bytes.Contains(data, name) }

// startTrips starts what is on the work stream at a, and counts the round trips that name a job order: those of the
// loop itself, which are shared by all entries of a batch, do not.
func startTrips(s *steps, proxy *testenv.Proxy) int {
	var mu sync.Mutex
	trips, name := 0, []byte(s.prefix+":joborder:")
	proxy.Tap(func(fromClient bool, data []byte) {
		mu.Lock()
		defer mu.Unlock()
		if fromClient && isTrip(data, name) {
			trips++
		}
	})
	s.a.takeWork()
	proxy.Tap(nil)
	mu.Lock()
	defer mu.Unlock()
	return trips
}
