package stream

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// A heartbeat that lasts for longer than its worker can have set ends after its time to live; no other is changed. Here the step of the clock is a time to live
// that no worker sets.
func TestScriptsShorten(t *testing.T) {
	srv := testenv.Redis(t)
	const hour, own = int64(3_600_000), "10000"
	for name, c := range map[string]struct {
		token string // "" = there is no heartbeat
		left  int64  // ms; 0 = it never expires
		want  int64  // ms at most; = left: unchanged
		twin  string // what a process under the same id is told
	}{
		"outlives its time to live":              {"token ttl=20000", hour, 20_000, "shortened"},
		"by a little":                            {"token ttl=20000", 21_000, 20_000, "shortened"},
		"longer than the caller's":               {"token ttl=20000", 19_000, 19_000, "taken"},
		"being taken over":                       {takeoverMark + "me ttl=20000", hour, 20_000, "ok"},
		"of an older build":                      {"token", hour, 100_000, "shortened"},
		"of an older build with a longer one":    {"token", 90_000, 90_000, "taken"},
		"of an older build, being taken over":    {takeoverMark + "me", hour, 100_000, "ok"},
		"never expires":                          {"token ttl=20000", 0, 0, "taken"},
		"gone":                                   {"", 0, 0, "ok"},
		"a token that only looks like one of us": {"token ttl=x", hour, 100_000, "shortened"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, srv)
			key := e.keys.Worker("other")
			set := func() {
				switch {
				case c.token == "":
					e.must("DEL", key)
				case c.left == 0:
					e.must("SET", key, c.token)
				default:
					e.must("SET", key, c.token, "PX", milliseconds(time.Duration(c.left)*time.Millisecond))
				}
			}
			unchanged := func(what string) {
				t.Helper()
				left, token := e.number("PTTL", key), e.must("GET", key)
				if text, _ := token.ToString(); text != c.token {
					t.Errorf("%s: the token is %q", what, text)
				}
				if c.token != "" && (left > c.want || c.want > 0 && left < c.want/2) {
					t.Errorf("%s: it expires in %d ms, want %d", what, left, c.want)
				}
			}
			set()
			want := "ok"
			if c.want != c.left {
				want = "shortened"
			}
			for _, want := range []string{want, "ok"} { // a second look finds nothing to do
				got, err := shortenScript.Run(t.Context(), srv.Client, []string{key}, own).AsStrSlice()
				if err != nil || strings.Join(got, " ") != want {
					t.Errorf("%q, %v, want %s", got, err, want)
				}
				unchanged("looked at")
			}
			set()
			got, err := acquireScript.Run(t.Context(), srv.Client, []string{key}, "new", own, "0", takeoverMark, "", never).AsStrSlice()
			if err != nil || got[0] != c.twin {
				t.Errorf("a twin: %q, %v, want %s", got, err, c.twin)
			}
			if c.twin != "ok" {
				unchanged("a twin")
			}
		})
	}
}

// The clock of Redis steps back by an hour after two workers died: others take their entries over all the same, a worker that
// lives keeps its heartbeat and goes on with what it has in hand.
func TestTheDeadStayDeadAfterAStepBack(t *testing.T) {
	long.Test(t, "waits for leases to end")
	e := newEnv(t, testenv.Redis(t))
	e.must("XGROUP", "CREATE", e.stream, "g", "0", "MKSTREAM")
	e.add("1", "2")
	const hour = "3600000"
	for _, dead := range []string{"dead", "deceased"} {
		e.must("XREADGROUP", "GROUP", "g", dead, "COUNT", "1", "STREAMS", e.stream, ">")
		e.must("SET", e.keys.Worker(dead), script.WithTTL("token", victimTTL), "PX", hour)
	}
	began, done := make(chan string, 1), make(chan struct{})
	living := e.join("living", Group{Ready: -1, Handle: func(ctx context.Context, en *Entry) (Result, error) {
		began <- en.Fields["v"]
		select {
		case <-done:
		case <-ctx.Done():
			t.Errorf("what the living worker had in hand was taken from it: %v", context.Cause(ctx))
		}
		return Ack, nil
	}})
	e.add("3")
	first := wait(t, "an entry in hand", began)
	token := living.worker.Token()
	e.must("PEXPIRE", e.keys.Worker("living"), hour)

	got := make(chan string, 3)
	e.join("w", Group{Handle: func(_ context.Context, en *Entry) (Result, error) { got <- en.Fields["v"]; return Ack, nil }})
	seen := map[string]bool{first: true}
	for len(seen) < 3 {
		seen[wait(t, "entries of the dead", got)] = true
	}
	e.eventually("the heartbeat of the living worker is as long as it says", func() bool {
		return e.number("PTTL", e.keys.Worker("living")) <= survivorTTL.Milliseconds()
	})
	if now := living.worker.Token(); now != token {
		t.Errorf("the living worker has another token: %q, before %q", now, token)
	}
	close(done)
	e.empty()
}

// A step back of the clock concerns many keys and is one line of the log.
func TestAStepBackIsOneWarning(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	var log lines
	w := NewWorker(e.srv.Client, e.keys, "w", time.Second, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	left := map[string]int64{"none": -2, "right": 900, "w": 3_600_000}
	if err := w.Shorten(t.Context(), left); err != nil || log.count("\n") != 0 {
		t.Errorf("nothing to do: %v, %d lines", err, log.count("\n"))
	}
	for _, id := range []string{"a", "b", "c"} {
		e.must("SET", e.keys.Worker(id), script.WithTTL("token", time.Second), "PX", "3600000")
		left[id] = 3_600_000
	}
	if err := w.Shorten(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "c"} {
		if ms := e.number("PTTL", e.keys.Worker(id)); ms > 1000 {
			t.Errorf("%s lasts for %d ms", id, ms)
		}
	}
	if n := log.count(script.SteppedBack); n != 1 || log.count("\n") != 1 {
		t.Errorf("%d lines of %d, want one", n, log.count("\n"))
	}
	w.warned.Store(&time.Time{}) // long ago
	w.SteppedBack("another")
	if n := log.count(script.SteppedBack); n != 2 {
		t.Errorf("the next step is not logged: %d lines", n)
	}
	e.must("DEL", e.keys.Worker("a"))
	e.must("LPUSH", e.keys.Worker("a"), "x")
	if err := w.Shorten(t.Context(), left); err == nil || !strings.Contains(err.Error(), "heartbeat of a: WRONGTYPE") {
		t.Errorf("a key of another type: %v", err)
	}
}
