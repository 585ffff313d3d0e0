package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/workflow"
)

// Info is of the execution that is named, or of the newest, active or not.
func TestInfo(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	_, err := e.Info(e.ctx(), workflow.Instance{ID: "a"})
	e.is(err, workflow.ErrNotFound)
	s := starting("a", func(s *workflow.Start) {
		s.Attributes, s.Metadata, s.Gate = map[string]string{"customer": "7"}, []byte(`{"trace":[1,2]}`), &workflow.Gate{Key: "g", Max: 2}
	})
	e.ok(e.Start(e.ctx(), s))
	got := e.info(workflow.Instance{ID: "a"})
	if got.Instance != s.Instance || got.Queue != "q" || got.Name != "flow" || got.State != workflow.Active || got.Outcome != "" || !got.Created.Equal(s.Event.Time) || got.Ended != nil ||
		got.LastSequence != 0 || got.Attributes["customer"] != "7" || string(got.Metadata) != `{"trace":[1,2]}` || *got.Gate != *s.Gate {
		t.Errorf("info: %+v", got)
	}
	e.step(e.task(w), func(cp *workflow.Checkpoint) { cp.State, cp.Outcome = workflow.Finished, workflow.Failed })
	second := e.begin("a")
	if got := e.info(s.Instance); got.State != workflow.Finished || got.Outcome != workflow.Failed || got.Ended == nil || got.LastSequence != 1 {
		t.Errorf("info: %+v", got)
	}
	if got := e.info(workflow.Instance{ID: "a"}); got.Instance != second {
		t.Errorf("newest: %+v", got)
	}
	_, err = e.Info(e.ctx(), workflow.Instance{ID: "a", Execution: "never"})
	e.is(err, workflow.ErrNotFound)
	e.step(e.task(w), finished)
}

func TestHistory(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("a")
	if h, err := e.History(e.ctx(), i, 0); err != nil || len(h) != 0 {
		t.Errorf("of a new one: %+v, %v", h, err)
	}
	_, err := e.History(e.ctx(), workflow.Instance{ID: "a", Execution: "never"}, 0)
	e.is(err, workflow.ErrNotFound)
	for range 5 {
		task := e.task(w)
		e.step(task)
		e.ok(e.Signal(e.ctx(), "a", event("S", 0)))
	}
	for after, want := range map[int64]string{-1: "Started S S S S", 0: "Started S S S S", 1: "S S S S", 4: "S", 5: "", 99: ""} {
		h, err := e.History(e.ctx(), i, after)
		if err != nil || types(h) != want {
			t.Errorf("after %d: %q, %v", after, types(h), err)
		}
	}
	// Who numbers in another way is understood, too.
	e.begin("b", func(s *workflow.Start) { s.Queue = "b" })
	odd := e.task(w, "b")
	e.step(odd, func(cp *workflow.Checkpoint) {
		cp.Executed = append(cp.Executed, event("X", 0), event("Y", 0))
		for k := range cp.Executed {
			cp.Executed[k].Sequence = int64(11 + k)
		}
	})
	for after, want := range map[int64]string{0: "Started X Y", 11: "X Y", 12: "Y", 13: ""} {
		h, err := e.History(e.ctx(), odd.Instance, after)
		if err != nil || types(h) != want {
			t.Errorf("after %d: %q, %v", after, types(h), err)
		}
	}
	e.step(e.task(w), finished)
	e.ok(e.Terminate(e.ctx(), odd.Instance, ""))
}

