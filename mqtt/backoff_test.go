package mqtt

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoff(t *testing.T) {
	var b backoff
	want := backoffFirst
	for i := range 20 {
		if d := b.next(); d < want/2 || d >= want {
			t.Fatalf("attempt %d: %v, want %v to %v", i, d, want/2, want)
		}
		want = min(2*want, backoffLast)
	}
	b.ended(time.Second/2, broken)
	if d := b.next(); d < backoffUp/2 || d >= backoffUp {
		t.Errorf("after half a second of connection: %v, want no reset, and %v at most", d, backoffUp)
	}
	b.ended(stableAfter, broken) // the originals never reset
	if d := b.next(); d >= backoffFirst {
		t.Errorf("after a stable connection: %v, want a reset", d)
	}
}

// While a link flaps, attempts are at most 5 s apart; once the broker has not been there for a minute, up to 30 s.
func TestBackoffWhileTheLinkFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b backoff
		for range 100 {
			b.ended(200*time.Millisecond, broken)
			if d := b.next(); d >= backoffUp {
				t.Fatalf("%v, want less than %v", d, backoffUp)
			}
		}
		time.Sleep(recentlyFor)
		if d := b.next(); d < backoffLast/2 {
			t.Errorf("a minute after the last connection: %v, want up to %v", d, backoffLast)
		}
	})
}

// Two processes with one client id must not throw each other out at full speed.
func TestBackoffTakeOver(t *testing.T) {
	for name, how := range map[string]ending{"said": taken, "silent": closed} {
		t.Run(name, func(t *testing.T) {
			var b backoff
			for range 10 {
				b.ended(5*time.Second, how)
				b.next()
			}
			b.ended(5*time.Second, how)
			if d := b.next(); d < 1600*time.Millisecond {
				t.Errorf("%v after ten take-overs", d)
			}
			b.ended(calmAfter, how)
			if d := b.next(); d >= backoffFirst {
				t.Errorf("after a calm minute: %v", d)
			}
		})
	}
	var b backoff
	b.ended(0, taken)
	if d := b.next(); d < 800*time.Millisecond {
		t.Errorf("first take-over: %v", d)
	}
	b = backoff{failures: 100}
	b.ended(20*time.Second, closed) // an outage was over, then the broker restarted
	if d := b.next(); d > 3200*time.Millisecond {
		t.Errorf("restart after an outage: %v", d)
	}
}
