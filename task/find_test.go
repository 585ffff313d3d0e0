package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/internal/wire"
)

func (e *env) find(ref task.Ref) task.Task {
	e.t.Helper()
	t, err := e.client.Find(e.ctx(), ref)
	e.ok(err)
	return t
}

// In each state a task is found by its reference and by its id alone, with what is known of it.
func TestFind(t *testing.T) {
	e := newEnv(t)
	running, release := stocked(e)
	defer release()
	k := e.keys()
	wait := send(e, Double, double{7}, task.WithLabels(map[string]string{"order": "4711"}), task.Background, task.Large)
	late := send(e, Double, double{8}, task.In(time.Hour))
	locked := message(t, wire.Message{ID: "blocked-1", Name: "x:Y", Args: []byte{0x90}, Meta: wire.Meta{Blocked: 3}})
	e.do("ZADD", k.TaskDelayed(), "99999999999", locked)
	e.do("HSET", k.TaskBlocked(), "blocked-1", locked)
	e.do("HSET", k.TaskControl(), "pause type x:Z", "1")
	ignore := cmp.Options{cmpopts.IgnoreUnexported(task.Task{}), cmpopts.IgnoreFields(task.Task{}, "Enqueued", "Since", "Took", "Died")}
	for _, c := range []struct {
		id   string
		refs []task.Ref
		want task.Task
	}{
		{wait.ID, []task.Ref{wait.Ref}, task.Task{Ref: wait.Ref, Name: "test:Double", State: task.StateWaiting, Attempt: 1,
			Labels: map[string]string{"order": "4711"}, Args: json.RawMessage(`[7]`)}},
		{late.ID, []task.Ref{late.Ref, {ID: late.ID, Queue: "normal:medium", Due: time.UnixMilli(1)}, {ID: late.ID, Queue: "normal:medium", Entry: "1-1"}},
			task.Task{Ref: late.Ref, Name: "test:Double", State: task.StateDelayed, Attempt: 1, Args: json.RawMessage(`[8]`)}},
		{running.ID, []task.Ref{running}, task.Task{Ref: running, Name: "test:Holding", State: task.StateRunning, Attempt: 1, Args: json.RawMessage(`[0]`),
			Worker: "stocked", Deliveries: 1}},
		{"dead-1", nil, task.Task{Ref: task.Ref{ID: "dead-1", Queue: "normal:small", Entry: e.find(task.Ref{ID: "dead-1"}).Entry}, Name: "test:Failing", State: task.StateDead, Attempt: 1,
			Args: json.RawMessage(`[1]`), Worker: "stocked", Deliveries: 1, Error: &task.Error{Type: "errors.errorString", Message: "boom"},
			History: []task.Failure{{Attempt: 1, Error: "boom"}}}},
		{"blocked-1", []task.Ref{{ID: "blocked-1", Queue: "normal:medium", Due: time.Unix(99999999999, 0)}},
			task.Task{Ref: task.Ref{ID: "blocked-1", Queue: "normal:medium", Due: time.Unix(99999999999, 0).UTC()}, Name: "x:Y", State: task.StateBlocked, Attempt: 1, Args: json.RawMessage(`[]`), Blocked: 3}},
	} {
		for _, ref := range append(c.refs, task.Ref{ID: c.id}) {
			got := e.find(ref)
			near, err := e.client.FindNear(e.ctx(), ref)
			e.ok(err)
			if d := cmp.Diff(got, near, ignore); d != "" {
				t.Errorf("near %v:\n%s", ref, d)
			}
			if d := cmp.Diff(c.want, got, ignore, cmpopts.IgnoreFields(task.Failure{}, "At")); d != "" {
				t.Errorf("%v:\n%s", ref, d)
			}
			if age := time.Since(got.Enqueued); c.want.State != task.StateBlocked && (age < 0 || age > time.Minute) {
				t.Errorf("%v: enqueued %v", ref, got.Enqueued)
			}
			if c.want.State == task.StateRunning && (time.Since(got.Since) < 0 || time.Since(got.Since) > time.Minute) {
				t.Errorf("%v: runs since %v", ref, got.Since)
			}
		}
	}
	if got := e.find(task.Ref{ID: "dead-1"}); time.Since(got.Died) > time.Minute || time.Since(got.History[0].At) > time.Minute {
		t.Errorf("died %v, failed %v", got.Died, got.History[0].At)
	}
}