// Every field of a filter counts, alone and with others.
func TestListFilter(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint("shards ", n), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, shards(n))
			w, _ := e.worker(workflow.WorkerOptions{})
			begun := time.Now().Truncate(time.Microsecond)
			at := func(k int) time.Time { return begun.Add(time.Duration(k) * time.Second) }
			for k := range 12 {
				e.begin(fmt.Sprint("i", k), func(s *workflow.Start) {
					s.Event.Time = at(k)
					s.Queue = []string{"q", "r"}[k%2]
					s.Name = []string{"one", "two", "three"}[k%3]
					s.Attributes = map[string]string{"k": fmt.Sprint(k % 4), "odd": fmt.Sprint(k % 2)}
				})
			}
			for range 4 {
				task := e.task(w, "q")
				e.step(task, func(cp *workflow.Checkpoint) { cp.State, cp.Outcome = workflow.Finished, workflow.Failed })
			}
			for range 2 {
				e.step(e.task(w, "r"), finished)
			}
			ended, failed := map[string]bool{}, map[string]bool{}
			for i, err := range e.All(e.ctx(), workflow.Filter{}) {
				e.ok(err)
				ended[i.ID], failed[i.ID] = i.State == workflow.Finished, i.Outcome == workflow.Failed
			}
			is := func(f func(k int) bool) (want []string) {
				for k := 11; k >= 0; k-- {
					if f(k) {
						want = append(want, fmt.Sprint("i", k))
					}
				}
				return want
			}
			for name, c := range map[string]struct {
				f    workflow.Filter
				want func(k int) bool
			}{
				"all":        {workflow.Filter{}, func(int) bool { return true }},
				"state":      {workflow.Filter{State: workflow.Finished}, func(k int) bool { return ended[fmt.Sprint("i", k)] }},
				"active":     {workflow.Filter{State: workflow.Active}, func(k int) bool { return !ended[fmt.Sprint("i", k)] }},
				"continued":  {workflow.Filter{State: workflow.ContinuedAsNew}, func(int) bool { return false }},
				"outcome":    {workflow.Filter{Outcome: workflow.Failed}, func(k int) bool { return failed[fmt.Sprint("i", k)] }},
				"queue":      {workflow.Filter{Queue: "r"}, func(k int) bool { return k%2 == 1 }},
				"name":       {workflow.Filter{Name: "two"}, func(k int) bool { return k%3 == 1 }},
				"id":         {workflow.Filter{ID: "i7"}, func(k int) bool { return k == 7 }},
				"attribute":  {workflow.Filter{Attributes: map[string]string{"k": "3"}}, func(k int) bool { return k%4 == 3 }},
				"two":        {workflow.Filter{Attributes: map[string]string{"k": "3", "odd": "0"}}, func(int) bool { return false }},
				"no such":    {workflow.Filter{Attributes: map[string]string{"none": ""}}, func(int) bool { return false }},
				"after":      {workflow.Filter{CreatedAfter: at(4)}, func(k int) bool { return k > 4 }},
				"before":     {workflow.Filter{CreatedBefore: at(4)}, func(k int) bool { return k < 4 }},
				"between":    {workflow.Filter{CreatedAfter: at(3), CreatedBefore: at(9), Queue: "q"}, func(k int) bool { return k > 3 && k < 9 && k%2 == 0 }},
				"page":       {workflow.Filter{After: e.info(workflow.Instance{ID: "i8"}).Instance}, func(k int) bool { return k < 8 }},
				"page, old":  {workflow.Filter{After: e.info(workflow.Instance{ID: "i8"}).Instance, CreatedBefore: at(4)}, func(k int) bool { return k < 4 }},
				"page, late": {workflow.Filter{After: e.info(workflow.Instance{ID: "i3"}).Instance, CreatedBefore: at(9)}, func(k int) bool { return k < 3 }},
			} {
				list, err := e.List(e.ctx(), c.f)
				e.ok(err)
				if got := idsOf(list); !slices.Equal(got, is(c.want)) {
					t.Errorf("%s: %q, want %q", name, got, is(c.want))
				}
			}
			if _, err := e.List(e.ctx(), workflow.Filter{After: workflow.Instance{ID: "never", Execution: "x"}}); !errors.Is(err, workflow.ErrNotFound) {
				t.Errorf("after one that is not there: %v", err)
			}
			for range e.All(e.ctx(), workflow.Filter{}) {
				break
			}
		})
	}
}

func idsOf(list []workflow.Info) (ids []string) {
	for _, i := range list {
		ids = append(ids, i.ID)
	}
	return ids
}

