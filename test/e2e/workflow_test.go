package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/test/rig"
	"github.com/taktworks/takt/workflow"
)

// workflowShell is the command line beside a program with a workflow's code, on one Redis.
type workflowShell struct {
	*taskShell
	client *workflow.Client
	worker *workflow.Worker
	shards int
}

func newWorkflowShell(t *testing.T) *workflowShell {
	return newWorkflowShellOn(t, newTaskShell(t), 1)
}

func newWorkflowShellOn(t *testing.T, on *taskShell, shards int) *workflowShell {
	t.Helper()
	s := &workflowShell{taskShell: on, shards: shards}
	client, err := workflow.Open(s.ctx(), s.url, workflow.Options{Prefix: s.prefix, Shards: shards})
	s.ok(err)
	t.Cleanup(client.Close)
	worker, err := client.NewWorker(workflow.WorkerOptions{Name: "hand"})
	s.ok(err)
	testenv.Run(t, worker.Run)
	s.client, s.worker = client, worker
	return s
}

func newShardedShell(t *testing.T, srv *testenv.RedisServer, shards int) *taskShell {
	t.Helper()
	return &taskShell{t: t, url: srv.URL, prefix: srv.ShardedPrefix(t, shards), dir: t.TempDir()}
}

func (s *workflowShell) ctx() context.Context { return testenv.Within(s.t) }

func (s *workflowShell) ok(err error) {
	s.t.Helper()
	testenv.Must(s.t, err)
}

// takt runs takt workflow, fails the test unless it ends with code, and returns its standard output.
func (s *workflowShell) takt(code int, args ...string) string {
	s.t.Helper()
	return s.run(code, append(append([]string{"workflow"}, args...), "--shards", fmt.Sprint(s.shards))...)
}

// lines is what takt workflow prints with --json.
func (s *workflowShell) lines(args ...string) []map[string]any {
	s.t.Helper()
	return rig.Lines[map[string]any](s.t, s.takt(ok, append(args, "--json")...))
}

// ids is a member of what takt workflow prints with --json, in a line.
func (s *workflowShell) ids(member string, args ...string) string {
	s.t.Helper()
	var all []string
	for _, v := range s.lines(args...) {
		all = append(all, fmt.Sprint(v[member]))
	}
	return strings.Join(all, " ")
}

var events atomic.Int64 // tests run beside each other

func newEvent(typ string, ref int64, data string) workflow.Event {
	return workflow.Event{ID: fmt.Sprint("event-", events.Add(1)), Type: typ, Ref: ref, Time: time.Now(), Data: json.RawMessage(data)}
}

// begin starts an instance. Each is created a millisecond after the one before.
func (s *workflowShell) begin(id string, change func(*workflow.Start)) workflow.Instance {
	s.t.Helper()
	start := workflow.Start{Instance: workflow.Instance{ID: id, Execution: "x1"}, Queue: "presses", Name: "order",
		Event: newEvent("WorkflowExecutionStarted", 0, `{"name":"order","inputs":["eyJwYXJ0IjoiY292ZXIifQ=="]}`)}
	if change != nil {
		change(&start)
	}
	s.ok(s.client.Start(s.ctx(), start))
	return start.Instance
}

// step completes the next task of a queue, with what is given beside its history.
func (s *workflowShell) step(queue string, change func(*workflow.Checkpoint)) []workflow.Event {
	s.t.Helper()
	t, err := s.worker.WorkflowTask(s.ctx(), []string{queue})
	s.ok(err)
	cp := workflow.Checkpoint{State: workflow.Active, Executed: t.Events}
	for i := range cp.Executed {
		cp.Executed[i].Sequence = t.LastSequence + int64(i) + 1
	}
	if change != nil {
		change(&cp)
	}
	s.ok(t.Complete(s.ctx(), cp))
	return t.Events
}

// steps does so many tasks one after the other, for what outlives a continuation comes one by one; change is of the last.
func (s *workflowShell) steps(n int, queue string, change func(*workflow.Checkpoint)) (all []workflow.Event) {
	s.t.Helper()
	for range n - 1 {
		all = append(all, s.step(queue, nil)...)
	}
	return append(all, s.step(queue, change)...)
}

