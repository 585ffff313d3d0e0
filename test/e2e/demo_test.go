package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/station"
	"github.com/taktworks/takt/test/rig"
)

// figures are what the last line of `takt demo --json` must have; pointers, so that a missing one is seen.
type figures struct {
	Orders           *int     `json:"orders"`
	Ended            *int     `json:"ended"`
	Aborted          *int     `json:"aborted"`
	Results          *int     `json:"results"`
	Cleared          *int     `json:"cleared"`
	Lost             *int     `json:"lost"`
	RepeatedCommands *int     `json:"repeated_commands"`
	DuplicateResults *int     `json:"duplicate_results"`
	OutageSeconds    *float64 `json:"outage_seconds"`
	SeqBefore        *int64   `json:"seq_before"`
	SeqAfter         *int64   `json:"seq_after"`
	Store            *string  `json:"store"`
	Broker           *string  `json:"broker"`
	Seconds          *float64 `json:"seconds"`
}

// The demo with what it finds installed, with servers of ours, and with nothing installed; with the example that it brings
// and with a folder. Its figures are those that its logs give.
func TestDemo(t *testing.T) {
	t.Parallel()
	const orders = 40
	own := rig.Cell(t, orders, "20ms..60ms")
	for _, test := range []struct {
		name          string
		args          func(t *testing.T) []string
		store, broker string
	}{
		{"built-in example", func(*testing.T) []string { return []string{"--outage", "2s"} }, "redis-server", "mosquitto"},
		{"folder", func(*testing.T) []string { return []string{"--outage", "1s", "--example", own} }, "redis-server", "mosquitto"},
		{"given servers", func(t *testing.T) []string {
			redis := testenv.Redis(t)
			return []string{"--outage", "1s", "--example", own, "--redis", redis.URL, "--mqtt", testenv.Mosquitto(t).URL, "--prefix", redis.Prefix(t), "--topic-prefix", "a/b"}
		}, "external", "external"},
		{"nothing installed", func(*testing.T) []string { return []string{"--outage", "1s", "--example", own, "--in-process"} }, "miniredis", "mochi"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			logs := t.TempDir()
			begin := time.Now()
			r := rig.Run(t, append([]string{"demo", "--json", "--logs", logs}, test.args(t)...)...)
			if r.Code != 0 {
				t.Fatalf("exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
			}
			if !strings.HasSuffix(r.Stdout, "}\n") || strings.Count(r.Stdout, "\n") != 1 {
				t.Errorf("standard output is not one line:\n%s", r.Stdout)
			}
			if strings.Contains(r.Stderr, "level=") {
				t.Errorf("something went wrong on the way:\n%s", r.Stderr)
			}
			var f figures
			testenv.Must(t, json.Unmarshal([]byte(r.Stdout), &f))
			f.mustBeWhole(t)
			if *f.Lost != 0 || *f.DuplicateResults != 0 || *f.Orders != orders {
				t.Errorf("lost %d, twice %d of %d orders", *f.Lost, *f.DuplicateResults, *f.Orders)
			}
			if *f.Store != test.store || *f.Broker != test.broker {
				t.Errorf("on %s and %s, want %s and %s", *f.Store, *f.Broker, test.store, test.broker)
			}
			if took := time.Since(begin).Seconds(); *f.Seconds <= 0 || *f.Seconds > took || *f.Seconds < *f.OutageSeconds {
				t.Errorf("%v s, it took %v", *f.Seconds, took)
			}
			if *f.SeqAfter <= *f.SeqBefore {
				t.Errorf("seq %d, %d after the outage: nothing happened in it", *f.SeqBefore, *f.SeqAfter)
			}
			f.compare(t, recount(t, logs))
		})
	}
}

// mustBeWhole fails the test if a member is missing.
func (f *figures) mustBeWhole(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(f)
	testenv.Must(t, err)
	if strings.Contains(string(text), "null") {
		t.Fatalf("a member is missing: %s", text)
	}
}

// count is what the logs of a demo say.
type count struct {
	orders, ended, aborted, results, cleared, lost, repeated, twice int
	outage                                                          float64
	before, after                                                   int64
}

