package jobstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// Of replicas that start together one runs the hook, and the others wait for its end.
func TestPostStartRunsOnce(t *testing.T) {
	s := newShop(t)
	var mu sync.Mutex
	var replicas sync.WaitGroup
	runs, ended, told := 0, false, 0
	for range 5 {
		replica := openShop(t, s.srv, jobstore.Options{Prefix: s.keys.Prefix()})
		replicas.Go(func() {
			ran, err := replica.PostStart(t.Context(), "machinery-jobs", time.Minute, func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				runs, ended = runs+1, true
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			if ran {
				told++
			}
			if err != nil || !ended {
				t.Errorf("returned before the hook had ended, or with %v", err)
			}
		})
	}
	replicas.Wait()
	if runs != 1 || told != 1 {
		t.Errorf("%d runs, told %d", runs, told)
	}
	within(t, "the lock", s.number("PTTL", s.keys.PostStartLock("machinery-jobs")), time.Minute)
}

// A replica that waits runs the hook when the one that had it dies, and the next one does when it fails.
func TestPostStartIsTakenAgain(t *testing.T) {
	s := newShop(t)
	key := s.keys.PostStartLock("jobs")
	s.do("SET", key, "a replica that dies", "PX", "60000")
	ran, failed := make(chan bool), errors.New("the topic is refused")
	go func() {
		did, err := s.PostStart(t.Context(), "jobs", 0, func(context.Context) error { return failed })
		ran <- did && errors.Is(err, failed)
	}()
	s.do("PEXPIRE", key, "1")
	if !<-ran {
		t.Error("the hook did not run, or its error is lost")
	}
	if did, err := s.PostStart(t.Context(), "jobs", 0, func(context.Context) error { return nil }); !did || err != nil {
		t.Errorf("after a hook that failed: %v, %v", did, err)
	}
	if did, err := s.PostStart(t.Context(), "jobs", 0, nil); did || err != nil {
		t.Errorf("after one that did not: %v, %v", did, err)
	}
}

// A hook whose lock went to another replica is not noted as done.
func TestPostStartLost(t *testing.T) {
	s := newShop(t)
	key := s.keys.PostStartLock("jobs")
	did, err := s.PostStart(t.Context(), "jobs", 0, func(context.Context) error {
		s.do("SET", key, "another replica")
		return nil
	})
	if holder, _ := s.do("GET", key).ToString(); !did || !errors.Is(err, jobstore.ErrLeaseLost) || holder != "another replica" {
		t.Errorf("%v, %v, the lock is of %s", did, err, holder)
	}
}

// Bad names and times are refused, and nothing is stored.
func TestLibraryRefuses(t *testing.T) {
	s := newShop(t)
	hook := func(context.Context) error { t.Error("the hook ran"); return nil }
	for _, name := range []string{"", "a\nb", "\xff", strings.Repeat("x", 129)} {
		_, transaction := s.FirstTransaction(t.Context(), "m42", name, 0)
		_, count := s.Count(t.Context(), name)
		_, counter := s.Counter(t.Context(), name)
		_, post := s.PostStart(t.Context(), name, 0, hook)
		for _, err := range []error{transaction, count, counter, post} {
			if _, ok := errors.AsType[*isa95.NameError](err); !ok {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	_, transaction := s.FirstTransaction(t.Context(), "m42", "tx", time.Microsecond)
	_, post := s.PostStart(t.Context(), "jobs", time.Millisecond, hook)
	_, kind := s.Resources(t.Context(), "m42", "tool")
	_, limit := s.Resources(t.Context(), "m42", isa95.ConfigJobAcceptance)
	for _, err := range []error{transaction, post, kind, limit} {
		if err == nil || !strings.Contains(err.Error(), "must be") {
			t.Errorf("err = %v", err)
		}
	}
	if stored := s.stored(); len(stored) > 0 {
		t.Errorf("stored %v", stored)
	}
}