func ends(outcome workflow.Outcome) func(*workflow.Checkpoint) {
	return func(cp *workflow.Checkpoint) { cp.State, cp.Outcome = workflow.Finished, outcome }
}

// Instances of a program that the command line does not know: listed, shown, signalled, paused, ended and removed.
func TestWorkflowCommands(t *testing.T) {
	t.Parallel()
	testWorkflowCommands(t, newWorkflowShell(t))
}

// The same on a cluster of three nodes, spread over three shards.
func TestWorkflowCommandsOnACluster(t *testing.T) {
	long.Test(t, "runs a cluster")
	t.Parallel()
	s := newShardedShell(t, testenv.RedisCluster(t), 3)
	testWorkflowCommands(t, newWorkflowShellOn(t, s, 3))
	s.says(usage, []string{"3 in Redis", "--shards"}, "workflow", "list", "--shards", "2")
}

func testWorkflowCommands(t *testing.T, s *workflowShell) {
	if got := s.takt(ok, "list", "--json"); got != "" {
		t.Errorf("at first: %s", got)
	}
	s.begin("order-1", func(st *workflow.Start) { st.Attributes = map[string]string{"customer": "ada", "line": "a=b,c;d"} })
	s.begin("order-2", func(st *workflow.Start) { st.Attributes = map[string]string{"customer": "bob"}; st.Name = "return" })
	s.begin("order-3", func(st *workflow.Start) { st.Queue = "ovens" })

	// order-1 waits for two activities and a timer, and has a child; order-3 is done.
	due := time.Now().Add(10 * time.Hour)
	for range 2 {
		s.step("presses", func(cp *workflow.Checkpoint) {
			cp.Activities = []workflow.Activity{{Event: newEvent("ActivityScheduled", 1, `{"name":"press"}`)}, {Queue: "robots", Event: newEvent("ActivityScheduled", 2, `{"name":"weld"}`)}}
			timer := newEvent(workflow.EventTimerFired, 3, "{}")
			timer.VisibleAt = &due
			cp.Timers = []workflow.Event{timer}
			child := newEvent(workflow.EventSubScheduled, 4, `{"name":"pack","sub_workflow_instance":{"instance_id":"box-1","execution_id":"b1"}}`)
			child.Sequence = cp.Executed[len(cp.Executed)-1].Sequence + 1
			cp.Executed = append(cp.Executed, child)
		})
	}
	s.step("ovens", ends(workflow.Completed))

	for args, want := range map[string]string{
		"":                                  "order-3 order-2 order-1",
		"--state active":                    "order-2 order-1",
		"--outcome completed":               "order-3",
		"--queue ovens":                     "order-3",
		"--name return":                     "order-2",
		"--id order-1":                      "order-1",
		"--attr customer=ada":               "order-1",
		"--attr customer=ada --attr line=x": "",
		"--attr customer=ada --attr line=a=b,c;d": "order-1",
		"--created-after 1h":                      "order-3 order-2 order-1",
		"--created-before 1h":                     "",
		"--created-after 2040-01-01T00:00:00Z":    "",
		"--limit 1":                               "order-3",
		"--limit 0 --after order-3:x1":            "order-2 order-1",
		"--limit 1 --after order-2:x1":            "order-1",
	} {
		if got := s.ids("id", append([]string{"list"}, strings.Fields(args)...)...); got != want {
			t.Errorf("list %s: %s, want %s", args, got, want)
		}
	}
	s.takt(refused, "list", "--after", "order-9:x1")
	page := rig.Run(t, s.flags([]string{"workflow", "list", "--limit", "2", "--shards", fmt.Sprint(s.shards)})...)
	has(t, page.Stdout, "ID", "ENDED / AGE", "order-3", "x1", "ovens", "finished", "completed", "order-2", "active")
	has(t, page.Stderr, "more than 2", "--after order-2:x1")

	testShow(t, s)
	testSignals(t, s)
	testPauses(t, s)
	testEnds(t, s)
}

