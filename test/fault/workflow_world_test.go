package fault_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
	"github.com/taktworks/takt/workflow"
)

// flowWorld is a Redis with workflows, their ledgers, and the processes that use it.
type flowWorld struct {
	*taskWorld
	flows   *workflow.Client // of the test itself, without any proxy
	options workflow.Options
	shards  []keys.Workflow
	rolled  bool                  // Redis forgot something that it had said: what was accepted may be accepted once more
	mayLose func(n taskNote) bool // which of the accepted starts may be gone; nil = none
	besides map[string]string     // instances that did not end as planned: their outcome, and nothing more is asked of them
	fails   bool                  // activities may have failed
	extra   map[string]int        // events that a history may have beside those of its plan
}

func newFlowWorld(t *testing.T, o embedded.RedisOptions) *flowWorld {
	t.Helper()
	srv := testenv.StartRedis(t, o)
	w := &flowWorld{taskWorld: newTaskWorldOn(t, srv)}
	w.options = workflow.Options{Prefix: w.prefix}
	w.shards = []keys.Workflow{w.keys.Workflow()}
	var err error
	w.flows, err = workflow.New(srv.Client, w.options)
	testenv.Must(t, err)
	t.Cleanup(w.flows.Close)
	w.left = func() string {
		st, err := w.flows.Stats(t.Context())
		return fmt.Sprintf("%+v %v, keys %q", st, err, w.leftKeys())
	}
	return w
}

// start runs a worker or starter in a process of its own, and waits until it is connected.
func (w *flowWorld) start(c flowConfig) *rig.Process {
	w.t.Helper()
	if c.URL == "" {
		c.URL = w.srv.URL
	}
	c.Prefix, c.Shards, c.Ledger = w.options.Prefix, w.options.Shards, w.history.dir
	p := rig.StartCommand(w.t, roleCommand(w.t, flowRole, c))
	p.Await("up")
	return p
}

func (w *flowWorld) worker(c flowConfig) *rig.Process {
	w.t.Helper()
	w.workers++
	c.Role = "worker"
	if c.ID == "" {
		c.ID = fmt.Sprintf("w%d", w.workers)
	}
	return w.start(c)
}

// starter starts a process that starts instances.
func (w *flowWorld) starter(c flowConfig) *rig.Process {
	w.t.Helper()
	c.Role = "starter"
	return w.start(c)
}

// numbered is the id of an instance of several.
func numbered(name string, i int) string { return fmt.Sprintf("%s-%d", name, i) }

// begin starts instances from the test itself, and signals them if they wait for that.
func (w *flowWorld) begin(name string, n int, plan flowPlan) {
	w.t.Helper()
	for i := range n {
		startAndSignal(w.ctx(), w.flows, w.ledger, numbered(name, i), plan)
	}
}

// quiet waits until no instance is active.
func (w *flowWorld) quiet() {
	w.t.Helper()
	w.wait("no instance is active, no message on its way", func() bool {
		st, err := w.flows.Stats(w.t.Context())
		return err == nil && st.Active == 0 && st.Outbox == 0
	})
}

// leftKeys are those that only active instances have, and streams that are not empty.
func (w *flowWorld) leftKeys() (left []string) {
	all, err := w.srv.AllKeys(w.t.Context())
	if err != nil {
		return []string{err.Error()}
	}
	for _, key := range all {
		_, rest, ok := strings.Cut(key, ":workflow:")
		if !ok {
			continue
		}
		switch family, _, _ := strings.Cut(rest, ":"); family {
		case "run", "in", "gate", "gates", "early", "held", "timers", "active", "paused":
			left = append(left, key)
		case "tasks", "activities", "out":
			n, err := w.do("XLEN", key).AsInt64()
			pending, _ := w.do("XPENDING", key, "workers").ToArray()
			if err != nil || n != 0 {
				left = append(left, fmt.Sprintf("%s has %d entries, %v", key, n, err))
			}
			if len(pending) > 0 {
				if n, err := pending[0].AsInt64(); err != nil || n != 0 {
					left = append(left, fmt.Sprintf("%s has %d entries pending, %v", key, n, err))
				}
			}
		}
	}
	return left
}

// flowsVerified is what verify counted.
type flowsVerified struct {
	instances, lost, children  int
	runs, repeats, lostResults int
}

// verify checks, after everything has come to rest, that every instance that was accepted has finished once, that histories are contiguous and have everything once,
// and that nothing is left over.
func (w *flowWorld) verify() flowsVerified {
	w.t.Helper()
	w.quiet()
	w.history.refresh(w.t)
	var v flowsVerified
	accepted := make(map[string]taskNote)
	for _, n := range w.history.notes {
		if !w.since.IsZero() && n.time().Before(w.since) {
			continue
		}
		switch n.Event {
		case noteOK:
			accepted[n.Work] = n
		case noteRun:
			v.runs++
		case noteRepeat:
			v.repeats++
		case noteLost:
			v.lostResults++
		}
	}
	there := make(map[string][]workflow.Info)
	ended := 0
	for i, err := range w.flows.All(w.ctx(), workflow.Filter{}) {
		testenv.Must(w.t, err)
		there[i.ID] = append(there[i.ID], i)
		ended++
	}
	for id, n := range accepted {
		switch {
		case len(there[id]) == 1:
			v.instances++
		case len(there[id]) == 0 && w.mayLose != nil && w.mayLose(n):
			v.lost++
		default:
			w.t.Errorf("I1: %s was accepted at %s and has %d executions: %+v", id, n.time().Format("05.000"), len(there[id]), there[id])
		}
	}
	for id, all := range there {
		root := strings.TrimSuffix(id, "-child")
		if root != id {
			v.children++
		}
		if _, ok := accepted[root]; !ok {
			w.t.Errorf("I1: %s is there, and nobody started it", id)
		}
		if len(all) != 1 {
			w.t.Errorf("I8: %s has %d executions: %+v", id, len(all), all)
		}
		for _, i := range all {
			w.verifyInstance(i, len(there[id+"-child"]))
		}
	}
	w.verifyLedger()
	w.verifyFlowsRest(ended)
	w.t.Logf("%d instances and %d sub-workflows: %d activities run, %d tasks handed out again, %d refused; %d instances lost",
		v.instances, v.children, v.runs, v.repeats, v.lostResults, v.lost)
	return v
}

