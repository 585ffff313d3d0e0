package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
)

type heldTask struct {
	t      *workflow.WorkflowTask
	f      *flow
	n      int // of its events that are no timers
	worker int
}

type heldActivity struct {
	a      *workflow.ActivityTask
	f      *flow
	worker int
}

// Several clients and workers do what they like, workers die, and all shows and answers what the model says; each execution ends once, and saw each event once.
func TestAnyOperations(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	rapid.Check(t, func(r *rapid.T) {
		s := newStage(t, r, srv)
		defer s.close()
		r.Repeat(map[string]func(*rapid.T){
			"start": s.startAction, "signal": s.signalAction, "cancel": s.cancelAction, "terminate": s.terminateAction, "pause": s.pauseAction, "resume": s.resumeAction,
			"task": s.taskAction, "complete": s.completeAction, "complete again": s.completeAction, "release": s.releaseAction,
			"activity": s.activityAction, "result": s.resultAction, "kill": s.killAction,
		})
		s.finish()
	})
}

// stage is one run of the model and of the real thing side by side.
type stage struct {
	r       *rapid.T
	clients []*workflow.Client
	workers []*workflow.Worker
	dismiss []func() // by worker
	stops   []func()
	m       *world
	tasks   []*heldTask
	acts    []*heldActivity
	kills   int
	ctx     context.Context
	cancel  context.CancelFunc
}

func newStage(t *testing.T, r *rapid.T, srv *testenv.RedisServer) *stage {
	s := &stage{r: r, m: &world{active: map[string]*flow{}, paused: map[string]bool{}}}
	s.ctx, s.cancel = context.WithTimeout(context.Background(), hang)
	prefix := srv.Prefix(t)
	for range 2 {
		rdb, err := redis.Connect(s.ctx, redis.Options{URL: srv.URL})
		s.must(err)
		c, err := workflow.New(rdb, workflow.Options{Prefix: prefix})
		s.must(err)
		s.stops = append(s.stops, func() { c.Close(); rdb.Close() })
		s.clients = append(s.clients, c)
	}
	for n := range s.clients {
		s.workers, s.dismiss = append(s.workers, nil), append(s.dismiss, nil)
		s.employ(n)
	}
	return s
}

func (s *stage) must(err error) {
	s.r.Helper()
	if err != nil {
		s.r.Fatal(err)
	}
}

// employ puts a new worker in the place of one.
func (s *stage) employ(n int) {
	w, err := s.clients[n].NewWorker(workflow.WorkerOptions{Drain: -1, Lease: mortalLease})
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	s.workers[n], s.dismiss[n] = w, func() { cancel(); <-done }
}

func (s *stage) close() {
	for _, stop := range append(s.dismiss, s.stops...) {
		if stop != nil {
			stop()
		}
	}
	s.cancel()
}

func (s *stage) client(r *rapid.T) *workflow.Client {
	return rapid.SampledFrom(s.clients).Draw(r, "client")
}
func (s *stage) id(r *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(r, "id")
}

// found wants err to be ErrNotFound if there is none.
func (s *stage) found(r *rapid.T, is bool, err error) {
	r.Helper()
	if is && err != nil || !is && !errors.Is(err, workflow.ErrNotFound) {
		r.Fatalf("found: %v, want %v", err, is)
	}
}

func (s *stage) startAction(r *rapid.T) {
	id := s.id(r)
	start := starting(id)
	err := s.client(r).Start(s.ctx, start)
	if s.m.active[id] != nil {
		if !errors.Is(err, workflow.ErrExists) {
			r.Fatalf("started twice: %v", err)
		}
		return
	}
	s.must(err)
	s.must(s.client(r).Start(s.ctx, start)) // the same again
	s.m.start(start.Instance)
}

func (s *stage) signalAction(r *rapid.T) {
	id := s.id(r)
	e := event(workflow.EventSignal, 0)
	e.Type = e.ID
	err := s.client(r).Signal(s.ctx, id, e)
	ok := s.m.tell(workflow.Instance{ID: id}, modelEvent{name: e.Type, carry: true})
	s.found(r, ok, err)
	if ok && rapid.Bool().Draw(r, "again") {
		s.must(s.client(r).Signal(s.ctx, id, e))
	}
}

func (s *stage) cancelAction(r *rapid.T) {
	if len(s.m.all) == 0 {
		r.Skip("nothing was started")
	}
	i := rapid.SampledFrom(s.m.all).Draw(r, "execution").i
	e := event("", 0)
	e.Type = e.ID
	err := s.client(r).Cancel(s.ctx, i, e)
	s.found(r, s.m.tell(i, modelEvent{name: e.Type}), err)
}

