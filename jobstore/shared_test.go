package jobstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// Of replicas that start together one runs the hook. A hook that fails frees its place; a process that dies in it frees it by the time to live.
func TestPostStart(t *testing.T) {
	s := newShop(t)
	var ran, skipped int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			did, err := s.PostStart(t.Context(), "line-1", time.Hour, func(context.Context) error { return nil })
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case did:
				ran++
			default:
				skipped++
			}
		})
	}
	all.Wait()
	if ran != 1 || skipped != 7 {
		t.Errorf("%d ran, %d did not", ran, skipped)
	}
	broken := errors.New("broken")
	for range 2 {
		if did, err := s.PostStart(t.Context(), "line-2", time.Hour, func(context.Context) error { return broken }); !did || !errors.Is(err, broken) {
			t.Errorf("a hook that fails: %v, %v", did, err)
		}
	}
	dies := func(did bool, want bool) {
		t.Helper()
		if did != want {
			t.Errorf("ran: %v, want %v", did, want)
		}
	}
	func() {
		defer func() { _ = recover() }() // as far as the store knows, the process is dead
		_, _ = s.PostStart(t.Context(), "line-3", time.Hour, func(context.Context) error { panic("died") })
	}()
	nothing := func(context.Context) error { return nil }
	did, err := s.PostStart(t.Context(), "line-3", time.Hour, nothing)
	dies(did, false)
	if err != nil {
		t.Error(err)
	}
	s.do("DEL", s.keys.PostStartLock("line-3")) // its time to live is over
	did, err = s.PostStart(t.Context(), "line-3", time.Hour, nothing)
	dies(did, true)
	if err != nil {
		t.Error(err)
	}
	if _, err := s.PostStart(t.Context(), "", 0, nothing); err == nil {
		t.Error("without a configuration")
	}
}