// verifyInstance checks the history of one execution.
func (w *flowWorld) verifyInstance(i workflow.Info, children int) {
	w.t.Helper()
	outcome := workflow.Completed
	if other, ok := w.besides[i.ID]; ok {
		outcome = workflow.Outcome(other)
	}
	if i.State != workflow.Finished || i.Outcome != outcome {
		w.t.Errorf("I1: %s is %s, %s", i.Instance, i.State, i.Outcome)
		return
	}
	if outcome != workflow.Completed {
		return
	}
	h, err := w.flows.History(w.ctx(), i.Instance, 0)
	testenv.Must(w.t, err)
	count := make(map[string]int)
	for n, e := range h {
		if e.Sequence != int64(n)+1 {
			w.t.Errorf("I8: %s: event %d of the history has number %d", i.Instance, n, e.Sequence)
		}
		count[fmt.Sprint(e.Type, "/", e.Ref)]++
	}
	if i.LastSequence != int64(len(h)) {
		w.t.Errorf("I8: %s: %d events, and the last has number %d", i.Instance, len(h), i.LastSequence)
	}
	var plan flowPlan
	if len(h) == 0 || h[0].Type != flowStarted {
		w.t.Fatalf("%s begins with %+v", i.Instance, h)
	}
	testenv.Must(w.t, json.Unmarshal(h[0].Data, &plan))
	want := map[string]int{"Started/0": 1, "Ended/0": 1}
	for ref := 1; ref <= plan.Activities; ref++ {
		want[fmt.Sprint("ActivityScheduled/", ref)]++
		done := fmt.Sprint(flowDone, "/", ref)
		if count[workflow.EventActivityErr+fmt.Sprint("/", ref)] == 1 && w.fails {
			done = fmt.Sprint(workflow.EventActivityErr, "/", ref)
		}
		want[done]++
	}
	if plan.Timer > 0 {
		want[fmt.Sprint("TimerScheduled/", timerRef)], want[fmt.Sprint(workflow.EventTimerFired, "/", timerRef)] = 1, 1
	}
	if plan.Child {
		want[fmt.Sprint("ChildScheduled/", childRef)], want[fmt.Sprint(flowChild, "/", childRef)] = 1, 1
		if children != 1 {
			w.t.Errorf("I8: %s has %d sub-workflows", i.Instance, children)
		}
	}
	if plan.Signal {
		want[workflow.EventSignal+"/0"] = 1
	}
	for what, n := range w.extra {
		if count[what] == n {
			want[what] = n
		}
	}
	if fmt.Sprint(count) != fmt.Sprint(want) {
		w.t.Errorf("I8: %s has %v, want %v", i.Instance, count, want)
	}
}

// verifyLedger checks that no worker was told that what another had done counts, too.
func (w *flowWorld) verifyLedger() {
	w.t.Helper()
	if w.rolled {
		return
	}
	first := make(map[string]taskNote)
	for _, n := range w.history.notes {
		if n.Event != noteCheckpoint && n.Event != noteResult {
			continue
		}
		what := fmt.Sprint(n.Event, " ", n.Work, " ", n.Task, " ", n.Try)
		if before, twice := first[what]; twice {
			w.t.Errorf("I8: %s was accepted of %d at %s and of %d at %s", what, before.PID, before.time().Format("05.000"), n.PID, n.time().Format("05.000"))
		}
		first[what] = n
	}
}

// verifyFlowsRest checks that nothing is left over, and that the counters are those of what is there.
func (w *flowWorld) verifyFlowsRest(ended int) {
	w.t.Helper()
	w.wait("nothing is left over", func() bool { return len(w.leftKeys()) == 0 })
	found, err := w.flows.Check(w.ctx(), 0)
	testenv.Must(w.t, err)
	for _, f := range found {
		w.t.Errorf("I5: %v", f)
	}
	st, err := w.flows.Stats(w.ctx())
	testenv.Must(w.t, err)
	finished := 0
	for _, outcome := range []workflow.Outcome{workflow.Completed, workflow.Failed, workflow.Canceled, workflow.Terminated} {
		finished += int(st.Counters[string(outcome)])
	}
	if int(st.Counters["started"]) != ended || finished != ended || int(st.Ended) != ended || len(st.Workflows)+len(st.Activities)+len(st.Held) != 0 || st.Timers != 0 {
		w.t.Errorf("I5: %d executions have ended, and the figures say %+v", ended, st)
	}
}