// A name leads to a task where names lead to one, and by its reference, without a look into the queues; to groups and schedules always.
func TestNamed(t *testing.T) {
	e := newEnv(t)
	_, release := stocked(e)
	defer release()
	k, wait, late := e.keys(), send(e, Double, double{7}, task.Background, task.Large), send(e, Double, double{8}, task.In(time.Hour))
	e.do("HSET", k.GroupState("g-1"), "total", "2")
	e.do("HSET", k.SchedulerEntries(), "nightly", "{}")
	for name, want := range map[string]task.Named{
		"dead-1": {Task: true}, wait.Ref.String(): {Task: true}, late.Ref.String(): {Task: true}, wait.ID: {}, "g-1": {Group: true}, "nightly": {Schedule: true},
		"": {}, "normal:small/x": {}, strings.Repeat("x", 10_000): {},
	} {
		if got, err := e.client.Named(e.ctx(), name); got != want || err != nil {
			t.Errorf("%.40s: %+v, %v, want %+v", name, got, err, want)
		}
	}
	if n, err := e.client.DeadLetters().Count(e.ctx()); n != 1 || err != nil {
		t.Errorf("%d dead letters, %v", n, err)
	}
}

// What Find shows of a task can be read as its type reads it; what is of another type, or does not fit, is refused.
func TestArgsOf(t *testing.T) {
	e := newEnv(t)
	typ, other := task.Define[double, int]("test:Args", task.Positional()), task.Define[[]string, int]("test:Args")
	found := e.find(send(e, typ, double{7}, task.In(time.Hour)).Ref)
	if args, err := typ.ArgsOf(found); err != nil || args != (double{7}) {
		t.Errorf("%+v, %v", args, err)
	}
	says(t, "of another type", errOf(task.Define[double, int]("test:Different", task.Positional()).ArgsOf(found)), `"test:Args", want "test:Different"`)
	says(t, "of another shape", errOf(other.ArgsOf(found)), found.ID)
	says(t, "of a task that has ended", errOf(typ.ArgsOf(task.Task{Ref: found.Ref, State: task.StateDone})), found.ID)
}

func TestFindEnded(t *testing.T) {
	e := newEnv(t)
	e.start(task.WorkerOptions{}, Double.Handle(func(_ context.Context, j *task.Job[double]) (int, error) {
		if j.Args.N < 0 {
			return 0, task.Cancel(errors.New("negative"))
		}
		return 2 * j.Args.N, nil
	}))
	h := send(e, Double, double{21})
	done(e, h)
	if got := e.find(h.Ref); got.State != task.StateDone || string(got.Result) != "42" || got.ID != h.ID {
		t.Errorf("%+v", got)
	}
	bad := send(e, Double, double{-1})
	refused(t, "no error", errOf(bad.Await(e.ctx())))
	e.do("DEL", e.keys().TaskDead(), e.keys().TaskDeadIndex())
	if got := e.find(bad.Ref); got.State != task.StateDead || got.Error == nil || got.Error.Message != "negative" {
		t.Errorf("without its letter: %+v", got)
	}
}