func (s *stage) terminateAction(r *rapid.T) {
	id := s.id(r)
	err := s.client(r).Terminate(s.ctx, workflow.Instance{ID: id}, "")
	f := s.m.active[id]
	s.found(r, f != nil, err)
	if f == nil {
		return
	}
	s.m.end(f, workflow.Finished, workflow.Terminated)
	f.history = append(f.history, workflow.EventTerminated)
	if p := f.i.Parent; p != nil {
		s.m.tell(*p, modelEvent{name: fmt.Sprint(workflow.EventSubFailed, f.i.ParentEvent)})
	}
}

func (s *stage) pauseAction(r *rapid.T) {
	id := s.id(r)
	s.found(r, s.m.active[id] != nil, s.client(r).Pause(s.ctx, id))
	if s.m.active[id] != nil {
		s.m.paused[id] = true
	}
}

func (s *stage) resumeAction(r *rapid.T) {
	id := s.id(r)
	s.found(r, s.m.active[id] != nil, s.client(r).Resume(s.ctx, id))
	delete(s.m.paused, id)
}

func (s *stage) taskAction(r *rapid.T) {
	if !s.m.runnable() {
		r.Skip("nothing waits")
	}
	n := rapid.IntRange(0, len(s.workers)-1).Draw(r, "worker")
	t, err := s.workers[n].WorkflowTask(s.ctx, []string{"q"})
	s.must(err)
	f := s.m.active[t.ID]
	if f == nil || f.i.Execution != t.Execution { // read ahead for a poller, and terminated since
		s.lost(r, true, t.Extend(s.ctx))
		return
	}
	if f.held {
		r.Fatalf("a second task of %s", t.Instance)
	}
	h := &heldTask{t: t, f: f, worker: n}
	for _, e := range t.Events {
		if e.Type == workflow.EventTimerFired {
			if !f.timers[e.Ref] {
				r.Fatalf("timer %d of %s", e.Ref, t.Instance)
			}
			continue
		}
		if h.n >= len(f.pending) || f.pending[h.n].name != nameOf(e) {
			r.Fatalf("%s gets %s, which are not the next of %v", t.Instance, types(t.Events), f.pending)
		}
		h.n++
	}
	f.held = true
	s.tasks = append(s.tasks, h)
}

// take takes out one of those who are held.
func take[T any](r *rapid.T, from *[]T, what string) (one T) {
	if len(*from) == 0 {
		r.Skip("nobody has any")
	}
	k := rapid.IntRange(0, len(*from)-1).Draw(r, what)
	one = (*from)[k]
	*from = slices.Delete(*from, k, k+1)
	return one
}

func (s *stage) lost(r *rapid.T, is bool, err error) {
	r.Helper()
	if is && !errors.Is(err, workflow.ErrLost) || !is && err != nil {
		r.Fatalf("error %v, want lost: %v", err, is)
	}
}

func (s *stage) completeAction(r *rapid.T) {
	h := take(r, &s.tasks, "task")
	s.complete(r, h, rapid.SampledFrom([]string{"goes on", "goes on", "goes on", "continues", "ends"}).Draw(r, "how"))
}

