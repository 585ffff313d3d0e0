package sampling_test

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/sampling"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testenv.LibraryGoroutines()...) }

var quiet = slog.New(slog.DiscardHandler)

// plant is one prefix on a Redis.
type plant struct {
	*testing.T
	srv    *testenv.RedisServer
	url    string // that samplers use
	prefix string
	keys   keys.Keys
	store  *jobstore.Store
	tasks  *task.Client
}

func newPlant(t *testing.T) *plant {
	srv := testenv.Redis(t)
	p := &plant{T: t, srv: srv, url: srv.URL, prefix: srv.Prefix(t)}
	p.keys = keys.New(p.prefix)
	p.store = p.open(srv.URL, "plant")
	var err error
	p.tasks, err = task.Open(t.Context(), srv.URL, task.Options{Prefix: p.prefix, Log: quiet})
	testenv.Must(t, err)
	t.Cleanup(p.tasks.Close)
	return p
}

func (p *plant) open(url, instance string) *jobstore.Store {
	p.Helper()
	store, err := jobstore.Open(p.Context(), jobstore.Options{URL: url, Prefix: p.prefix, Instance: instance, Log: quiet})
	testenv.Must(p, err)
	p.Cleanup(store.Close)
	return store
}

// sampler runs one in a process of that name.
func (p *plant) sampler(instance string, every time.Duration) (s *sampling.Sampler, stop func()) {
	p.Helper()
	s = sampling.New(sampling.Options{
		Store: p.open(p.url, instance), Every: every, Log: quiet,
		Tasks: func(ctx context.Context) (*task.Client, error) {
			return task.Open(ctx, p.url, task.Options{Prefix: p.prefix, Log: quiet})
		},
		Workflows: func(ctx context.Context) (*workflow.Client, error) {
			return workflow.Open(ctx, p.url, workflow.Options{Prefix: p.prefix, Log: quiet})
		},
	})
	return s, testenv.Run(p, s.Run)
}

// change has a method bring an order into a state.
func (p *plant) change(scope isa95.Scope, id string, method isa95.Method, state isa95.State) {
	p.Helper()
	snap, err := p.store.Load(p.Context(), jobstore.Query{JobOrderID: isa95.JobOrderID(id), Scope: scope})
	testenv.Must(p, err)
	c := jobstore.Change{Transition: &jobstore.Transition{Method: method, State: state}, Source: "urn:mes", Now: p.store.Now()}
	if method == isa95.Store {
		c.Transition.Order = &isa95.JobOrder{JobOrderID: id}
	}
	testenv.Must(p, p.store.Commit(p.Context(), snap, c))
}

func (p *plant) samples() []sampling.Sample {
	p.Helper()
	all, _, err := sampling.Read(p.Context(), p.store, "0", 0)
	testenv.Must(p, err)
	return all
}

var ready, running, ended, aborted = isa95.State{Top: isa95.NotAllowedToStart, Sub: isa95.Ready}, isa95.State{Top: isa95.Running}, isa95.State{Top: isa95.Ended, Sub: isa95.Completed}, isa95.State{Top: isa95.Aborted}

// What a sample has is what is in Redis, and the gauges are the sample.
func TestSample(t *testing.T) {
	p := newPlant(t)
	for i := range 3 {
		p.change("cell-1", fmt.Sprint("JO-", i), isa95.Store, ready)
	}
	p.change("cell-2", "JO-R", isa95.Store, running)
	s, stop := p.sampler("a", 50*time.Millisecond)
	testenv.Eventually(t, "the first sample", func() bool { return len(p.samples()) > 0 })
	p.change("cell-2", "JO-R", isa95.End, ended)
	p.change("cell-1", "JO-2", isa95.Abort, aborted)
	echo := task.Define[int, int]("test:Echo", task.Positional())
	_, err := echo.Submit(t.Context(), p.tasks, 1)
	testenv.Must(t, err)
	p.srv.Must(t, "XADD", p.keys.SfcOutbox(), "1-0", "job_id", "JO-0")
	p.srv.Must(t, "XADD", p.keys.IntakeDead(), "*", "f", "v")
	p.srv.Must(t, "XADD", p.prefix+":workflow:out:dead", "*", "f", "v")
	p.srv.Must(t, "ZADD", p.prefix+":workflow:timers", "1000", "1:x:a")
	p.srv.Must(t, "XADD", p.keys.SfcWork()+":dead", "*", "f", "v")
	p.srv.Must(t, "HSET", p.keys.Instances(), "a", "receiver,engine", "a/answers", "engine", "gone", "receiver")
	p.srv.Must(t, "SET", p.keys.Worker("a"), "token")
	var last sampling.Sample
	testenv.Eventually(t, "a sample of all that", func() bool {
		all := p.samples()
		last = all[len(all)-1]
		return last.Dead.Orders == 2 && last.Instances == 1
	})
	var over, lost int64
	for _, one := range p.samples() {
		over, lost = over+one.Ended, lost+one.Aborted
	}
	if o := last.Orders; o[isa95.NotAllowedToStart] != 2 || o[isa95.Ended] != 1 || o[isa95.Aborted] != 1 || o[isa95.Running] != 0 || over != 1 || lost != 1 {
		t.Errorf("orders %v, ended %d, aborted %d", o, over, lost)
	}
	if last.By != "a" || last.Oldest != "JO-0" || last.Waiting <= 0 || last.Engines != 1 || len(last.Unread) > 0 || last.Missed || time.Since(last.Time) > time.Hour {
		t.Errorf("%+v", last)
	}
	if b := last.Backlog["commands"]; b.Entries != 1 || b.Oldest < time.Hour || last.Backlog["changes"].Oldest <= 0 || sampling.Sum(last.Tasks.Waiting) != 1 || !last.Tasks.Unserved {
		t.Errorf("backlog %+v, tasks %+v", last.Backlog, last.Tasks)
	}
	if last.Dead.Workflows != 1 || last.Workflows.Timers != 1 || last.Workflows.TimerLate < time.Hour {
		t.Errorf("workflows %+v, dead letters %+v", last.Workflows, last.Dead)
	}
	got := gather(t, s)
	for name, want := range map[string]float64{
		"takt_job_orders NotAllowedToStart": 2, "takt_job_orders Running": 0, "takt_dead_letters orders": 2, "takt_instances ": 1, "takt_backlog_entries commands": 1, "takt_tasks_waiting normal:medium": 1, "takt_tasks_unserved ": 1,
		"takt_workflow_instances active": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, want %v: %v", name, v, want, got)
		}
	}
	stop()
	if len(gather(t, s)) > 0 {
		t.Error("a process that does not sample has gauges")
	}
}

