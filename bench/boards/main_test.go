package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// A small run measures everything of both, and finds Takt's goals missed or not without changing what is printed.
func TestRun(t *testing.T) {
	p, err := parse([]string{"--n", "200", "--workers", "2", "--rounds", "1", "--loop", "1s", "--json"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), p, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got struct{ Measures []row }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	if len(got.Measures) != len(measures) {
		t.Fatalf("%d measures, want %d", len(got.Measures), len(measures))
	}
	for _, r := range got.Measures {
		if r.Takt <= 0 || r.Peer != "" && (r.TaskFlow <= 0 || r.Ratio <= 0) {
			t.Errorf("%+v", r)
		}
	}
}

func TestRatiosAreTimesBetter(t *testing.T) {
	takt, peer := figures{}, figures{}
	for _, m := range measures {
		takt[m.name] = []float64{10, 20, 30}
		if m.peer != "" {
			peer[m.peer] = []float64{5, 5, 5}
		}
	}
	for _, r := range rows(takt, peer) {
		want := 4.0
		switch {
		case r.Peer == "":
			want = 0
		case strings.HasSuffix(r.Measure, "_ms"):
			want = 0.25
		}
		if r.Ratio != want || r.Takt != 20 || r.Low != 10 || r.High != 30 {
			t.Errorf("%+v, want a ratio of %v", r, want)
		}
	}
}
