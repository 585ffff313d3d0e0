package jobstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

const pullType = "com.example.part.v1"

// States that have no name in the other test files.
var (
	released  = isa95.State{Top: isa95.AllowedToStart, Sub: isa95.Ready}
	running   = isa95.State{Top: isa95.Running}
	completed = isa95.State{Top: isa95.Ended, Sub: isa95.Completed}
)

// shop is a store with the server behind it.
type shop struct {
	*jobstore.Store
	t    testing.TB
	srv  *testenv.RedisServer
	keys keys.Keys
}

// openShop opens a store on srv; o.URL "" is srv, o.Prefix "" a new one.
func openShop(t testing.TB, srv *testenv.RedisServer, o jobstore.Options) *shop {
	t.Helper()
	if o.URL == "" {
		o.URL = srv.URL
	}
	if o.Prefix == "" {
		o.Prefix = srv.Prefix(t)
	}
	o.Instance = fmt.Sprintf("shop-%d", shops.Add(1))
	s, err := jobstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &shop{Store: s, t: t, srv: srv, keys: keys.New(o.Prefix)}
}

var shops atomic.Int64

func newShop(t testing.TB) *shop {
	t.Helper()
	return openShop(t, testenv.Redis(t), jobstore.Options{})
}

// do sends a command as an operator would.
func (s *shop) do(words ...string) rueidis.RedisResult {
	s.t.Helper()
	return s.srv.Must(s.t, words...)
}

func (s *shop) number(words ...string) int64 {
	s.t.Helper()
	return s.srv.Number(s.t, words...)
}

// stored is every key below the prefix with its type, sorted.
func (s *shop) stored() []string {
	s.t.Helper()
	names, err := s.do("KEYS", s.keys.Prefix()+":*").AsStrSlice()
	if err != nil {
		s.t.Fatal(err)
	}
	for i, name := range names {
		typ, err := s.do("TYPE", name).ToString()
		if err != nil {
			s.t.Fatal(err)
		}
		names[i] = strings.TrimPrefix(name, s.keys.Prefix()+":") + " " + typ
	}
	slices.Sort(names)
	return names
}

// dumps is everything stored, byte for byte.
func (s *shop) dumps() map[string]string {
	s.t.Helper()
	all := make(map[string]string)
	for _, key := range s.stored() {
		key, _, _ = strings.Cut(key, " ")
		dump, err := s.do("DUMP", s.keys.Prefix()+":"+key).ToString()
		if err != nil {
			s.t.Fatal(err)
		}
		all[key] = dump
	}
	return all
}

func (s *shop) load(q jobstore.Query) *jobstore.Snapshot {
	s.t.Helper()
	snap, err := s.Load(s.t.Context(), q)
	if err != nil {
		s.t.Fatal(err)
	}
	return snap
}

func (s *shop) commit(snap *jobstore.Snapshot, c jobstore.Change) {
	s.t.Helper()
	if c.Now.IsZero() {
		c.Now = s.Now()
	}
	if err := s.Commit(s.t.Context(), snap, c); err != nil {
		s.t.Fatal(err)
	}
}

// move brings a job order into a state; a new one gets the priority.
func (s *shop) move(scope isa95.Scope, id isa95.JobOrderID, priority int, to isa95.State) {
	s.t.Helper()
	snap := s.load(jobstore.Query{JobOrderID: id, Scope: scope})
	order := &isa95.JobOrder{JobOrderID: string(id), Priority: &priority}
	c := jobstore.Change{Transition: &jobstore.Transition{Method: "Test", Order: order, State: to}}
	if to.Clearable() {
		c.Response = jobstore.NewResponse(&jobstore.StoredOrder{JobOrder: order}, snap.Execution, to, s.Now())
	}
	s.commit(snap, c)
}

// run starts a recipe: one command at the equipment, one event awaited.
func (s *shop) run(scope isa95.Scope, id isa95.JobOrderID) *recipe.Execution {
	s.t.Helper()
	s.move(scope, id, 0, released)
	now := s.Now()
	snap := s.load(jobstore.Query{JobOrderID: id, Scope: scope, Mailboxes: []string{pullType}})
	x := &recipe.Execution{
		JobID: string(id), Scope: string(scope), WorkMasterID: "WM-1", CurrentStep: "cut", ActiveSteps: []string{"cut"},
		CorrelationID: recipe.CorrelationID(string(id), fmt.Sprint(shops.Add(1))), Recipe: strings.Repeat("a", 64), StartedAt: now.UnixMilli(),
		Actions: []recipe.ActionEntry{
			{Name: "cut", State: recipe.ActionDispatched, TypeID: "com.example.cut.v1", Attempt: 1, Iteration: 1, FirstAttempt: 1, Deadline: now.Add(time.Minute).UnixMilli()},
			{Name: "part", State: recipe.ActionWaiting, TypeID: pullType, Iteration: 1},
		},
	}
	x.Actions[0].CommandID = recipe.CommandID(x.CorrelationID, "cut", 1, 1)
	s.commit(snap, jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.Run, State: running},
		Execution:  x, Due: x.Due(), Recipe: []byte(`{"Steps":[]}`),
		Mailboxes: map[string]*recipe.Mailbox{pullType: {Waiting: []recipe.Waiting{{JobID: string(id), Action: "part", CorrelationID: x.CorrelationID, Since: x.StartedAt}}}},
		Commands: []recipe.Command{{
			ID: x.Actions[0].CommandID, JobID: string(id), Scope: string(scope), Action: "cut", TypeID: "com.example.cut.v1",
			CorrelationID: x.CorrelationID, Attempt: 1, Iteration: 1, Deadline: now.Add(time.Minute),
		}},
	})
	return x
}

// finish ends a recipe as the engine does.
func (s *shop) finish(scope isa95.Scope, id isa95.JobOrderID) {
	s.t.Helper()
	snap := s.load(jobstore.Query{JobOrderID: id, Scope: scope, Mailboxes: []string{pullType}})
	x := snap.Execution.Stop(s.Now())
	s.commit(snap, jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.End, State: completed}, Execution: x,
		Response:  jobstore.NewResponse(snap.Job, x, completed, s.Now()),
		Mailboxes: map[string]*recipe.Mailbox{pullType: {}},
	})
}

// within fails the test if n is not just below what it was set to.
func within(t testing.TB, what string, ms int64, want time.Duration) {
	t.Helper()
	if got := time.Duration(ms) * time.Millisecond; got <= want-testenv.Patience || got > want+time.Second { // the clocks of Takt and Redis differ
		t.Errorf("%s expires in %v, want %v", what, got, want)
	}
}

func isConflict(err error) bool { return errors.Is(err, jobstore.ErrConflict) }

var eventually = testenv.Eventually