// gather are the gauges: "name label" and value.
func gather(t *testing.T, s *sampling.Sampler) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	testenv.Must(t, err)
	all := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			label := ""
			for _, l := range m.Label {
				label = l.GetValue()
			}
			all[f.GetName()+" "+label] = m.Gauge.GetValue()
		}
	}
	return all
}

// One process of all samples. When it stops another goes on, counts what ended meanwhile, and only 1440 samples are kept.
func TestOneSamples(t *testing.T) {
	p := newPlant(t)
	p.change("cell-1", "JO-1", isa95.Store, running)
	for range jobstore.KeptSamples + 500 { // the server trims in whole nodes of a hundred entries
		testenv.Must(t, p.store.AddSample(t.Context(), []byte(`{"by":"old"}`)))
	}
	a, stop := p.sampler("a", 20*time.Millisecond)
	testenv.Eventually(t, "a samples", func() bool { return a.Last() != nil })
	b, _ := p.sampler("b", 20*time.Millisecond)
	if b.Last() != nil {
		t.Error("both sample")
	}
	stop()
	p.change("cell-1", "JO-1", isa95.End, ended)
	testenv.Eventually(t, "b samples", func() bool { return b.Last() != nil })
	if a.Last() != nil {
		t.Error("both sample")
	}
	testenv.Eventually(t, "b counts what ended", func() bool {
		n := int64(0)
		for _, s := range p.samples() {
			n += s.Ended
		}
		return n == 1
	})
	if n, err := p.srv.Must(t, "XLEN", p.keys.Samples()).AsInt64(); err != nil || n > jobstore.KeptSamples+200 {
		t.Errorf("%d samples are kept", n)
	}
}

// A sample costs at most 90 commands, and once for each process that begins one for 500 orders; the next, of which nothing changed, at most 75.
func TestCommandsOfASample(t *testing.T) {
	p := newPlant(t)
	for i := range 20 {
		p.change(isa95.Scope(fmt.Sprint("cell-", i%3)), fmt.Sprint("JO-", i), isa95.Store, ready)
	}
	var mu sync.Mutex
	var commands []string
	proxy := testenv.CountingProxy(t, p.srv.URL)
	name := regexp.MustCompile(`\*\d+\r\n\$\d+\r\n([A-Za-z]+)\r\n`)
	proxy.Tap(func(fromClient bool, data []byte) {
		if !fromClient {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, m := range name.FindAllSubmatch(data, -1) {
			if one := strings.ToUpper(string(m[1])); !strings.Contains(" EVALSHA EVAL PING HELLO CLIENT INFO ", " "+one+" ") { // the lease, and connecting
				commands = append(commands, one)
			}
		}
	})
	p.url = proxy.URL
	took := func() int {
		mu.Lock()
		defer mu.Unlock()
		n := len(commands)
		t.Log(n, commands)
		commands = nil
		return n
	}
	s, _ := p.sampler("a", time.Second)
	testenv.Eventually(t, "the first sample", func() bool { return s.Last() != nil })
	if n := took(); n > 90 {
		t.Errorf("the first sample took %d commands", n)
	}
	first := s.Last()
	testenv.Eventually(t, "the second sample", func() bool { return s.Last() != first })
	if n := took(); n > 75 {
		t.Errorf("the second sample took %d commands", n)
	}
}
