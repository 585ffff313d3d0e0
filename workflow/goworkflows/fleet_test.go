package goworkflows_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/client"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflow/goworkflows"
)

const (
	tours = 200
	stops = 5 // of each
)

var twoQueues = []gowf.Queue{"red", "blue"}

// fleet is a number of tours, and the processes that work on them.
type fleet struct {
	*goworkflows.Backend
	t      *testing.T
	srv    *testenv.RedisServer
	prefix string
	books  *Books
	ids    []string // of the tours that were started
}

func newFleet(t *testing.T, srv *testenv.RedisServer) *fleet {
	t.Helper()
	prefix := srv.Prefix(t)
	b, err := goworkflows.Open(t.Context(), srv.URL+"?prefix="+prefix, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, b) })
	return &fleet{b, t, srv, prefix, &Books{srv.Client, prefix}, nil}
}

func (f *fleet) worker(name string) *process {
	f.t.Helper()
	return startWorker(f.t, workerConfig{URL: f.srv.URL, Prefix: f.prefix, Name: name, Lease: dyingLease, Pollers: 8, Queues: twoQueues})
}

// start starts some tours, on both queues.
func (f *fleet) start(name string, n int) (ids []string) {
	f.t.Helper()
	c := client.New(f)
	defer func() { f.ids = append(f.ids, ids...) }()
	for k := range n {
		ids = append(ids, fmt.Sprintf("%s-%d", name, k))
		if _, err := c.CreateWorkflowInstance(f.t.Context(), client.WorkflowInstanceOptions{InstanceID: ids[k], Queue: twoQueues[k%2]}, tour, stops); err != nil {
			f.t.Fatal(err)
		}
	}
	return ids
}

// until waits until something holds that nobody tells.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); !ok(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("never: %s", what)
		}
	}
}

// entered is how many stops were, by anybody.
func (f *fleet) entered() int {
	f.t.Helper()
	n, err := f.srv.Client.Do(f.t.Context(), f.srv.Client.B().Hlen().Key(f.books.key("effects")).Build()).AsInt64()
	if err != nil {
		f.t.Fatal(err)
	}
	return int(n)
}

// midst waits until a fifth is done, or more.
func (f *fleet) midst(fifths int) {
	f.t.Helper()
	until(f.t, fmt.Sprint(fifths, " fifths are done"), func() bool { return f.entered() >= fifths*tours*stops/5 })
}

// catch stops a process in the midst of a task. There is more to do if it comes too late.
func (f *fleet) catch(p *process, name string) {
	f.t.Helper()
	until(f.t, name+" has a task", func() bool {
		if f.entered() >= len(f.ids)*stops {
			f.start(fmt.Sprint("more-", len(f.ids)), 10)
		}
		if !f.holds(name) {
			return false
		}
		p.signal(syscall.SIGSTOP)
		if f.holds(name) {
			return true
		}
		p.signal(syscall.SIGCONT)
		return false
	})
}

// holds says whether a worker has a task.
func (f *fleet) holds(name string) bool {
	f.t.Helper()
	for _, kind := range []string{"tasks", "activities"} {
		for _, q := range twoQueues {
			key := fmt.Sprintf("%s:workflow:%s:%s", f.prefix, kind, q)
			list, err := f.srv.Client.Do(f.t.Context(), f.srv.Client.B().Xpending().Key(key).Group("workers").Start("-").End("+").Count(1).Consumer(name).Build()).ToArray()
			if err != nil {
				f.t.Fatal(err)
			}
			if len(list) > 0 {
				return true
			}
		}
	}
	return false
}

// finished wants tours to end with the right result, each stop entered and recorded once.
func (f *fleet) finished(ids []string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	want := 0
	past := "WorkflowExecutionStarted/0"
	for n := range stops {
		want += n * n
		past += fmt.Sprintf(" ActivityScheduled/%d ActivityCompleted/%[1]d", n+1)
	}
	past += " WorkflowExecutionFinished/0"
	for _, id := range ids {
		if got, err := goworkflows.Result[int](ctx, f.Backend, &gowf.Instance{InstanceID: id}); got != want || err != nil {
			f.t.Errorf("%s: %d, %v, want %d", id, got, err, want)
			continue
		}
		info, err := f.Client().Info(ctx, workflow.Instance{ID: id})
		if err != nil {
			f.t.Fatal(err)
		}
		if got := pastOf(f.t, f.Backend, info); got != past {
			f.t.Errorf("%s: %s", id, got)
		}
	}
	effects := f.books.counts(f.t, "effects")
	for _, id := range ids {
		for n := range stops {
			if key := fmt.Sprintf("%s %d", id, n); effects[key] != 1 {
				f.t.Errorf("%s: entered %d times", key, effects[key])
			}
		}
	}
	sound(f.t, f.Backend)
}

// dump is what is stored of instances.
func (f *fleet) dump() map[string]string {
	f.t.Helper()
	keys, err := f.srv.AllKeys(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	all := make(map[string]string)
	for _, key := range keys {
		family, _, _ := strings.Cut(strings.TrimPrefix(key, f.prefix+":workflow:"), ":")
		switch family {
		case "doc", "his", "last", "run", "in":
			if all[key], err = f.srv.Client.Do(f.t.Context(), f.srv.Client.B().Dump().Key(key).Build()).ToString(); err != nil {
				f.t.Fatal(key, err)
			}
		}
	}
	return all
}

// One of two processes dies in the midst of the work, and the other sleeps past its lease: a third one finishes all, and what the sleeper says when it wakes changes nothing.
func TestOneProcessDiesAndOneSleeps(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.Redis(t))
	dies, sleeps := f.worker("dies"), f.worker("sleeps")
	f.start("tour", tours)
	f.midst(1)
	f.catch(dies, "dies")
	dies.kill()
	third := f.worker("third")
	f.midst(2)
	f.catch(sleeps, "sleeps")
	f.finished(f.ids)
	before := f.dump()
	sleeps.signal(syscall.SIGCONT)
	third.stop()
	late := f.start("late", 10) // by whom if not by the one that woke up
	f.finished(late)
	after := f.dump()
	for key, was := range before {
		if after[key] != was {
			t.Errorf("%s has changed", key)
		}
	}
	sleeps.stop()
}

// Redis is killed and comes back with what it wrote, or with nothing: the processes live on, and finish what there is.
func TestProcessesOutliveRedis(t *testing.T) {
	t.Parallel()
	t.Run("restart", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, testenv.StartRedis(t, embedded.RedisOptions{Persist: true, Config: []string{"appendfsync always"}}))
		one, two := f.worker("one"), f.worker("two")
		ids := f.start("tour", tours)
		f.midst(2)
		f.srv.Kill(t)
		if err := f.srv.Server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.finished(ids)
		one.stop()
		two.stop()
	})
	t.Run("flush", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, testenv.Redis(t))
		one, two := f.worker("one"), f.worker("two")
		f.start("before", tours)
		f.midst(2)
		if err := f.srv.Client.Do(t.Context(), f.srv.Client.B().Flushall().Build()).Error(); err != nil {
			t.Fatal(err)
		}
		f.finished(f.start("after", tours))
		one.stop()
		two.stop()
	})
}
