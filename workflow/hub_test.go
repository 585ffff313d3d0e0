package workflow

import (
	"context"
	"testing"
	"time"
)

// A spare whose time is just over does not hide the one behind it from who comes now.
func TestTakeBehindExpiring(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
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
