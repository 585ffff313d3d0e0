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

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/internal/wire"
)

func (e *env) find(ref task.Ref, opts ...task.FindOption) task.Task {
	e.t.Helper()
	t, err := e.client.Find(e.ctx(), ref, opts...)
	if err != nil {
		e.t.Fatal(err)
	}
	return t
}

// W15: in each state a task is found by its reference and by its id alone, with what is known of it.
func TestFind(t *testing.T) {
	e := newEnv(t)
	running, release := stocked(e)
	defer release()
	k := e.keys()
	wait := submitOne(e, Double, double{7}, task.WithLabels(map[string]string{"order": "4711"}), task.Background, task.Large)
	late := submitOne(e, Double, double{8}, task.In(time.Hour))
	locked := message(t, wire.Message{ID: "blocked-1", Name: "x:Y", Args: []byte{0x90}, Meta: wire.Meta{Blocked: 3}})
	e.do("ZADD", k.TaskDelayed(), "99999999999", locked)
	e.do("HSET", k.TaskBlocked(), "blocked-1", locked)
	e.do("HSET", k.TaskControl(), "pause type x:Z", "1")
	e.do("ZADD", k.TaskParked("x:Z"), "5000", message(t, wire.Message{ID: "parked-1", Name: "x:Z"}))
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
		{"parked-1", nil, task.Task{Ref: task.Ref{ID: "parked-1", Queue: "normal:medium"}, Name: "x:Z", State: task.StateParked, Attempt: 1, Args: json.RawMessage(`[]`)}},
	} {
		for _, ref := range append(c.refs, task.Ref{ID: c.id}) {
			got := e.find(ref)
			if d := cmp.Diff(c.want, got, ignore, cmpopts.IgnoreFields(task.Failure{}, "At")); d != "" {
				t.Errorf("%v:\n%s", ref, d)
			}
			if age := time.Since(got.Enqueued); c.want.State != task.StateBlocked && c.want.State != task.StateParked && (age < 0 || age > time.Minute) {
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

func TestFindEnded(t *testing.T) {
	e := newEnv(t)
	e.start(task.WorkerOptions{}, Double.Handle(func(_ context.Context, j *task.Job[double]) (int, error) {
		if j.Args.N < 0 {
			return 0, task.Cancel(errors.New("negative"))
		}
		return 2 * j.Args.N, nil
	}))
	h := submitOne(e, Double, double{21})
	if _, err := h.Await(e.ctx()); err != nil {
		t.Fatal(err)
	}
	if got := e.find(h.Ref); got.State != task.StateDone || string(got.Result) != "42" || got.ID != h.ID {
		t.Errorf("%+v", got)
	}
	bad := submitOne(e, Double, double{-1})
	if _, err := bad.Await(e.ctx()); err == nil {
		t.Fatal("no error")
	}
	e.do("DEL", e.keys().TaskDead(), e.keys().TaskDeadIndex())
	if got := e.find(bad.Ref); got.State != task.StateDead || got.Error == nil || got.Error.Message != "negative" {
		t.Errorf("without its letter: %+v", got)
	}
}

// The search by id is bounded, and says so.
func TestFindScan(t *testing.T) {
	e := newEnv(t)
	args := make([]double, 1203)
	handles, err := Double.SubmitMany(e.ctx(), e.client, args)
	if err != nil {
		t.Fatal(err)
	}
	last := task.Ref{ID: handles[1202].ID}
	if got := e.find(last); got.Entry != handles[1202].Entry {
		t.Errorf("%+v", got)
	}
	for _, n := range []int{0, 10, 1202} {
		_, err := e.client.Find(e.ctx(), last, task.ScanAtMost(n))
		if !errors.Is(err, task.ErrNotFound) || !strings.Contains(err.Error(), "among those that were looked at") {
			t.Errorf("ScanAtMost(%d): %v", n, err)
		}
	}
	if got := e.find(last, task.ScanAtMost(1203)); got.State != task.StateWaiting {
		t.Errorf("%+v", got)
	}
	if _, err := e.client.Find(e.ctx(), task.Ref{ID: "nobody"}, task.ScanAtMost(-1)); !errors.Is(err, task.ErrNotFound) || strings.Contains(err.Error(), "looked at") {
		t.Errorf("%v", err)
	}
	if _, err := e.client.Find(e.ctx(), task.Ref{}); err == nil {
		t.Error("found nothing by the name of nothing")
	}
	if _, err := e.client.Find(e.ctx(), task.Ref{ID: "a", Queue: "urgent:small"}); err == nil || !strings.Contains(err.Error(), "T16") {
		t.Errorf("%v", err)
	}
}

func (e *env) all(f task.Filter) (ids []string) {
	e.t.Helper()
	for tk, err := range e.client.All(e.ctx(), f) {
		if err != nil {
			e.t.Fatal(err)
		}
		ids = append(ids, string(tk.State)+" "+tk.ID)
	}
	return ids
}

func TestList(t *testing.T) {
	e := newEnv(t)
	_, release := stocked(e)
	defer release()
	k := e.keys()
	submitOne(e, Double, double{}, task.ID("waiting-0"), task.Realtime, task.Large)
	var members []string
	for i := range 7 { // all due at once
		members = append(members, "99999999999", message(t, wire.Message{ID: fmt.Sprintf("same-%d", i), Name: "x:Y"}))
	}
	e.do(append([]string{"ZADD", k.TaskDelayed()}, members...)...)
	e.do("HSET", k.TaskBlocked(), "same-3", members[7])
	e.do("HSET", k.TaskControl(), "pause type x:Z", "1")
	e.do("ZADD", k.TaskParked("x:Z"), "5000", message(t, wire.Message{ID: "parked-1", Name: "x:Z"}))
	all := []string{"waiting waiting-0", "running running-1", "waiting waiting-1", "delayed delayed-1", "delayed same-0", "delayed same-1", "delayed same-2", "blocked same-3",
		"delayed same-4", "delayed same-5", "delayed same-6", "parked parked-1", "dead dead-1"}
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
		{task.Filter{State: task.StateParked}, only("parked")},
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
		if _, err := e.client.List(e.ctx(), f); err == nil || !strings.Contains(err.Error(), "Filter.") && !strings.Contains(err.Error(), "T16") {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// A page takes a bounded number of commands, whatever it finds.
func TestListOfManyPages(t *testing.T) {
	e := newEnv(t)
	if _, err := Double.SubmitMany(e.ctx(), e.client, make([]double, 6000)); err != nil {
		t.Fatal(err)
	}
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

func TestInspectOnOtherServers(t *testing.T) {
	for name, srv := range map[string]func(testing.TB) *testenv.RedisServer{"cluster": testenv.RedisCluster, "miniredis": testenv.Miniredis} {
		t.Run(name, func(t *testing.T) {
			e := newEnvOn(t, srv(t))
			running, release := stocked(e)
			if got := e.find(task.Ref{ID: running.ID}); got.State != task.StateRunning || got.Worker != "stocked" {
				t.Errorf("%+v", got)
			}
			want := []string{"running running-1", "waiting waiting-1", "delayed delayed-1", "dead dead-1"}
			if got := e.all(task.Filter{}); !slices.Equal(got, want) {
				t.Errorf("%q", got)
			}
			for id, want := range map[string]task.CancelOutcome{"waiting-1": task.CancelledNow, "delayed-1": task.CancelledNow, "dead-1": task.CancelTooLate, "running-1": task.CancelTold} {
				if got, err := e.client.Cancel(e.ctx(), task.Ref{ID: id}); err != nil || got != want {
					t.Errorf("%s: %s %v", id, got, err)
				}
			}
			release()
		})
	}
}
