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
	if err != nil || c.N != 5000 || c.Rounds != 1 || len(c.Measures) != 2 || c.Measures[1].Name != "memory" {
		t.Errorf("%+v, %v", c, err)
	}
	for line, want := range map[string]string{
		"--n 5": "--n is 5: must be 100 to", "--rounds 0": "--rounds is 0", "--only sidekiq": `--only names "sidekiq": it takes takt, bare, asynq`,
		"--measures speed": `--measures names "speed": it takes submit_1, `, "--json --markdown": "alternatives", "--aof --redis redis://x": "--aof is for", "more": `"more" is not understood`,
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
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), c, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	checkObject(t, out.Bytes())
	if keys, err := srv.AllKeys(t.Context()); err != nil || len(keys) > 0 {
		t.Errorf("keys %q are left, %v", keys, err)
	}
}

// checkObject looks whether each peer has processed, and is compared.
func checkObject(t *testing.T, text []byte) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, e := range roster {
		if _, ok := got[e.Name+"_process_per_s"].(float64); !ok {
			t.Errorf("%s_process_per_s is missing", e.Name)
		}
	}
}
