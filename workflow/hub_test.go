package workflow

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/taktworks/takt/internal/testenv"
)

// A spare whose time is just over does not hide the one behind it from who comes now.
func TestTakeBehindExpiring(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	h := newHub[int](func(string) {})
	back := make(chan int, 3)
	for n := range 3 {
		h.offer("q", n, func() { back <- n })
	}
	h.mu.Lock()
	h.ready["q"][0].timer.Stop() // it has fired, and waits for the lock
	h.mu.Unlock()
	if got, ok := h.take(ctx, nil, []string{"q"}); !ok || got != 1 {
		t.Errorf("took %d, %v", got, ok)
	}
	if got := <-back; got != 2 { // nobody came for it
		t.Errorf("%d went back", got)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if left := h.ready["q"]; len(left) != 1 || left[0].task != 0 {
		t.Errorf("%d are left", len(left))
	}
}

// While the time of a spare is just over it counts as read for the poller that comes now and does not get it. Once it is gone the readers are woken, and have room for that poller.
func TestPollBesideExpiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h *hub[int]
		room := 0 // as the reader saw it last
		h = newHub[int](func(queue string) { room = h.free(queue) })
		h.offer("q", 0, func() {})
		s := h.ready["q"][0]
		s.timer.Stop() // it has fired, and waits for the lock
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		taken := make(chan int)
		go func() { n, _ := h.take(ctx, nil, []string{"q"}); taken <- n }()
		synctest.Wait()
		if room != 0 {
			t.Fatalf("room for %d while the spare is there: the poller came without need", room)
		}
		h.expire("q", s)
		if room != 1 {
			t.Errorf("room for %d once the spare is gone, want 1: nothing is read for the poller", room)
		}
		h.offer("q", 1, func() {})
		if n := <-taken; n != 1 {
			t.Errorf("took %d", n)
		}
	})
}
