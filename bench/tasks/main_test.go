package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taktworks/takt/internal/testenv"
)

func TestParse(t *testing.T) {
	c, err := parse(strings.Fields("--n 5000 --only takt,asynq --measures process,memory --rounds 1"), io.Discard)
	if err != nil || c.N != 5000 || c.Rounds != 1 || len(c.Measures) != 2 || c.Measures[1].Name != "memory" {
		t.Errorf("%+v, %v", c, err)
	}
	for line, want := range map[string]string{
		"--n 5": "--n is 5: must be 100 to", "--rounds 0": "--rounds is 0", "--only sidekiq": `--only names "sidekiq": it takes takt, bare, asynq, river`,
		"--measures speed": `--measures names "speed": it takes submit_1, `, "--json --markdown": "alternatives", "--aof --redis redis://x": "--aof is for", "more": `"more" is not understood`,
		"--fast": "not defined",
	} {
		if _, err := parse(strings.Fields(line), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

func TestMissingPostgresNamesItsPackage(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := postgresPrograms(nil); err == nil || !strings.Contains(err.Error(), "apt-get install "+postgresPackage) {
		t.Errorf("%v, want the package %s", err, postgresPackage)
	}
}

// All peers, all measures, once and small, against real servers that are not ours to empty.
func TestAllPeers(t *testing.T) {
	srv := testenv.Redis(t)
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	pg, err := startCluster(ctx, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(pg.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory of PostgreSQL is left: %v", err)
		}
	})
	c, err := parse([]string{"--n", "200", "--rounds", "1", "--idle", "2", "--rate", "200", "--json", "--redis", srv.URL, "--postgres", pg.url}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	c.IdleMax, c.Seconds, c.Again = 20*time.Millisecond, 0.3, 0
	var out bytes.Buffer
	if err := run(t.Context(), c, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	checkObject(t, out.Bytes())
	checkNothingLeft(t, srv, pg.url)
}

// checkObject looks whether every figure of the report was found for every peer that has it.
func checkObject(t *testing.T, text []byte) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, e := range roster {
		for _, row := range rows {
			measure := strings.TrimSuffix(row.key, "_per_s")
			switch {
			case measure == "submit_batch" && !e.Batches,
				e.Throughput && strings.HasPrefix(row.key, "latency"),
				e.Name != e.Library && strings.HasPrefix(row.key, "memory"),
				e.Library == "river" && (strings.HasSuffix(row.key, "_commands") || strings.HasSuffix(row.key, "_server_cpu_us")): // of a server that is not ours
				continue
			}
			if _, ok := got[e.Name+"_"+row.key].(float64); !ok {
				t.Errorf("%s_%s is missing", e.Name, row.key)
			}
		}
	}
	for _, f := range floors {
		if _, ok := got[f.Key].(float64); !ok {
			t.Errorf("%s is missing", f.Key)
		}
	}
}

func checkNothingLeft(t *testing.T, srv *testenv.RedisServer, url string) {
	t.Helper()
	keys, err := srv.AllKeys(t.Context())
	if err != nil || len(keys) > 0 {
		t.Errorf("keys %q are left, %v", keys, err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var schemas int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'takt_bench_%'").Scan(&schemas); err != nil || schemas != 0 {
		t.Errorf("%d schemas are left, %v", schemas, err)
	}
}
