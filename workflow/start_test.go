package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/workflow"
)

// The same start again does nothing, while the execution is active and after its end; another execution of an active instance is refused, of one that has ended not.
func TestStartOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	s := starting("a")
	e.ok(e.Start(e.ctx(), s))
	before := e.dump()
	e.ok(e.Start(e.ctx(), s))
	other := starting("a")
	e.is(e.Start(e.ctx(), other), workflow.ErrExists)
	if after := e.dump(); !maps.Equal(before, after) {
		t.Error("a second start changed something")
	}
	e.step(e.task(w), finished)
	before = e.dump()
	e.ok(e.Start(e.ctx(), s))
	if after := e.dump(); !maps.Equal(before, after) {
		t.Error("a start of an execution that has ended changed something")
	}
	e.ok(e.Start(e.ctx(), other))
	if got := e.info(workflow.Instance{ID: "a"}); got.Execution != other.Instance.Execution || got.State != workflow.Active {
		t.Errorf("newest execution: %+v", got)
	}
	if got := e.info(s.Instance); got.State != workflow.Finished {
		t.Errorf("first execution: %+v", got)
	}
	if first := e.task(w); first.Execution != other.Instance.Execution || types(first.Events) != "Started" {
		t.Errorf("task: %s %s", first.Instance, types(first.Events))
	}
	if st := e.stats(); st.Active != 1 || st.Ended != 1 || st.Counters["started"] != 2 {
		t.Errorf("stats: %+v", st)
	}
}

