package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
)

// A small run measures everything of both.
func TestRun(t *testing.T) {
	p, err := parse(strings.Fields("--n 200 --rounds 1 --json"), io.Discard)
	testenv.Must(t, err)
	p.Workers, p.Loop = 2, time.Second
	var out bytes.Buffer
	testenv.Must(t, run(t.Context(), p, &out, io.Discard))
	var got map[string]float64
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	for _, r := range rows {
		if got["takt_"+r.Figure] <= 0 {
			t.Errorf("takt_%s is %v", r.Figure, got["takt_"+r.Figure])
		}
		if r.taskflow != "" && (got["taskflow_"+r.Figure] <= 0 || got["ratio_taskflow_"+r.Figure] <= 0) {
			t.Errorf("of TaskFlow, %s is %v, and its ratio %v", r.Figure, got["taskflow_"+r.Figure], got["ratio_taskflow_"+r.Figure])
		}
	}
}