// recount computes the figures of a demo from its logs, without the demo's own code.
func recount(t *testing.T, logs string) (c count) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(logs, "mes.jsonl"))
	testenv.Must(t, err)
	type entry struct {
		Time                      time.Time
		Kind, Scope, Order, State string
		Seq                       int64
	}
	entries := rig.Lines[entry](t, string(text))
	accepted, results, cleared := map[string]bool{}, map[string][]string{}, map[string]bool{}
	var away, back time.Time
	first := ""
	for _, e := range entries {
		switch e.Kind {
		case "accepted":
			if accepted[e.Order] = true; first == "" {
				first = e.Scope
			}
		case "result":
			results[e.Order] = append(results[e.Order], e.State)
		case "cleared":
			cleared[e.Order] = true
		case "away":
			away = e.Time
		case "back":
			back = e.Time
		}
	}
	for _, e := range entries {
		if e.Kind == "index" && e.Scope == first {
			if e.Time.Before(away) {
				c.before = e.Seq
			} else if e.Time.After(back) && c.after == 0 {
				c.after = e.Seq
			}
		}
	}
	c.orders, c.results, c.cleared, c.outage = len(accepted), len(results), len(cleared), back.Sub(away).Seconds()
	for id := range accepted {
		if len(results[id]) == 0 {
			c.lost++
		}
	}
	for _, states := range results {
		c.twice += len(states) - 1
		if states[0] == "Aborted" {
			c.aborted++
		} else {
			c.ended++
		}
	}
	log, err := station.ReadLog(filepath.Join(logs, "station.jsonl"))
	testenv.Must(t, err)
	rig.VerifyStation(t, log, false)
	for _, e := range log {
		if e.Kind == station.Repeated {
			c.repeated++
		}
	}
	return c
}

// compare fails the test if the figures are not those of the logs.
func (f *figures) compare(t *testing.T, want count) {
	t.Helper()
	got := count{*f.Orders, *f.Ended, *f.Aborted, *f.Results, *f.Cleared, *f.Lost, *f.RepeatedCommands, *f.DuplicateResults, *f.OutageSeconds, *f.SeqBefore, *f.SeqAfter}
	if diff := got.outage - want.outage; diff > 0.01 || diff < -0.01 {
		t.Errorf("outage of %v s, the log says %v", got.outage, want.outage)
	}
	got.outage, want.outage = 0, 0
	if got != want {
		t.Errorf("the demo says\n%+v, its logs say\n%+v", got, want)
	}
}

// The table is for people: every order, and what is behind the figures.
func TestDemoTable(t *testing.T) {
	long.Test(t, "runs a whole demo")
	t.Parallel()
	r := rig.Run(t, "demo", "--example", rig.Cell(t, 4, "1ms..5ms"), "--outage", "100ms")
	if r.Code != 0 {
		t.Fatalf("exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	for _, want := range []string{"JOB ORDER", "JO-001", "JO-004", "Ended_Completed", "ordered         4", "lost            0", "store redis-server, broker mosquitto"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("no %q in\n%s", want, r.Stdout)
		}
	}
	if !strings.Contains(r.Stderr, "MES away") || !strings.Contains(r.Stderr, "orders 4/4") {
		t.Errorf("no progress:\n%s", r.Stderr)
	}
}

// The demo beside processes that serve, of which one dies, and a station of its own.
func TestDemoBesideServe(t *testing.T) {
	long.Test(t, "kills a process")
	t.Parallel()
	w := rig.New(t, rig.Options{})
	a, _ := w.Serve("a"), w.Serve("b")
	logs := t.TempDir()
	demo := rig.Start(t, w.Args("demo", "--no-serve", "--no-station", "--station-log", w.StationLogFile(), "--example", rig.Cell(t, 40, "1ms"),
		"--json", "--outage", "2s", "--logs", logs)...)
	w.UntilExecuted(40)
	a.Kill()
	w.Serve("a")
	if code := demo.Exit(); code != 0 {
		t.Fatalf("exit status %d\n%s%s", code, demo.Stdout(), demo.Stderr())
	}
	var f figures
	testenv.Must(t, json.Unmarshal([]byte(demo.Stdout()), &f))
	f.mustBeWhole(t)
	if *f.Orders != 40 || *f.Lost != 0 || *f.DuplicateResults != 0 || *f.Results != 40 {
		t.Errorf("%s", demo.Stdout())
	}
	w.VerifyStation()
	w.AtRest()
	w.Check()
}