// 100 who start the same execution at once are one, and so are 100 with one of their own each: the first wins.
func TestStartAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	s := starting("same")
	var all sync.WaitGroup
	var mu sync.Mutex
	started := 0
	for range 100 {
		all.Go(func() {
			if err := e.Start(context.Background(), s); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			err := e.Start(context.Background(), starting("other"))
			if err != nil && !errors.Is(err, workflow.ErrExists) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				started++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if n := e.int("XLEN", e.key("tasks:q")); n != 2 || started != 1 {
		t.Errorf("%d tasks, %d of the others started", n, started)
	}
}

// What cannot be stored is refused with field, value and rule, and changes nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *workflow.Options) { o.MaxEvent = 1000 })
	w, _ := e.worker(workflow.WorkerOptions{})
	e.begin("there")
	task := e.task(w)
	long := strings.Repeat("n", 129)
	start := func(f func(*workflow.Start)) func() error {
		return func() error { return e.Start(e.ctx(), starting("new", f)) }
	}
	give := func(f func(*workflow.Event)) func() error {
		return func() error {
			ev := event(workflow.EventSignal, 0)
			f(&ev)
			return e.Signal(e.ctx(), "there", ev)
		}
	}
	complete := func(change ...func(*workflow.Checkpoint)) func() error {
		return func() error { return task.Complete(e.ctx(), checkpoint(task, change...)) }
	}
	big := []byte(`"` + strings.Repeat("x", 1000) + `"`)
	for name, c := range map[string]struct {
		do                 func() error
		field, value, rule string
	}{
		"no id":                {start(func(s *workflow.Start) { s.Instance.ID = "" }), "Start.Instance.ID", `""`, "must not be empty"},
		"long id":              {start(func(s *workflow.Start) { s.Instance.ID = long }), "Start.Instance.ID", "nnn...", "at most 128 bytes"},
		"id with a line end":   {start(func(s *workflow.Start) { s.Instance.ID = "a\nb" }), "Start.Instance.ID", `"a\nb"`, "control characters"},
		"id that is not UTF-8": {start(func(s *workflow.Start) { s.Instance.ID = "a\xff" }), "Start.Instance.ID", `"a?"`, "UTF-8"},
		"no execution":         {start(func(s *workflow.Start) { s.Instance.Execution = "" }), "Start.Instance.Execution", `""`, "1 to 64 bytes"},
		"long execution":       {start(func(s *workflow.Start) { s.Instance.Execution = long[:65] }), "Start.Instance.Execution", "nnn", "1 to 64 bytes"},
		"execution with colon": {start(func(s *workflow.Start) { s.Instance.Execution = "a:b" }), "Start.Instance.Execution", `"a:b"`, "colon"},
		"parent with colon": {start(func(s *workflow.Start) { s.Instance.Parent = &workflow.Instance{ID: "p", Execution: "a:b"} }),
			"Start.Instance.Parent.Execution", `"a:b"`, "colon"},
		"no queue":           {start(func(s *workflow.Start) { s.Queue = "" }), "Start.Queue", `""`, "must not be empty"},
		"queue with a space": {start(func(s *workflow.Start) { s.Queue = "a b" }), "Start.Queue", `"a b"`, "no space"},
		"queue of the dead":  {start(func(s *workflow.Start) { s.Queue = "a:dead" }), "Start.Queue", `"a:dead"`, "dead letters"},
		"long name":          {start(func(s *workflow.Start) { s.Name = long }), "Start.Name", "nnn...", "at most 128 bytes"},
		"33 attributes":      {start(func(s *workflow.Start) { s.Attributes = attributes(33) }), "Start.Attributes", `"33"`, "at most 32"},
		"attribute without name": {start(func(s *workflow.Start) { s.Attributes = map[string]string{"": "v"} }),
			"Start.Attributes", `""`, "must not be empty"},
		"long attribute": {start(func(s *workflow.Start) { s.Attributes = map[string]string{"k": long} }),
			"Start.Attributes.k", "nnn...", "at most 128 bytes"},
		"attribute that is not UTF-8": {start(func(s *workflow.Start) { s.Attributes = map[string]string{"k": "\xff"} }),
			"Start.Attributes.k", `"?"`, "UTF-8"},
		"gate without key": {start(func(s *workflow.Start) { s.Gate = &workflow.Gate{Max: 1} }), "Start.Gate.Key", `""`, "must not be empty"},
		"gate for nobody":  {start(func(s *workflow.Start) { s.Gate = &workflow.Gate{Key: "g"} }), "Start.Gate.Max", `"0"`, "1 or more"},
		"big metadata":     {start(func(s *workflow.Start) { s.Metadata = big }), "Start.Metadata", "xxx...", "at most 1000 are allowed"},
		"broken metadata":  {start(func(s *workflow.Start) { s.Metadata = []byte("{") }), "Start.Metadata", `"{"`, "must be JSON"},
		"no time":          {start(func(s *workflow.Start) { s.Event.Time = time.Time{} }), "Start.Event.Time", `"0"`, "must be set"},
		"first event":      {start(func(s *workflow.Start) { s.Event.ID = "" }), "Start.Event.ID", `""`, "1 to 128 bytes"},

		"event without id":   {give(func(ev *workflow.Event) { ev.ID = "" }), "Event.ID", `""`, "1 to 128 bytes"},
		"event, long id":     {give(func(ev *workflow.Event) { ev.ID = long }), "Event.ID", "nnn...", "1 to 128 bytes"},
		"event without type": {give(func(ev *workflow.Event) { ev.Type = "" }), "Event.Type", `""`, "1 to 128 bytes"},
		"big event":          {give(func(ev *workflow.Event) { ev.Data = big }), "Event", `"SignalReceived"`, "bytes as JSON, at most 1000 are allowed"},
		"broken event":       {give(func(ev *workflow.Event) { ev.Data = []byte("nope") }), "Event.Data", `"nope"`, "must be JSON"},
		"signal for no id":   {func() error { return e.Signal(e.ctx(), "", event("S", 0)) }, "Signal id", `""`, "must not be empty"},
		"cancel with colon": {func() error {
			return e.Cancel(e.ctx(), workflow.Instance{ID: "there", Execution: "x:1"}, event("C", 0))
		},
			"Cancel instance.Execution", `"x:1"`, "colon"},
		"terminate with colon": {func() error { return e.Terminate(e.ctx(), workflow.Instance{ID: "there", Execution: "x:1"}, "") },
			"Terminate instance.Execution", `"x:1"`, "colon"},
		"info with colon": {func() error { _, err := e.Info(e.ctx(), workflow.Instance{ID: "there", Execution: "x:1"}); return err },
			"Info instance.Execution", `"x:1"`, "colon"},
		"pause without id":    {func() error { return e.Pause(e.ctx(), "") }, "instance", `""`, "must not be empty"},
		"queue without name":  {func() error { return e.PauseQueue(e.ctx(), "") }, "queue", `""`, "must not be empty"},
		"remove without one":  {func() error { return e.Remove(e.ctx(), workflow.Instance{ID: "there"}) }, "Remove instance.Execution", `""`, "1 to 64"},
		"history without one": {func() error { _, err := e.History(e.ctx(), workflow.Instance{ID: "there"}, 0); return err }, "History instance.Execution", `""`, "1 to 64"},
		"no queues":           {func() error { _, err := w.WorkflowTask(e.ctx(), nil); return err }, "queues", `""`, "one at least"},
		"a bad queue":         {func() error { _, err := w.ActivityTask(e.ctx(), []string{"q", "*"}); return err }, "queue", `"*"`, "none of"},

		"state":           {complete(func(cp *workflow.Checkpoint) { cp.State = "done" }), "Checkpoint.State", `"done"`, "must be active, continued_as_new or finished"},
		"gap in history":  {complete(func(cp *workflow.Checkpoint) { cp.Executed = append(cp.Executed, cp.Executed[0]) }), "Checkpoint.Executed[1].Sequence", `"1"`, "one more"},
		"history event":   {complete(func(cp *workflow.Checkpoint) { cp.Executed[0].ID = "" }), "Checkpoint.Executed[0].ID", `""`, "1 to 128 bytes"},
		"activity":        {complete(schedules(1), func(cp *workflow.Checkpoint) { cp.Activities[0].Event.Type = "" }), "Checkpoint.Activities[0].Event.Type", `""`, "1 to 128"},
		"activity, queue": {complete(schedules(1), func(cp *workflow.Checkpoint) { cp.Activities[0].Queue = "?" }), "Checkpoint.Activities[0].Queue", `"?"`, "none of"},
		"timer":           {complete(func(cp *workflow.Checkpoint) { cp.Timers = []workflow.Event{event("T", 1)} }), "Checkpoint.Timers[0].VisibleAt", `""`, "must be set"},
		"message":         {complete(func(cp *workflow.Checkpoint) { cp.Messages = []workflow.Message{{}} }), "Checkpoint.Messages[0]", `""`, "an Event or a Start"},
		"message, to":     {complete(tells(workflow.Instance{ID: "x"}, event("E", 0))), "Checkpoint.Messages[0].To.Execution", `""`, "1 to 64"},
		"message, start":  {complete(child(task, starting("c", func(s *workflow.Start) { s.Queue = "" }), 1)), "Checkpoint.Messages[0].Start.Queue", `""`, "must not be empty"},
		"no continuation": {complete(func(cp *workflow.Checkpoint) { cp.State = workflow.ContinuedAsNew }), "Checkpoint.Messages", `"0"`, "must start another execution"},
	} {
		t.Run(name, func(t *testing.T) {
			before := e.dump()
			err := c.do()
			if err == nil || !strings.HasPrefix(err.Error(), "workflow: "+c.field+" ") || !strings.Contains(err.Error(), c.value) || !strings.Contains(err.Error(), c.rule) {
				t.Errorf("error %v, want %s, %s and %s", err, c.field, c.value, c.rule)
			}
			if after := e.dump(); !maps.Equal(before, after) {
				t.Error("something was changed")
			}
		})
	}
	e.step(task) // what was refused has not ended it
}

func attributes(n int) map[string]string {
	all := make(map[string]string)
	for i := range n {
		all[fmt.Sprint("k", i)] = "v"
	}
	return all
}

func TestOptions(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for want, o := range map[string]workflow.Options{
		`Options.Prefix "a b"`:             {Prefix: "a b"},
		`Options.Shards -1: want 1 to`:     {Shards: -1},
		`Options.Shards 257: want 1 to`:    {Shards: 257},
		`Options.Prefix "a{b}": want no b`: {Prefix: "a{b}", Shards: 2},
		`Options.KnownFor -1s: must not`:   {KnownFor: -time.Second},
		`Options.MaxEvent -1: want bytes`:  {MaxEvent: -1},
	} {
		if _, err := workflow.New(e.srv.Client, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
	if _, err := workflow.New(nil, workflow.Options{}); err == nil {
		t.Error("no client is taken")
	}
	if _, err := workflow.Open(e.ctx(), "nonsense://", workflow.Options{}); err == nil {
		t.Error("a URL that is none")
	}
	for want, o := range map[string]workflow.WorkerOptions{
		`WorkerOptions.Name "a b"`:                          {Name: "a b"},
		`WorkerOptions.Lease 1ms: must be at least`:         {Lease: time.Millisecond},
		`WorkerOptions.WorkflowLease 1ms: must be at least`: {WorkflowLease: time.Millisecond, Lease: time.Second},
		`WorkerOptions.ActivityLease 1ms: must be at least`: {ActivityLease: time.Millisecond, Lease: time.Second},
	} {
		if _, err := e.NewWorker(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
	w, _ := e.worker(workflow.WorkerOptions{})
	e.begin("a")
	e.task(w)
	if err := w.Run(e.ctx()); err == nil {
		t.Error("a worker runs twice")
	}
}

// An error says whether an instance is unknown, or known and not active.
func TestErrorsSayWhatIsNotThere(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("over")
	e.step(e.task(w), finished)
	for _, id := range []string{"over", "unknown"} {
		says := "workflow: no execution of " + id + " is active"
		e.says(e.Terminate(e.ctx(), workflow.Instance{ID: id}, ""), says)
		e.says(e.Signal(e.ctx(), id, event(workflow.EventSignal, 0)), says)
		e.says(e.Pause(e.ctx(), id), says)
	}
	e.says(e.Cancel(e.ctx(), i, event(workflow.EventCanceled, 0)), "workflow: execution "+i.String()+" is not active")
	e.says(e.Terminate(e.ctx(), i, ""), "workflow: execution "+i.String()+" is not active")
	_, err := e.Info(e.ctx(), workflow.Instance{ID: "unknown"})
	e.says(err, "workflow: no such instance: unknown")
}
