package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

func TestParse(t *testing.T) {
	c, err := parse(strings.Fields("--n 5000 --only takt,asynq --measures process,memory --rounds 1"), io.Discard)
	if err != nil || c.N != 5000 || c.Rounds != 1 || len(c.entries) != 3 || len(c.measures) != 2 || c.measures[1].Name != "memory" {
		t.Errorf("%+v, %v", c, err)
	}
	for line, want := range map[string]string{
		"--n 5": "--n is 5: must be 100 to", "--rounds 0": "--rounds is 0", "--only sidekiq": `--only names "sidekiq": it takes takt, bare, asynq`,
		"--measures speed": `--measures names "speed": it takes submit_1, `, "more": `"more" is not understood`,
		"--fast": "not defined",
	} {
		if _, err := parse(strings.Fields(line), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// All peers, once and small, against real servers that are not ours to empty.
func TestAllPeers(t *testing.T) {
	srv := testenv.Redis(t)
	c, err := parse([]string{"--n", "200", "--rounds", "1", "--measures", "process", "--json", "--redis", srv.URL}, t.Output())
	testenv.Must(t, err)
	var out bytes.Buffer
	testenv.Must(t, run(t.Context(), c, &out, t.Output()))
	var got map[string]any
	testenv.Must(t, json.Unmarshal(out.Bytes(), &got))
	for _, e := range roster {
		if v, ok := got[e.Name+"_process_per_s"].(float64); !ok || v <= 0 {
			t.Errorf("%s_process_per_s is %v", e.Name, got[e.Name+"_process_per_s"])
		}
	}
	if keys, err := srv.AllKeys(t.Context()); err != nil || len(keys) > 0 {
		t.Errorf("keys %q are left, %v", keys, err)
	}
}

// Takt runs right before each other library, so that the two that are compared meet the same machine.
func TestOrderOfARound(t *testing.T) {
	for _, c := range []struct {
		only string
		m    measure
		want string
	}{
		{"", measure{Paired: true}, "takt bare takt asynq asynq_tuned"},
		{"", measure{}, "takt bare asynq asynq_tuned"},
		{"", measure{Paired: true, Of: func(e entry) bool { return e.Batches }}, "takt bare"},
		{"takt,asynq", measure{Paired: true}, "takt asynq asynq_tuned"},
		{"asynq", measure{Paired: true}, "asynq asynq_tuned"},
		{"takt", measure{Paired: true}, "takt"},
	} {
		p, err := parse([]string{"--only", c.only}, t.Output())
		testenv.Must(t, err)
		var got []string
		for _, e := range order(p.entries, c.m) {
			got = append(got, e.Name)
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("--only %q: %s, want %s", c.only, got, c.want)
		}
	}
}
