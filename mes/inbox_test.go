package mes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestInbox: only the newest index stays, but no gap between those that came is lost, and a repeat is none.
func TestInbox(t *testing.T) {
	b := newInbox()
	for _, seq := range []int64{3, 4, 4, 7, 8, 2} {
		b.push(seq, "", []byte{byte(seq)})
	}
	a, ok := b.next(context.Background(), 0)
	want := arrival{payload: []byte{2}, first: 3, seq: 2, number: 5, broken: []Gap{{Before: 4, After: 7}, {Before: 8, After: 2}}}
	if diff := cmp.Diff(want, a, cmp.AllowUnexported(arrival{})); diff != "" || !ok {
		t.Error(ok, diff)
	}
	b.push(2, "", []byte{22})
	if a, ok = b.next(context.Background(), 0); !ok || a.first != 2 || a.number != 5 || len(a.broken) != 0 || a.payload[0] != 22 {
		t.Errorf("%+v", a)
	}
}

// TestInboxPatience: next gives up after its patience, not for a wake-up whose index went with the one before.
func TestInboxPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newInbox()
		b.push(1, "", []byte{1})
		if _, ok := b.take(); !ok {
			t.Fatal("nothing")
		}
		start := time.Now()
		a, ok := b.next(t.Context(), time.Minute)
		if !ok || a.payload != nil || time.Since(start) != time.Minute {
			t.Error(a, ok, time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, ok := b.next(ctx, time.Minute); ok {
			t.Error("ctx is over")
		}
	})
}
