package jobstore_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/jobstore"
)

// A process that is enlisted and has no heartbeat is dead, until its session is over.
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
	dead := func(s *jobstore.Store, want map[string]string) {
		t.Helper()
		got, err := s.Dead(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("dead:\n%s", diff)
		}
	}
	dead(a, map[string]string{})
	for s, roles := range map[*jobstore.Store]string{a: "receiver,engine", b: "engine"} {
		if err := s.Enlist(t.Context(), roles); err != nil {
			t.Fatal(err)
		}
	}
	dead(a, map[string]string{"b": "engine"})
	dead(b, map[string]string{"a": "receiver,engine"})

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
	dead(a, map[string]string{"b": "engine"})
	if err := a.Delist(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	dead(a, map[string]string{})
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
	if err := s.Enlist(t.Context(), "receiver"); err != nil {
		t.Fatal(err)
	}
	is("a", true)
	is("b", false)
	is("", false)
	if err := s.Delist(t.Context(), "a"); err != nil {
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
