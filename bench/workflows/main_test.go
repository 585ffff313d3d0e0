package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

// A small run measures everything of both.
func TestRun(t *testing.T) {
	p, err := parse(strings.Fields("--n 50 --rounds 1 --json"), io.Discard)
	testenv.Must(t, err)
	p.InFlight, p.Idle, p.Timers = 10, 3, 3
	var out bytes.Buffer
	testenv.Must(t, run(t.Context(), p, &out, io.Discard))
	var r map[string]any
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	for _, row := range rows {
		for _, key := range []string{"takt_", "peer_", "ratio_peer_"} {
			if v, ok := r[key+row.Figure].(float64); !ok || v <= 0 {
				t.Errorf("%s is %v", key+row.Figure, r[key+row.Figure])
			}
		}
	}
}