func (s *stage) complete(r *rapid.T, h *heldTask, how string) {
	f, t := h.f, h.t
	cp := checkpoint(t)
	over := f.state != workflow.Active
	var after []func()
	ref := func() int64 { s.m.refs++; return s.m.refs }
	if how == "goes on" {
		for range rapid.IntRange(0, 2).Draw(r, "activities") {
			n := ref()
			schedules(n)(&cp)
			after = append(after, func() { f.open[n] = false })
		}
		for range rapid.IntRange(0, 1).Draw(r, "timers") {
			n := ref()
			timer(n, time.Duration(rapid.IntRange(0, 3).Draw(r, "due"))*time.Millisecond)(&cp)
			after = append(after, func() { f.timers[n] = true })
			if rapid.Bool().Draw(r, "cancelled") {
				cp.Canceled = append(cp.Canceled, n)
				after = append(after, func() { delete(f.timers, n) })
			}
		}
	}
	var next *workflow.Start
	switch how {
	case "continues":
		n, goesOn := continued(t)
		goesOn(&cp)
		cp.RemoveContinued = rapid.Bool().Draw(r, "removed")
		next = &n
	case "ends":
		finished(&cp)
	}
	if rapid.IntRange(0, 3).Draw(r, "child") == 0 {
		c, n := starting(s.id(r)), ref()
		child(t, c, n)(&cp)
		m := cp.Messages[len(cp.Messages)-1]
		m.Rejected.Type = fmt.Sprint(workflow.EventSubFailed, n)
		after = append(after, func() {
			if s.m.active[c.Instance.ID] != nil {
				s.m.tell(f.i, modelEvent{name: m.Rejected.Type})
			} else {
				s.m.start(m.Start.Instance)
			}
		})
	}
	if len(s.m.all) > 0 && rapid.Bool().Draw(r, "tells") {
		to := rapid.SampledFrom(s.m.all).Draw(r, "whom").i
		e := event("", 0)
		e.Type = e.ID
		tells(to, e)(&cp)
		after = append(after, func() { s.m.tell(to, modelEvent{name: e.Type}) })
	}
	s.lost(r, over, t.Complete(s.ctx, cp))
	if over {
		return
	}
	f.held = false
	for _, e := range f.pending[:h.n] {
		f.history = append(f.history, e.name)
	}
	f.pending = f.pending[h.n:]
	for _, e := range t.Events {
		if e.Type == workflow.EventTimerFired {
			delete(f.timers, e.Ref)
		}
	}
	switch how {
	case "continues":
		s.m.end(f, workflow.ContinuedAsNew, "")
		if cp.RemoveContinued {
			f.state = ""
		}
		s.m.start(next.Instance, slices.DeleteFunc(slices.Clone(f.pending), func(e modelEvent) bool { return !e.carry })...)
	case "ends":
		s.m.end(f, workflow.Finished, workflow.Completed)
	}
	for _, do := range after {
		do()
	}
}

func (s *stage) releaseAction(r *rapid.T) {
	h := take(r, &s.tasks, "task")
	s.lost(r, h.f.state != workflow.Active, h.t.Release(s.ctx))
	h.f.held = false
}

func (s *stage) activityAction(r *rapid.T) {
	if !s.m.waiting() {
		r.Skip("nothing waits")
	}
	n := rapid.IntRange(0, len(s.workers)-1).Draw(r, "worker")
	a, err := s.workers[n].ActivityTask(s.ctx, []string{"q"})
	s.must(err)
	f := s.m.flow(a.Instance)
	if f == nil {
		r.Fatalf("an activity of %s", a.Instance)
	}
	if s.m.active[a.Instance.ID] != f { // read ahead for a poller, and its instance has ended since
		s.lost(r, true, a.Extend(s.ctx))
		return
	}
	if held, open := f.open[a.Event.Ref]; !open || held {
		r.Fatalf("activity %d of %s is open: %v, with somebody: %v", a.Event.Ref, a.Instance, open, held)
	}
	f.open[a.Event.Ref] = true
	s.acts = append(s.acts, &heldActivity{a, f, n})
}

func (s *stage) resultAction(r *rapid.T) {
	h := take(r, &s.acts, "activity")
	s.result(r, h, rapid.Bool().Draw(r, "released"))
}

func (s *stage) result(r *rapid.T, h *heldActivity, release bool) {
	ref := h.a.Event.Ref
	_, open := h.f.open[ref]
	if release {
		s.lost(r, !open, h.a.Release(s.ctx))
		if open {
			h.f.open[ref] = false
		}
		return
	}
	e := event("", ref)
	e.Type = e.ID
	s.lost(r, !open, h.a.Complete(s.ctx, e))
	if open {
		delete(h.f.open, ref)
		s.m.tell(h.f.i, modelEvent{name: e.Type})
	}
}

// killAction ends a worker with all that it has.
func (s *stage) killAction(r *rapid.T) {
	if s.kills++; s.kills > 1 {
		r.Skip("enough of them died")
	}
	n := rapid.IntRange(0, len(s.workers)-1).Draw(r, "worker")
	s.dismiss[n]()
	s.employ(n)
	for _, h := range s.tasks {
		if h.worker == n {
			s.lost(r, true, h.t.Complete(s.ctx, checkpoint(h.t)))
			h.f.held = false
		}
	}
	s.tasks = slices.DeleteFunc(s.tasks, func(h *heldTask) bool { return h.worker == n })
	for _, h := range s.acts {
		if h.worker == n {
			s.lost(r, true, h.a.Complete(s.ctx, event("Late", h.a.Event.Ref)))
			if _, open := h.f.open[h.a.Event.Ref]; open {
				h.f.open[h.a.Event.Ref] = false
			}
		}
	}
	s.acts = slices.DeleteFunc(s.acts, func(h *heldActivity) bool { return h.worker == n })
}