func testShow(t *testing.T, s *workflowShell) {
	has(t, s.takt(ok, "show", "order-1"), "order-1", "active", "waits: open activities 2, timers 1", "events not handled  0", "customer=ada", "box-1:b1", "press", "robots", "waiting", "TIMER", "9h", `{"part":"cover"}`, "WorkflowExecutionStarted")
	var v struct {
		ID, Execution, State string
		Activities           []struct {
			Ref   int64
			Queue string
		}
		Timers   []struct{ Ref int64 }
		Children []struct{ ID string }
		Last     []workflow.Event `json:"last_events"`
	}
	s.ok(json.Unmarshal([]byte(s.takt(ok, "show", "order-1:x1", "--json", "--events", "1")), &v))
	if v.ID != "order-1" || v.Execution != "x1" || v.State != "active" || len(v.Activities) != 2 || v.Activities[1].Queue != "robots" || len(v.Timers) != 1 || len(v.Children) != 1 || len(v.Last) != 1 || v.Last[0].Type != workflow.EventSubScheduled {
		t.Errorf("%+v", v)
	}
	for _, none := range []string{"order-9", "order-1:x9", "order-1:x1:x1"} {
		s.says(refused, []string{none, "takt workflow list"}, "workflow", "show", none, "--shards", fmt.Sprint(s.shards))
		s.takt(refused, "history", none)
	}
	has(t, s.takt(ok, "history", "order-1"), "SEQUENCE", "1 ", "WorkflowExecutionStarted", "order", `{"part":"cover"}`, "2 ", "SubWorkflowScheduled", "4 ")
	if got := s.ids("type", "history", "order-1", "--after", "1"); got != "SubWorkflowScheduled" {
		t.Errorf("%s", got)
	}
	if got := s.takt(ok, "history", "order-1", "--json"); !strings.Contains(got, `"eyJwYXJ0IjoiY292ZXIifQ=="`) {
		t.Errorf("a payload is not as it is stored: %s", got)
	}
}

func testSignals(t *testing.T, s *workflowShell) {
	follow := rig.Start(t, s.flags([]string{"workflow", "history", "order-1", "--follow", "--after", "2", "--shards", fmt.Sprint(s.shards)})...)
	if got := s.lines("signal", "order-1", "approve", "--arg", `{"by":"ada"}`, "--id", "k-1")[0]; got["instance"] != "order-1" || got["signal"] != "approve" || got["id"] != "k-1" || got["outcome"] != "signaled" {
		t.Errorf("%v", got)
	}
	s.takt(ok, "signal", "order-1", "approve", "--arg", `{"by":"ada"}`, "--id", "k-1")
	has(t, s.takt(ok, "show", "order-1"), "events not handled  1", "its task waits for a worker of queue presses")
	file := filepath.Join(s.dir, "arg.json")
	rig.Write(t, file, "[1, 2]")
	s.takt(ok, "signal", "order-1", "parts", "--arg", "@"+file)
	s.takt(ok, "signal", "order-1", "bare")
	s.says(refused, []string{"no execution of order-3 is active"}, "workflow", "signal", "order-3", "late", "--shards", fmt.Sprint(s.shards))
	var got []string
	for _, e := range s.steps(3, "presses", nil) {
		var d workflow.SignalData
		s.ok(json.Unmarshal(e.Data, &d))
		if e.Type != workflow.EventSignal {
			t.Errorf("%s is a %s", e.ID, e.Type)
		}
		got = append(got, d.Name+" "+string(d.Arg))
	}
	if want := []string{`approve {"by":"ada"}`, "parts [1, 2]", "bare null"}; !slices.Equal(got, want) {
		t.Errorf("signals %q, want %q", got, want)
	}
	has(t, s.takt(ok, "history", "order-1"), workflow.EventSignal, `approve  {"by":"ada"}`)

	if got := s.takt(ok, "cancel", "order-1", "--json"); got != `{"instance":"order-1","outcome":"told"}` {
		t.Errorf("%s", got)
	}
	if all := s.step("presses", ends(workflow.Canceled)); len(all) != 1 || all[0].Type != workflow.EventCanceled || string(all[0].Data) != "{}" {
		t.Errorf("to be cancelled: %+v", all)
	}
	s.takt(refused, "cancel", "order-1")
	follow.Await(workflow.EventCanceled)
	if code := follow.Exit(); code != ok {
		t.Errorf("history --follow: exit status %d: %s", code, follow.Stderr())
	}
	has(t, follow.Stdout(), "SEQUENCE", "approve ", `{"by":"ada"}`, "parts ", "[1, 2]")
	has(t, s.takt(ok, "show", "order-1"), "finished canceled")
}

