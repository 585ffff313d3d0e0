package jobstore_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/jobstore"
)

// The sessions of a process that is enlisted and has no heartbeat are those of a dead one, until each is over.
func TestDeadInstances(t *testing.T) {
	srv := testenv.Redis(t)
	prefix := srv.Prefix(t)
	open := func(instance string) *jobstore.Store {
		s, err := jobstore.Open(t.Context(), jobstore.Options{URL: srv.URL, Prefix: prefix, Instance: instance})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	a, b := open("a"), open("b")
	dead := func(s *jobstore.Store, want map[jobstore.Session]string) {
		t.Helper()
		got, err := s.Dead(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("dead:\n%s", diff)
		}
	}
	none, first, answers := map[jobstore.Session]string{}, jobstore.Session{Instance: "b"}, jobstore.Session{Instance: "b", Name: "answers"}
	dead(a, none)
	for s, roles := range map[*jobstore.Store]map[string]string{a: {"": "receiver,engine"}, b: {"": "engine", "answers": "engine,answers"}} {
		if err := s.Enlist(t.Context(), roles); err != nil {
			t.Fatal(err)
		}
	}
	dead(a, map[jobstore.Session]string{first: "engine", answers: "engine,answers"})
	dead(b, map[jobstore.Session]string{{Instance: "a"}: "receiver,engine"})

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.RunWorker(ctx) }()
	eventually(t, "b to give a sign of life", func() bool {
		all, err := a.Dead(t.Context())
		return err == nil && len(all) == 0
	})
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	dead(a, map[jobstore.Session]string{first: "engine", answers: "engine,answers"})
	if err := a.Delist(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	dead(a, map[jobstore.Session]string{answers: "engine,answers"})
	if err := a.Delist(t.Context(), answers); err != nil {
		t.Fatal(err)
	}
	dead(a, none)
}

// A process is known while it is enlisted or gives a sign of life; no other name is.
func TestIsProcess(t *testing.T) {
	srv := testenv.Redis(t)
	s, err := jobstore.Open(t.Context(), jobstore.Options{URL: srv.URL, Prefix: srv.Prefix(t), Instance: "a"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	is := func(name string, want bool) {
		t.Helper()
		if got, err := s.IsProcess(t.Context(), name); err != nil || got != want {
			t.Errorf("%q: %t, %v", name, got, err)
		}
	}
	is("a", false)
	if err := s.Enlist(t.Context(), map[string]string{"": "receiver"}); err != nil {
		t.Fatal(err)
	}
	is("a", true)
	is("b", false)
	is("", false)
	if err := s.Delist(t.Context(), jobstore.Session{Instance: "a"}); err != nil {
		t.Fatal(err)
	}
	is("a", false)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.RunWorker(ctx) }()
	eventually(t, "a heartbeat that is enough", func() bool {
		known, err := s.IsProcess(t.Context(), "a")
		return err == nil && known
	})
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
