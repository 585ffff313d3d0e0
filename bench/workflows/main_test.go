package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
)

// A small run measures everything of both.
func TestRun(t *testing.T) {
	p, err := parse(strings.Fields("--n 50 --in-flight 10 --idle 3 --rounds 1 --json"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), p, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var r map[string]any
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	for _, name := range []string{"takt_per_s", "peer_per_s", "ratio", "takt_best_per_s", "peer_best_per_s", "takt_round_trips", "takt_p50_ms", "peer_p50_ms", "takt_timer_late_p50_ms", "takt_bytes_per_workflow", "peer_bytes_per_workflow"} {
		if v, ok := r[name].(float64); !ok || v <= 0 {
			t.Errorf("%s is %v", name, r[name])
		}
	}
}

// A workflow of A activities, run by one process that starts it, too, takes at most so many round trips: reads that bring nothing are not counted.
func TestRoundTrips(t *testing.T) {
	server, err := embedded.StartRedis(t.Context(), embedded.RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	for _, c := range []struct{ activities, most int }{{1, 14}, {10, 40}} {
		n, err := trips(t.Context(), plan{Activities: c.activities}, server.URL(), "trips"+string(rune('a'+c.activities)))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d activities: %d round trips", c.activities, n)
		if n > c.most || n < c.activities+3 {
			t.Errorf("%d activities take %d round trips, want %d to %d", c.activities, n, c.activities+3, c.most)
		}
	}
}

func TestGoalsAreFound(t *testing.T) {
	good := report{Activities: 10, Ratio: 3, TaktBytes: 5, PeerBytes: 10, TaktLate: 20, Trips: 40}
	if m := good.misses(); len(m) != 0 {
		t.Errorf("missed %q", m)
	}
	bad := report{Activities: 1, Ratio: 2.9, TaktBytes: 6, PeerBytes: 10, TaktLate: 21, Trips: 15}
	if m := bad.misses(); len(m) != 4 {
		t.Errorf("missed %q", m)
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	for _, args := range []string{"--n 1", "--activities -1", "--in-flight 0", "--rounds 0", "--idle 0", "more"} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%s is taken", args)
		}
	}
}