// A demo on a store that stays, interrupted or out of time while all its orders run: it removes them, so that the next one begins as the first did.
func TestDemoWithdrawsItsOrders(t *testing.T) {
	long.Test(t, "waits for a demo that gives up")
	t.Parallel()
	s := &shell{rig.New(t, rig.Options{NoStation: true}), t}
	slow, quick := rig.Cell(t, 6, "10h"), rig.Cell(t, 6, "5ms..20ms")
	patient(t, filepath.Join(slow, "recipe.json"))

	demo := rig.Start(t, s.Args("demo", "--example", slow)...)
	demo.Await("orders 6/6")
	demo.Signal(syscall.SIGINT)
	if code := demo.Exit(); code != failed {
		t.Errorf("exit status %d\n%s", code, demo.Stderr())
	}
	for _, want := range []string{"stopped before the end; outstanding are 6 job orders\n", "  JO-001: Running, ", "\n6 job orders of this demo were aborted and cleared"} {
		if !strings.Contains(demo.Stderr(), want) {
			t.Errorf("no %q in\n%s", want, demo.Stderr())
		}
	}
	s.run(ok, "job list", "(none)")
	s.run(ok, "demo --outage 10ms --example "+quick)

	testenv.LongEnough(t, 5*time.Second, func(limit time.Duration) bool {
		s := &shell{rig.New(t, rig.Options{NoStation: true}), t}
		r := s.Takt("demo", "--timeout", limit.String(), "--example", slow)
		if !strings.Contains(r.Stderr, "\n6 job orders of this demo were aborted and cleared") {
			t.Logf("within %v: %s", limit, r.Stderr)
			return false
		}
		if want := fmt.Sprintf("gave up after %v; outstanding are 6 job orders\n", limit); r.Code != failed || !strings.Contains(r.Stderr, want) {
			t.Errorf("exit status %d, want %q\n%s", r.Code, want, r.Stderr)
		}
		s.run(ok, "job list", "(none)")
		return true
	})
}

// Where nothing answers, the demo says what it leaves and how to remove it; and it does not begin while orders of its ids are there.
func TestDemoSaysWhatItLeaves(t *testing.T) {
	long.Test(t, "kills a process")
	t.Parallel()
	s := &shell{rig.New(t, rig.Options{NoStation: true}), t}
	serve := s.Serve("a")
	slow := rig.Cell(t, 2, "10h")
	patient(t, filepath.Join(slow, "recipe.json"))
	demo := rig.Start(t, s.Args("demo", "--no-serve", "--timeout", "1m", "--example", slow)...)
	demo.Await("orders 2/2")
	serve.Kill()
	demo.Signal(syscall.SIGINT)
	removal := `for id in 'JO-001' 'JO-002'; do takt job abort "$id" --scope test-cell; takt job clear "$id" --scope test-cell; done`
	if code := demo.Exit(); code != failed || !strings.Contains(demo.Stderr(), "2 job orders of this demo are left in the store of --redis") || !strings.Contains(demo.Stderr(), "to remove them:\n  "+removal) {
		t.Errorf("exit status %d\n%s", code, demo.Stderr())
	}

	s.Serve("a")
	s.state("JO-001", "Aborted") // the command to abort it waited at the broker
	s.run(usage, "demo --example "+slow, "has 2 of the 2 job orders of this demo, such as JO-001, which is Aborted: nothing was sent", "--prefix", removal)
	s.run(ok, "job abort JO-002 --scope test-cell")
	for n := range 2 {
		s.run(ok, fmt.Sprintf("job clear JO-00%d --scope test-cell", n+1))
	}
	s.run(ok, "job list", "(none)")
}
