package task_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

func (e *env) workers() []task.WorkerInfo {
	e.t.Helper()
	all, err := e.client.Workers(e.ctx())
	e.ok(err)
	return all
}

// Workers say who they are and what they run, and are gone from the list when they end.
func TestWorkers(t *testing.T) {
	long.Test(t, "waits for workers to renew their records")
	e := newEnv(t)
	begun, gate := make(chan struct{}), make(chan struct{})
	_, stop := e.start(task.WorkerOptions{ID: "a", Lease: shortLease, Concurrency: map[task.Size]int{task.Medium: 3}},
		Double.Handle(func(context.Context, *task.Job[double]) (int, error) { close(begun); <-gate; return 1, nil }))
	_, stopOther := e.start(task.WorkerOptions{ID: "b", Concurrency: map[task.Size]int{task.Large: 1}})
	h := send(e, Double, double{})
	<-begun
	var a task.WorkerInfo
	e.eventually("both are listed, with what runs", func() bool {
		all := e.workers()
		if len(all) == 2 {
			a = all[0]
		}
		return len(all) == 2 && len(a.Running) == 1
	})
	host, err := os.Hostname()
	e.ok(err)
	if a.ID != "a" || a.Host != host || a.PID != os.Getpid() || !a.Alive || a.Slots[task.Medium] != 3 || a.Lease != shortLease || a.Fetched != 1 || a.Ended != 0 || a.InHand != 1 ||
		!slices.Contains(a.Types, "test:Double") || time.Since(a.Since) > time.Minute || a.Seen.Before(a.Since) {
		t.Errorf("%+v", a)
	}
	r := a.Running[0]
	if r.ID != h.ID || r.Name != "test:Double" || r.Queue != "normal:medium" || r.Attempt != 1 || time.Since(r.Started) > time.Minute || r.Deadline.Sub(r.Started) != task.DefaultTimeout {
		t.Errorf("%+v", r)
	}
	if n := e.stats().Workers; n != 2 {
		t.Errorf("%d workers", n)
	}
	close(gate)
	e.eventually("it has ended", func() bool { all := e.workers(); return all[0].Ended == 1 && all[0].InHand == 0 })
	stop()
	if all := e.workers(); len(all) != 1 || all[0].ID != "b" {
		t.Errorf("%+v", all)
	}
	stopOther()
	if all := e.workers(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	e.healthy(0)
}

// Neither the record of a worker that died nor its name in the streams is left, if another lives.
func TestDeadWorkersAreForgotten(t *testing.T) {
	long.Test(t, "waits until a worker looks for the dead")
	e := newEnv(t)
	k := e.keys()
	for _, q := range []string{"normal:medium", "background:medium"} {
		e.do("XGROUP", "CREATE", k.TaskStream(q), k.TaskGroup(), "0", "MKSTREAM")
		e.do("XGROUP", "CREATECONSUMER", k.TaskStream(q), k.TaskGroup(), "gone")
	}
	e.do("HSET", k.TaskWorkers(), "gone", `{"id":"gone"}`)
	if _, found := e.check(0); len(found) != 3 {
		t.Errorf("%d findings: %v", len(found), found)
	}
	_, stop := e.start(task.WorkerOptions{ID: "alive", Lease: 300 * time.Millisecond, Concurrency: map[task.Size]int{task.Medium: 1}})
	e.eventually("all is tidy", func() bool {
		all := e.workers()
		_, found := e.check(0)
		return len(all) == 1 && all[0].ID == "alive" && all[0].Alive && len(found) == 0
	})
	stop()
	for _, q := range []string{"normal:medium", "background:medium"} {
		if list, err := e.do("XINFO", "CONSUMERS", k.TaskStream(q), k.TaskGroup()).ToArray(); err != nil || len(list) != 0 {
			t.Errorf("%d consumers of %s are left, %v", len(list), q, err)
		}
	}
}

// Probes see whether Redis answers, when the worker last fetched, what it has in hand, and how long tasks wait.
func TestHealth(t *testing.T) {
	e := newEnv(t)
	begun, gate := make(chan struct{}), make(chan struct{})
	w, err := e.client.Worker(task.WorkerOptions{Concurrency: map[task.Size]int{task.Medium: 1}},
		Double.Handle(func(context.Context, *task.Job[double]) (int, error) { begun <- struct{}{}; <-gate; return 1, nil }))
	e.ok(err)
	if h := w.Health(e.ctx()); h.OK || !strings.Contains(h.Problem, "no heartbeat") || !h.LastFetch.IsZero() || h.Lag != 0 {
		t.Errorf("before it runs: %+v", h)
	}
	stop := e.run(w)
	send(e, Double, double{})
	<-begun
	if h := w.Health(e.ctx()); !h.OK || h.InFlight != 1 || h.Slots != 1 || time.Since(h.LastFetch) > time.Minute || h.Ping <= 0 || h.Lag != 0 {
		t.Errorf("while it runs: %+v", h)
	}
	for range 3 { // at least one is not fetched ahead
		send(e, Double, double{})
	}
	e.eventually("tasks lag", func() bool { return w.Health(e.ctx()).Lag > time.Millisecond })
	probe := func(query string) (int, task.Health) {
		rec := httptest.NewRecorder()
		w.HealthHandler().ServeHTTP(rec, httptest.NewRequestWithContext(e.ctx(), http.MethodGet, "/livez"+query, nil))
		var h task.Health
		if rec.Code != http.StatusBadRequest {
			if err := json.Unmarshal(rec.Body.Bytes(), &h); err != nil {
				t.Error(err)
			}
		}
		return rec.Code, h
	}
	for query, want := range map[string]int{"": 200, "?max_lag=1h": 200, "?max_lag=1ms": 503, "?max_lag=junk": 400} {
		if code, h := probe(query); code != want || want != 400 && h.OK != (want == 200) {
			t.Errorf("%s: %d %+v", query, code, h)
		}
	}
	close(gate)
	go func() {
		for range begun {
		}
	}()
	if err := e.client.Drain(e.ctx(), "normal:medium"); err != nil {
		t.Error(err)
	}
	stop()
	close(begun)
	e.ok(e.srv.Server.Kill())
	ctx, cancel := context.WithTimeout(e.ctx(), 2*time.Second)
	defer cancel()
	if h := w.Health(ctx); h.OK || !strings.HasPrefix(h.Problem, "Redis: ") {
		t.Errorf("without Redis: %+v", h)
	}
}