func testPauses(t *testing.T, s *workflowShell) {
	if got := s.takt(ok, "pause", "order-2", "--json"); got != `{"instance":"order-2","paused":true}` {
		t.Errorf("%s", got)
	}
	has(t, s.takt(ok, "show", "order-2"), "paused: takt workflow resume order-2")
	s.takt(ok, "resume", "order-2")
	s.takt(refused, "pause", "order-9")
	s.takt(refused, "resume", "order-1")

	if got := s.takt(ok, "pause", "--queue", "robots", "--json"); got != `{"queue":"robots","paused":true}` {
		t.Errorf("%s", got)
	}
	has(t, s.takt(ok, "show", "order-2"), "held")
	has(t, s.takt(ok, "stats"), "robots", "paused", "active 1; ended and kept 2; timers 1; between shards 0", "canceled", "started")
	var stats struct {
		Active int64
		Held   map[string]int64
		Paused []string
	}
	s.ok(json.Unmarshal([]byte(s.takt(ok, "stats", "--json")), &stats))
	if stats.Active != 1 || stats.Held["robots"] != 1 || !slices.Equal(stats.Paused, []string{"robots"}) {
		t.Errorf("%+v", stats)
	}
	s.takt(ok, "resume", "--queue", "robots")
	if got := s.takt(ok, "show", "order-2"); strings.Contains(got, "held") {
		t.Errorf("resumed:\n%s", got)
	}
}

func testEnds(t *testing.T, s *workflowShell) {
	watch := rig.Start(t, s.flags([]string{"workflow", "watch", "--json", "--shards", fmt.Sprint(s.shards)})...)
	watch.Await("watching")
	s.says(refused, []string{"order-2", "cancel or terminate"}, "workflow", "remove", "order-2", "--yes", "--shards", fmt.Sprint(s.shards))
	if got := s.takt(ok, "terminate", "order-2", "--reason", "ordered twice", "--json"); got != `{"instance":"order-2","outcome":"terminated"}` {
		t.Errorf("%s", got)
	}
	s.takt(refused, "terminate", "order-2")
	has(t, s.takt(ok, "history", "order-2"), workflow.EventTerminated, "ordered twice")
	s.begin("with:colon", nil)
	watch.Await(`{"change":"started","id":"with:colon"`)
	watch.Await(`{"change":"ended","id":"order-2"`) // the two may be on different shards
	watch.Await(`"outcome":"terminated"`)
	watch.Stop()
	for _, name := range []string{"with:colon", "with:colon:", "with:colon:x1"} {
		if got := s.ids("id", "show", name); got != "with:colon" {
			t.Errorf("show %s: %s", name, got)
		}
	}

	s.says(usage, []string{"order-1:x1", "--yes"}, "workflow", "remove", "order-1", "--shards", fmt.Sprint(s.shards))
	if got := s.takt(ok, "remove", "order-1", "--yes", "--json"); got != `{"instance":"order-1","execution":"x1","outcome":"removed"}` {
		t.Errorf("%s", got)
	}
	s.takt(refused, "remove", "order-1", "--yes")
	if got := s.takt(ok, "remove", "--ended-before", "1h"); got != "0 removed" {
		t.Errorf("%s", got)
	}
	s.says(usage, []string{"2 executions", "--yes"}, "workflow", "remove", "--ended-before", "0s", "--shards", fmt.Sprint(s.shards))
	if got := s.takt(ok, "remove", "--ended-before", "0s", "--yes", "--json"); got != `{"removed":2}` {
		t.Errorf("%s", got)
	}
	if got := s.ids("id", "list"); got != "with:colon" {
		t.Errorf("left are %s", got)
	}
}

