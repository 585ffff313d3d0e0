package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
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
