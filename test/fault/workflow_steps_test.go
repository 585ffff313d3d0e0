package fault_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
	"github.com/taktworks/takt/workflow"
)

// Fault 24, I8: a worker is killed before each of the scripts that it runs for an instance, or after it and before the answer. The next one, under its name, goes on. Nothing is done
// by half, nothing is recorded twice, and the end is always the same.
func TestWorkflowFault24KilledAtEveryStep(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t, embedded.RedisOptions{})
	plan := everything
	plan.Takes = 0
	total, begun := 0, 0
	// Each round begins with an instance of its own, and first ends what the round before left.
	round := func(at int, lose bool) {
		g := testenv.NewGuillotine(t, w.srv.Addr)
		g.Only(func(words []string) bool {
			name := strings.ToUpper(words[0])
			return (name == "EVALSHA" || name == "EVAL" || name == "XREADGROUP") && strings.Contains(strings.Join(words, " "), ":workflow:")
		})
		p := w.worker(flowConfig{ID: "one", URL: g.URL, Lease: 6 * time.Second})
		w.quiet()
		before := g.Count()
		g.Arm(at, lose, func() { _ = syscall.Kill(p.PID(), syscall.SIGKILL) })
		id := fmt.Sprintf("step-%d", begun)
		begun++
		startFlow(w.ctx(), w.flows, w.ledger, id, plan)
		signalFlow(w.ctx(), w.flows, w.ledger, id)
		if at == 0 {
			w.quiet()
			total = g.Count() - before
			p.Kill()
			return
		}
		over := false
		w.wait("the worker is killed, or has done all", func() bool {
			select {
			case <-g.Fell:
				over = true
			default:
				over = w.flowsActive() == 0 && w.seen(noteOK) == begun
			}
			return over
		})
		if g.Disarm() {
			p.Kill()
		} else {
			p.Exit() // it was killed, and that takes a moment
		}
	}
	round(0, false)
	t.Logf("an instance takes %d scripts and reads of its worker", total)
	for at := 1; at <= total; at++ {
		for _, lose := range []bool{false, true} {
			if large || lose == (w.rand.IntN(2) == 0) {
				round(at, lose)
			}
		}
	}
	w.worker(flowConfig{ID: "one"})
	w.verify()
}

// Fault 26: what a later version added to documents and events is still there after this one has worked on them, and what it cannot understand it leaves alone until it ends.
func TestWorkflowFault26VersionSkew(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t, embedded.RedisOptions{})
	k := w.shards[0]
	// edit adds a field to a document or event, as a later version would have written it.
	edit := func(text string, value string) string {
		t.Helper()
		var all map[string]json.RawMessage
		testenv.Must(t, json.Unmarshal([]byte(text), &all))
		name, v, _ := strings.Cut(value, "=")
		all[name] = json.RawMessage(v)
		b, err := json.Marshal(all)
		testenv.Must(t, err)
		return string(b)
	}
	document := func(id, value string) {
		t.Helper()
		text, err := w.must("GET", k.Document(id, "x")).ToString()
		testenv.Must(t, err)
		w.must("SET", k.Document(id, "x"), edit(text, value))
	}
	event := func(id, value string) {
		t.Helper()
		list, err := w.must("XRANGE", k.Inbox(id), "-", "+").AsXRange()
		if err != nil || len(list) == 0 {
			t.Fatal(list, err)
		}
		w.must("DEL", k.Inbox(id))
		for _, e := range list {
			w.must("XADD", k.Inbox(id), "*", "e", edit(e.FieldValues["e"], value))
		}
	}
	w.begin("more", 1, everything)
	document("more-0", `priority={"of":["a","later"],"version":9007199254740993}`)
	event("more-0", `trace="0af7651916cd43dd"`)
	w.begin("terminated", 1, flowPlan{Timer: time.Hour})
	document("terminated-0", `priority="kept"`)
	w.begin("future-document", 1, everything)
	document("future-document-0", `version=7`)
	w.begin("future-event", 1, everything)
	event("future-event-0", `version=7`)
	w.begin("unknown-type", 1, flowPlan{Signal: true})
	testenv.Must(t, w.flows.Signal(w.ctx(), "unknown-type-0", workflow.Event{ID: "of the future", Type: "SomethingNew", Time: time.Now()}))
	old := w.worker(flowConfig{Lease: calm}) // it leaves them alone once
	for _, id := range []string{"future-document-0", "future-event-0"} {
		old.AwaitThat("says what it leaves alone", func(_, stderr string) bool {
			return strings.Contains(stderr, "left alone until this process ends") && strings.Contains(stderr, id)
		})
	}
	testenv.Must(t, w.flows.Terminate(w.ctx(), workflow.Instance{ID: "terminated-0", Execution: "x"}, "enough"))
	w.wait("the rest has ended", func() bool { return w.flowsActive() == 2 })
	for id, says := range map[string]string{"more-0": `"priority":{"of":["a","later"],"version":9007199254740993}`, "terminated-0": `"priority":"kept"`} {
		if text, err := w.must("GET", k.Document(id, "x")).ToString(); err != nil || !strings.Contains(text, says) || !strings.Contains(text, `"state":"finished"`) {
			t.Errorf("document of %s: %s, %v", id, text, err)
		}
	}
	history, err := w.must("LRANGE", k.History("more-0", "x"), "0", "-1").AsStrSlice()
	if err != nil || !slices.ContainsFunc(history, func(e string) bool {
		return strings.Contains(e, `"trace":"0af7651916cd43dd"`) && strings.Contains(e, `"s":`)
	}) {
		t.Errorf("history: %q, %v", history, err)
	}
	if n := strings.Count(old.Stderr(), "left alone until this process ends"); n != 2 {
		t.Errorf("%d times a task was left alone: it turns in circles", n)
	}
	old.Stop()
	for _, id := range []string{"future-document-0", "future-event-0"} { // those who upgrade know it
		if id == "future-document-0" {
			document(id, "version=1")
		} else {
			event(id, "version=1")
		}
	}
	w.besides = map[string]string{"terminated-0": string(workflow.Terminated)}
	w.extra = map[string]int{"SomethingNew/0": 1}
	var fresh []*rig.Process
	fresh = append(fresh, w.worker(flowConfig{}))
	w.verify()
	stillUp(t, fresh...)
}