// Many executions are removed in batches, and who waits sees how far it is.
func TestWorkflowRemoveMany(t *testing.T) {
	long.Test(t, "starts thousands of instances")
	t.Parallel()
	s := newWorkflowShell(t)
	const n = 2100
	var starters sync.WaitGroup
	for first := range 20 {
		starters.Go(func() {
			for i := first; i < n; i += 20 {
				one := workflow.Instance{ID: fmt.Sprint("i-", i), Execution: "x"}
				event := workflow.Event{ID: fmt.Sprint("e-", i), Type: "Started", Time: time.Now()}
				err := errors.Join(s.client.Start(s.ctx(), workflow.Start{Instance: one, Queue: "q", Event: event}), s.client.Terminate(s.ctx(), one, "test"))
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	starters.Wait()
	r := rig.Run(t, s.flags([]string{"workflow", "remove", "--ended-before", "0s", "--yes"})...)
	has(t, r.Stdout, "2100 removed")
	has(t, r.Stderr, "2000 of 2100 removed")
	if got := s.takt(ok, "list", "--json"); r.Code != ok || got != "" {
		t.Errorf("exit status %d, left are %s", r.Code, got)
	}
}

// Whoever looks at a prefix with another number of shards is told so, and does not decide it where nobody has.
func TestWorkflowShards(t *testing.T) {
	long.Test(t, "runs many commands")
	t.Parallel()
	s := newShardedShell(t, testenv.Redis(t), 2)
	s.run(ok, "workflow", "list", "--shards", "7")
	many := newWorkflowShellOn(t, s, 2)
	many.begin("order-1", nil)
	if got := many.ids("id", "list"); got != "order-1" {
		t.Errorf("%s", got)
	}
	s.says(usage, []string{"1 here, 2 in Redis", "--shards, TAKT_SHARDS"}, "workflow", "list")
	s.says(usage, []string{"7 here, 2 in Redis"}, "workflow", "list", "--shards", "7")
	rig.Write(t, filepath.Join(s.dir, "takt.yaml"), "shards: 2\n")
	if got := s.run(ok, "workflow", "list", "--config", filepath.Join(s.dir, "takt.yaml")); !strings.Contains(got, "order-1") {
		t.Errorf("%s", got)
	}
}

// A server that is not there ends a command with an exit status of its own, and a signal can be repeated.
func TestWorkflowAway(t *testing.T) {
	long.Test(t, "runs each command without a server")
	t.Parallel()
	s := &taskShell{t: t, url: "redis://127.0.0.1:1", prefix: "takt", dir: t.TempDir()}
	for _, args := range [][]string{{"list"}, {"show", "a"}, {"history", "a"}, {"signal", "a", "b"}, {"cancel", "a"}, {"terminate", "a"}, {"remove", "a", "--yes"}, {"pause", "a"}, {"stats"}, {"watch"}, {"check"}} {
		s.run(noAnswer, append([]string{"workflow"}, args...)...)
	}
}

// An instance that continues as new between the look of a command at it and what the command does is meant all the same, unless an execution was named.
func TestWorkflowEndsThoughItContinues(t *testing.T) {
	long.Test(t, "holds commands up on their way")
	t.Parallel()
	s := newWorkflowShell(t)
	next := 1
	continues := func(cp *workflow.Checkpoint) {
		next++
		cp.State = workflow.ContinuedAsNew
		cp.Messages = []workflow.Message{{Start: &workflow.Start{Instance: workflow.Instance{ID: "order-1", Execution: fmt.Sprint("x", next)}, Queue: "presses", Name: "order",
			Event: newEvent("WorkflowExecutionStarted", 0, "{}")}}}
	}
	// during runs a command, and lets the instance continue before the command passes that has text in it.
	during := func(code int, text string, args ...string) string {
		p := testenv.CountingProxy(t, s.url)
		var once sync.Once
		p.Tap(func(fromClient bool, data []byte) {
			if fromClient && strings.Contains(string(data), text) {
				once.Do(func() { s.step("presses", continues) })
			}
		})
		r := rig.Run(t, append(append([]string{"workflow"}, args...), "--redis", p.URL, "--prefix", s.prefix, "--data", s.dir, "--json")...)
		if r.Code != code {
			t.Errorf("takt %q: exit status %d, want %d\n%s%s", args, r.Code, code, r.Stdout, r.Stderr)
		}
		return strings.TrimSpace(r.Stdout)
	}
	s.begin("order-1", nil)
	during(refused, workflow.EventCanceled, "cancel", "order-1:x1")
	if got := during(ok, workflow.EventCanceled, "cancel", "order-1"); got != `{"instance":"order-1","outcome":"told"}` {
		t.Errorf("%s", got)
	}
	if all := s.steps(2, "presses", continues); len(all) != 2 || all[1].Type != workflow.EventCanceled {
		t.Errorf("execution 3 got %+v", all)
	}
	during(refused, "ordered twice", "terminate", "order-1:x4", "--reason", "ordered twice")
	if got := during(ok, "ordered twice", "terminate", "order-1", "--reason", "ordered twice"); got != `{"instance":"order-1","outcome":"terminated"}` {
		t.Errorf("%s", got)
	}
	if got := s.ids("execution", "list", "--outcome", "terminated"); got != "x6" {
		t.Errorf("terminated: %s", got)
	}
	s.takt(refused, "terminate", "order-1")
}

// What must not be is listed with what to do about it, and says so by the exit status.
func TestWorkflowCheck(t *testing.T) {
	long.Test(t, "runs many commands")
	t.Parallel()
	srv := testenv.Redis(t)
	s := newWorkflowShellOn(t, newTaskShellOn(t, srv), 1)
	i := s.begin("order-1", nil)
	if got := s.takt(ok, "check"); !strings.Contains(got, "nothing found") {
		t.Errorf("%s", got)
	}
	if got := s.takt(ok, "check", "--json"); got != "" {
		t.Errorf("%s", got)
	}
	has(t, s.takt(failed, "check", "--grace", "0s"), "tasks:presses", "of instance order-1 waits since", "does a worker run")
	s.step("presses", ends(workflow.Completed))
	if got := s.takt(ok, "check", "--grace", "0s"); !strings.Contains(got, "nothing found") {
		t.Errorf("%s", got)
	}
	rdb := srv.Client
	s.ok(rdb.Do(s.ctx(), rdb.B().Set().Key(s.prefix+":workflow:in:order-1").Value("mine").Build()).Error())
	s.ok(rdb.Do(s.ctx(), rdb.B().Zrem().Key(s.prefix+":workflow:created").Member(i.String()).Build()).Error())
	has(t, s.takt(failed, "check"), ":workflow:in:order-1: cannot be read: WRONGTYPE", "DEL the key", ":workflow:doc:order-1:x1: is not in the index")
	var found []string
	for _, v := range rig.Lines[workflow.Violation](t, s.takt(failed, "check", "--json")) {
		if v.Key == "" || v.Problem == "" || v.Next == "" {
			t.Errorf("%+v", v)
		}
		found = append(found, strings.TrimPrefix(v.Key, s.prefix+":workflow:"))
	}
	if want := []string{"doc:order-1:x1", "in:order-1"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}

// Schedules that a program has put: listed, shown, paused, run and removed; what is wrong with one is shown.
func TestWorkflowScheduleCommands(t *testing.T) {
	long.Test(t, "waits for a schedule that is due")
	t.Parallel()
	s := newWorkflowShell(t)
	schedule := func(args ...string) []string { return append([]string{"schedule"}, args...) }
	says := func(code int, parts []string, args ...string) {
		t.Helper()
		s.says(code, parts, append(append([]string{"workflow", "schedule"}, args...), "--shards", fmt.Sprint(s.shards))...)
	}
	if got := s.takt(ok, schedule("list", "--json")...); got != "" {
		t.Errorf("at first: %s", got)
	}
	for name, exclusive := range map[string]bool{"nightly": false, "alone": true} {
		s.ok(s.client.PutSchedule(s.ctx(), workflow.Schedule{Name: name, Rule: "cron 0 3 1 1 *", Exclusive: exclusive,
			Start: workflow.Start{Queue: "presses", Name: "report", Event: workflow.Event{Type: "WorkflowExecutionStarted", Data: json.RawMessage(`{"name":"report"}`)}}}))
	}
	if got := s.ids("name", schedule("list")...); got != "alone nightly" {
		t.Errorf("list: %s", got)
	}
	has(t, s.takt(ok, schedule("list")...), "SCHEDULE", "SKIPPED", "alone", "nightly", "report", "presses", "cron 0 3 1 1 *", "active")
	has(t, s.takt(ok, schedule("show", "alone")...), "alone", "active", "cron 0 3 1 1 *", "the latest is started", "exclusive", `{"name":"report"}`)
	if got, list := s.takt(ok, schedule("show", "alone", "--json")...), s.takt(ok, schedule("list", "--json")...); !strings.HasPrefix(list, got) {
		t.Errorf("shown:\n%s\nlisted:\n%s", got, list)
	}

	if got := s.lines(schedule("pause", "nightly")...)[0]; got["paused"] != true {
		t.Errorf("%v", got)
	}
	has(t, s.takt(ok, schedule("list")...), "paused")
	first := s.lines(schedule("run", "nightly")...)[0]
	id := s.takt(ok, schedule("run", "nightly")...)
	if first["name"] != "nightly" || !strings.HasPrefix(id, "nightly-") || first["instance"] == id {
		t.Errorf("run: %v, then %s", first, id)
	}
	has(t, s.takt(ok, "show", id), "active", "report")
	s.takt(ok, "show", fmt.Sprintf("%s:%s", first["instance"], first["execution"]))
	if got := s.takt(ok, schedule("resume", "nightly")...); got != "" {
		t.Errorf("resume: %s", got)
	}
	has(t, s.takt(ok, schedule("show", "nightly")...), "active", "next")

	s.takt(ok, schedule("run", "alone")...)
	says(refused, []string{"alone", "active already", "takt workflow schedule show"}, "run", "alone")
	has(t, s.takt(ok, schedule("show", "alone")...), "last instance", "alone-")
	for _, command := range []string{"show", "pause", "resume", "delete", "run"} {
		says(refused, []string{"nothing", "takt workflow schedule list"}, command, "nothing")
		says(usage, []string{"must be at most"}, command, strings.Repeat("x", 200))
	}

	generous, err := workflow.Open(s.ctx(), s.url, workflow.Options{Prefix: s.prefix, Shards: s.shards, MaxEvent: 4 << 20})
	s.ok(err)
	defer generous.Close()
	s.ok(generous.PutSchedule(s.ctx(), workflow.Schedule{Name: "large", Rule: "every 100ms",
		Start: workflow.Start{Queue: "presses", Event: workflow.Event{Type: "Started", Data: json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)}}}))
	s.until("the refusal is shown", func() bool {
		return strings.Contains(s.takt(ok, schedule("show", "large")...), "Options.MaxEvent")
	})
	has(t, s.takt(ok, schedule("list")...), "refused: ")
	if got := s.lines(schedule("delete", "large")...)[0]; got["name"] != "large" || got["outcome"] != "removed" {
		t.Errorf("%v", got)
	}
	s.takt(ok, schedule("delete", "nightly")...)
	s.takt(ok, schedule("delete", "alone")...)
	if got := s.takt(ok, schedule("list", "--json")...); got != "" {
		t.Errorf("left: %s", got)
	}
}

// On a cluster one file of settings serves tasks, whose prefix needs a tag there, and workflows of many shards; without a tag the tasks are refused with what to do.
func TestOneFileForTasksAndWorkflows(t *testing.T) {
	long.Test(t, "runs a cluster")
	t.Parallel()
	on := newShardedShell(t, testenv.RedisCluster(t), 3)
	s := newWorkflowShellOn(t, on, 3)
	s.begin("order-1", nil)
	file := filepath.Join(on.dir, "one.yaml")
	rig.Write(t, file, fmt.Sprintf("redis: %s\nprefix: \"{%s}\"\nshards: 3\n", on.url, on.prefix))
	for _, args := range [][]string{{"workflow", "list"}, {"workflow", "check"}, {"task", "check"}, {"task", "stats"}} {
		r := rig.Run(t, append(args, "--config", file, "--data", on.dir)...)
		if r.Code != ok || args[1] == "list" && !strings.Contains(r.Stdout, "order-1") {
			t.Errorf("takt %q: exit status %d\n%s%s", args, r.Code, r.Stdout, r.Stderr)
		}
	}
	if r := rig.Run(t, "task", "list", "--redis", on.url, "--data", on.dir); r.Code != noAnswer || !strings.Contains(r.Stderr, "--prefix {takt}") {
		t.Errorf("without a tagged prefix: exit status %d, %s", r.Code, r.Stderr)
	}
}