// Pages of any size show all, each once, in one order; also of many that were created at the same time.
func TestListPages(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprint("shards ", n), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, shards(n))
			at := time.Now().Truncate(time.Microsecond)
			const total = 700
			var all sync.WaitGroup
			for k := range total {
				all.Go(func() {
					s := starting(fmt.Sprintf("i%03d", k))
					s.Event.Time = at.Add(time.Duration(k/300) * time.Microsecond) // 300 at a time
					if err := e.Start(context.Background(), s); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			whole, err := e.List(e.ctx(), workflow.Filter{Limit: -1})
			e.ok(err)
			if len(whole) != total {
				t.Fatalf("%d are listed", len(whole))
			}
			some := []workflow.Instance{whole[500].Instance, {ID: "never", Execution: "x"}, whole[3].Instance, whole[4].Instance}
			infos, err := e.Infos(e.ctx(), some)
			e.ok(err)
			if got, want := idsOf(infos), idsOf([]workflow.Info{whole[500], whole[3], whole[4]}); !slices.Equal(got, want) {
				t.Errorf("documents of %v, want %v", got, want)
			}
			for k := range whole[1:] {
				if whole[k].Created.Before(whole[k+1].Created) {
					t.Fatalf("%s before %s", whole[k].Instance, whole[k+1].Instance)
				}
			}
			for _, state := range []workflow.State{"", workflow.Active} {
				for _, size := range []int{1, 7, 256, 0} {
					f := workflow.Filter{State: state, Limit: size}
					var got []string
					for {
						page, err := e.List(e.ctx(), f)
						e.ok(err)
						if len(page) == 0 || len(got) > 40 && size == 1 {
							break
						}
						got = append(got, idsOf(page)...)
						f.After = page[len(page)-1].Instance
					}
					if want := idsOf(whole); !slices.Equal(got, want[:len(got)]) || size != 1 && len(got) != total {
						t.Errorf("in pages of %d: %d of %d, in another order", size, len(got), total)
					}
				}
			}
		})
	}
}

// Sub-workflows and continuations are listed by when they were created, among all others.
func TestListOrder(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	e.begin("1")
	task := e.task(w)
	e.step(task, child(task, starting("2"), 1))
	e.begin("3")
	task = e.task(w)
	next, goesOn := continued(task)
	e.step(task, goesOn)
	e.begin("4")
	list, err := e.List(e.ctx(), workflow.Filter{})
	e.ok(err)
	if got := idsOf(list); strings.Join(got, " ") != "4 2 3 2 1" || list[1].Instance.String() != next.Instance.String() {
		t.Errorf("list: %q", got)
	}
}

// Stats counts what waits and runs by queue, what ended and how, and nothing that is not there.
func TestStats(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	if st := e.stats(); st.Active+st.Ended+st.Timers+st.Outbox != 0 || len(st.Workflows)+len(st.Activities)+len(st.Held)+len(st.Counters) != 0 {
		t.Errorf("at first: %+v", st)
	}
	for k := range 6 {
		e.begin(fmt.Sprint("a", k))
	}
	e.begin("r", func(s *workflow.Start) { s.Queue = "r" })
	e.step(e.task(w), schedules(1, 2), timer(3, time.Hour))
	e.step(e.task(w), finished)
	e.step(e.task(w), func(cp *workflow.Checkpoint) { cp.State, cp.Outcome = workflow.Finished, workflow.Canceled })
	e.ok(e.Terminate(e.ctx(), workflow.Instance{ID: "a5"}, ""))
	running := e.task(w)
	e.ok(e.PauseQueue(e.ctx(), "r"))
	st := e.stats()
	if st.Active != 4 || st.Ended != 3 || st.Timers != 1 || st.Workflows["q"] != 2 || st.Activities["q"] != 2 || st.Held["r"] != 1 || len(st.Workflows) != 1 || len(st.Activities) != 1 {
		t.Errorf("stats: %+v", st)
	}
	if st.Counters["started"] != 7 || st.Counters["completed"] != 1 || st.Counters["canceled"] != 1 || st.Counters["terminated"] != 1 {
		t.Errorf("counters: %+v", st.Counters)
	}
	e.step(running)
	e.ok(e.ResumeQueue(e.ctx(), "r"))
}