// The search by id is bounded, and says so.
func TestFindScan(t *testing.T) {
	e := newEnv(t)
	args := make([]double, 1203)
	handles := sendMany(e, Double, args)
	last := task.Ref{ID: handles[1202].ID}
	if got := e.find(last); got.Entry != handles[1202].Entry {
		t.Errorf("%+v", got)
	}
	for _, n := range []int{0, 10, 1202} {
		_, err := task.FindAmong(e.client, e.ctx(), last, n)
		if !errors.Is(err, task.ErrNotFound) || !strings.Contains(err.Error(), fmt.Sprintf("among the %d messages", n)) {
			t.Errorf("among %d: %v", n, err)
		}
	}
	if got, err := task.FindAmong(e.client, e.ctx(), last, 1203); err != nil || got.State != task.StateWaiting {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := e.client.Find(e.ctx(), task.Ref{ID: "nobody"}); !errors.Is(err, task.ErrNotFound) || strings.Contains(err.Error(), "looked at") {
		t.Errorf("%v", err)
	}
	refused(t, "found nothing by the name of nothing", errOf(e.client.Find(e.ctx(), task.Ref{})))
	says(t, "", errOf(e.client.Find(e.ctx(), task.Ref{ID: "a", Queue: "urgent:small"})), "PRIORITY:SIZE")
}

func (e *env) all(f task.Filter) (ids []string) {
	e.t.Helper()
	for tk, err := range e.client.All(e.ctx(), f) {
		e.ok(err)
		ids = append(ids, string(tk.State)+" "+tk.ID)
	}
	return ids
}

func TestList(t *testing.T) {
	e := newEnv(t)
	_, release := stocked(e)
	defer release()
	k := e.keys()
	send(e, Double, double{}, task.ID("waiting-0"), task.Realtime, task.Large)
	var members []string
	for i := range 7 { // all due at once
		members = append(members, "99999999999", message(t, wire.Message{ID: fmt.Sprintf("same-%d", i), Name: "x:Y"}))
	}
	e.do(append([]string{"ZADD", k.TaskDelayed()}, members...)...)
	e.do("HSET", k.TaskBlocked(), "same-3", members[7])
	e.do("HSET", k.TaskControl(), "pause type x:Z", "1")
	all := []string{"waiting waiting-0", "running running-1", "waiting waiting-1", "delayed delayed-1", "delayed same-0", "delayed same-1", "delayed same-2", "blocked same-3",
		"delayed same-4", "delayed same-5", "delayed same-6", "dead dead-1"}
	only := func(words ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(s string) bool {
			return !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(s, w) })
		})
	}
	for _, c := range []struct {
		f    task.Filter
		want []string
	}{
		{task.Filter{}, all},
		{task.Filter{State: task.StateWaiting}, only("waiting")},
		{task.Filter{State: task.StateRunning}, only("running")},
		{task.Filter{State: task.StateDelayed}, only("delayed")},
		{task.Filter{State: task.StateBlocked}, only("blocked")},
		{task.Filter{State: task.StateDead}, only("dead")},
		{task.Filter{Queue: "realtime:large"}, only("waiting waiting-0")},
		{task.Filter{Name: "test:Double"}, only("waiting", "delayed delayed-1")},
		{task.Filter{Name: "test:Double", State: task.StateDelayed}, only("delayed delayed-1")},
		{task.Filter{Name: "nothing"}, nil},
	} {
		for _, limit := range []int{0, 1, 2, 3, 500} {
			c.f.Limit = limit
			if got := e.all(c.f); !slices.Equal(got, c.want) {
				t.Errorf("%+v:\ngot  %q\nwant %q", c.f, got, c.want)
			}
		}
	}
	for _, f := range []task.Filter{{Limit: 501}, {Limit: -1}, {State: "done"}, {State: "odd"}, {Queue: "odd"}, {After: "x"}, {After: "1 nowhere"}, {After: "x delayed"}} {
		if _, err := e.client.List(e.ctx(), f); err == nil || !strings.Contains(err.Error(), "Filter.") && !strings.Contains(err.Error(), "PRIORITY:SIZE") {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// A page takes a bounded number of commands, whatever it finds.
func TestListOfManyPages(t *testing.T) {
	e := newEnv(t)
	sendMany(e, Double, make([]double, 6000))
	page, err := e.client.List(e.ctx(), task.Filter{Name: "nothing"})
	if err != nil || len(page.Tasks) != 0 || page.Next == "" {
		t.Errorf("%+v %v", page, err)
	}
	if n := len(e.all(task.Filter{Limit: 500})); n != 6000 {
		t.Errorf("%d of 6000", n)
	}
	if n := len(e.all(task.Filter{Name: "nothing"})); n != 0 {
		t.Errorf("%d of 0", n)
	}
}

func TestInspectOnMiniredis(t *testing.T) { testInspect(t, newEnvOn(t, testenv.Miniredis(t))) }

func testInspect(t *testing.T, e *env) {
	running, release := stocked(e)
	if got := e.find(task.Ref{ID: running.ID}); got.State != task.StateRunning || got.Worker != "stocked" {
		t.Errorf("%+v", got)
	}
	want := []string{"running running-1", "waiting waiting-1", "delayed delayed-1", "dead dead-1"}
	equal(t, e.all(task.Filter{}), want)
	for id, want := range map[string]task.CancelOutcome{"waiting-1": task.CancelledNow, "delayed-1": task.CancelledNow, "dead-1": task.CancelTooLate, "running-1": task.CancelTold} {
		if got, err := e.client.Cancel(e.ctx(), task.Ref{ID: id}); err != nil || got != want {
			t.Errorf("%s: %s %v", id, got, err)
		}
	}
	release()
}

// What a worker gave back waits for any worker, whoever asks, and is cancelled with what waits.
func TestGivenBackWaits(t *testing.T) {
	e := newEnv(t)
	k := e.keys()
	const q = task.Queue("normal:medium")
	key := k.TaskStream(string(q))
	back, running, fresh := send(e, Double, double{1}), send(e, Double, double{2}), send(e, Double, double{3})
	e.must("XGROUP", "CREATE", key, k.TaskGroup(), "0")
	e.must("XREADGROUP", "GROUP", k.TaskGroup(), "w", "COUNT", "2", "STREAMS", key, ">")
	e.must("XCLAIM", key, k.TaskGroup(), "w:back", "0", back.Entry, "RETRYCOUNT", "0", "JUSTID") // as giveback.lua does
	e.must("SET", k.Worker("w"), "token")
	if !stream.GivenBack("w:back") {
		t.Fatal("w:back is the name of a worker")
	}
	for _, c := range []struct {
		ref    task.Ref
		state  task.State
		worker string
		begun  int
	}{{back.Ref, task.StateWaiting, "", 0}, {running.Ref, task.StateRunning, "w", 1}, {fresh.Ref, task.StateWaiting, "", 0}} {
		for _, ref := range []task.Ref{c.ref, {ID: c.ref.ID}} {
			if got := e.find(ref); got.State != c.state || got.Worker != c.worker || got.Deliveries != c.begun || got.Since.IsZero() != (c.worker == "") {
				t.Errorf("%v: %s, held by %q since %v, begun %d times, want %s and %q", ref, got.State, got.Worker, got.Since, got.Deliveries, c.state, c.worker)
			}
		}
	}
	for state, want := range map[task.State][]string{task.StateWaiting: {back.ID, fresh.ID}, task.StateRunning: {running.ID}, "": {back.ID, running.ID, fresh.ID}} {
		page, err := e.client.List(e.ctx(), task.Filter{State: state})
		e.ok(err)
		var got []string
		for _, one := range page.Tasks {
			got = append(got, one.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: listed %v, want %v", state, got, want)
		}
	}
	if s := queue(e.stats(), q); s.Waiting != 2 || s.Running != 1 {
		t.Errorf("stats: %+v", s)
	}
	if r := e.healthy(0); r.Waiting != 2 || r.Running != 1 {
		t.Errorf("check: %+v", r)
	}
	if n, err := e.client.Purge(e.ctx(), q, q); n != 2 || err != nil {
		t.Errorf("%d purged, %v", n, err)
	}
	e.must("DEL", k.Worker("w"))
	e.start(task.WorkerOptions{}, Double.Handle(func(_ context.Context, j *task.Job[double]) (int, error) {
		if j.Args.N != 2 {
			t.Errorf("%d was purged, and runs", j.Args.N)
		}
		return 0, nil
	}))
	done(e, running)
	failed(e, back, "cancelled")
}
