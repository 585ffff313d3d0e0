package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/test/rig"
)

// exit statuses of takt.
const (
	ok       = 0
	failed   = 1
	usage    = 2
	refused  = 3
	noAnswer = 4
)

// shell is the command line in one world.
type shell struct {
	*rig.World
	t *testing.T
}

// run runs a command, fails the test unless it ends with code and says all of want on either output, and returns what it
// said on standard output.
func (s *shell) run(code int, args string, want ...string) string {
	s.t.Helper()
	r := s.Takt(strings.Fields(args)...)
	if r.Code != code {
		s.t.Errorf("takt %s: exit status %d, want %d\n%s%s", args, r.Code, code, r.Stdout, r.Stderr)
	}
	for _, text := range want {
		if !strings.Contains(r.Stdout+r.Stderr, text) {
			s.t.Errorf("takt %s: does not say %q:\n%s%s", args, text, r.Stdout, r.Stderr)
		}
	}
	return r.Stdout
}

// state waits until an order is in a state.
func (s *shell) state(id, want string) {
	s.t.Helper()
	s.Until(id+" is "+want, func() bool {
		var shown struct{ State string }
		_ = json.Unmarshal([]byte(s.Takt("job", "show", id, "--json").Stdout), &shown)
		return shown.State == want
	})
}

// order writes the file of an order; with a work master it runs.
func (s *shell) order(id string, runs bool) string {
	file := filepath.Join(s.Dir, id+".json")
	master := ""
	if runs {
		master = `,"WorkMasterID":[{"ID":"WM-TEST"}],"JobOrderParameters":[{"ID":"mark","Value":"laser"}]`
	}
	rig.Write(s.t, file, `{"JobOrderID":"`+id+`","Priority":5`+master+`}`)
	return file
}

// past looks at what happened to JO-1, whose recipe never ran, and JO-2, which was paused and stopped.
func (s *shell) past(cell string) {
	s.t.Helper()
	s.run(ok, "job history JO-2", "StoreAndStart: the order is AllowedToStart_Ready, by urn:takt:command-line", "Run: the order is Running", ": command", "Pause: the order is Interrupted_Suspended", "Stop: the order is Ended_Completed")
	s.run(ok, "job history JO-1", "Store: the order is NotAllowedToStart_Ready", "Cancel: the order is EndState")
	s.run(failed, "job history NONE", `job order "NONE" has no history`, "takt job list")

	s.run(ok, "job chart JO-2", "job order JO-2 is Ended_Completed", "(End)")
	s.run(ok, "job chart JO-2 --at +0s", "job order JO-2 is Running", " left")
	s.run(ok, "job chart JO-2 --watch --json", `"state":"Ended_Completed"`)
	s.run(failed, "job chart JO-2 --at 2020-01-01T00:00:00Z", "the history of job order JO-2 begins at 2")
	s.run(failed, "job chart JO-1", "no recipe was started; see takt job why JO-1")
	s.run(usage, "job chart JO-2 --at yesterday", `--at`, "neither a time of RFC 3339", "nor +DURATION")
	picture := filepath.Join(s.t.TempDir(), "chart.svg")
	s.run(ok, "job chart JO-2 -o "+picture)
	if text, err := os.ReadFile(picture); err != nil || !strings.HasPrefix(string(text), "<svg ") {
		s.t.Errorf("%.100s, %v", text, err)
	}

	s.run(usage, "job chart JO-2 --at 2099-01-01T00:00:00Z", "is in the future", "leave --at out")
	s.run(usage, "job chart JO-2 --at +1s --watch", "--at and --watch exclude each other")
	text, err := os.ReadFile(filepath.Join(cell, "recipe.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	other := filepath.Join(s.t.TempDir(), "other.json")
	rig.Write(s.t, other, strings.Replace(string(text), "com.acme.test.place_cover.v1", "com.acme.test.lift_cover.v1", 1))
	s.run(failed, "job replay JO-2 --recipe "+other, "it goes the same way, with other commands", "another command of place_cover: TypeId com.acme.test.lift_cover.v1, recorded com.acme.test.place_cover.v1")
	s.run(failed, "job replay JO-1 --recipe "+other, "no recipe was started; see takt job why JO-1")
	s.run(ok, "job replay JO-2 --recipe "+filepath.Join(cell, "recipe.json"), "it goes the same way", "recorded end: Completed at step", "replayed end: Completed at step")
}

// otherRecipe delivers another recipe under the same id to another station: that order and the next ones of this station run theirs.
func (s *shell) otherRecipe(cell, shown string) {
	s.t.Helper()
	for _, file := range []struct{ name, old, text string }{
		{"recipe.json", `"Steps"`, `"Version": "7", "Steps"`}, {"station.yaml", "scope: test-cell", "scope: other-cell"},
	} {
		text, err := os.ReadFile(filepath.Join(cell, file.name))
		testenv.Must(s.t, err)
		rig.Write(s.t, filepath.Join(cell, file.name), strings.Replace(string(text), file.old, file.text, 1))
	}
	s.run(ok, "station apply "+filepath.Join(cell, "station.yaml"), "other-cell: WM-TEST new, recipe ", "; 1 other scope lists this work master and keeps its own")
	s.run(ok, "job store "+s.order("JO-3", true)+" --scope test-cell")
	s.run(ok, "job store "+s.order("JO-4", true)+" --scope other-cell")
	_, line, _ := strings.Cut(shown, "recipe of ")
	line, _, _ = strings.Cut(line, ", at ")
	s.run(ok, "job show JO-2", "recipe of "+line+", at ")
	s.run(ok, "job show JO-3", "would run the recipe of "+line)
	s.run(ok, "recipe show WM-TEST --scope test-cell", line, "JO-2", "JO-3")
	if other := s.run(ok, "job show JO-4", "would run the recipe of WM-TEST, version 7, SHA-256 "); strings.Contains(other, line) {
		s.t.Errorf("the other station would run %s too", line)
	}
	s.run(ok, "job cancel JO-3 --scope test-cell")
	s.run(ok, "job cancel JO-4 --scope other-cell")
}

// patient gives every action of a recipe an hour.
func patient(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	testenv.Must(t, err)
	rig.Write(t, file, regexp.MustCompile(`"TimeoutSeconds": *[0-9]+`).ReplaceAllString(string(text), `"TimeoutSeconds": 3600`))
}

// Each method as a command, in every state that matters, over MQTT as an MES sends it.
func TestJobCommands(t *testing.T) {
	t.Parallel()
	s := &shell{rig.New(t, rig.Options{Takes: "1h"}), t}
	testenv.LongEnough(t, 300*time.Millisecond, func(limit time.Duration) bool { // to reach the broker, which keeps silent
		r := s.Takt("job", "start", "JO-1", "--scope", "test-cell", "--timeout", limit.String())
		if r.Code != noAnswer {
			t.Errorf("exit status %d, want %d", r.Code, noAnswer)
		}
		t.Logf("within %v: %s", limit, r.Stderr)
		return strings.Contains(r.Stderr, "Start JO-1") && strings.Contains(r.Stderr, "is `takt serve` running")
	})
	s.Serve("a")
	cell := rig.Cell(t, 1, "1h")
	patient(t, filepath.Join(cell, "recipe.json"))
	s.run(failed, "station diff "+filepath.Join(cell, "station.yaml"), "not as in ", "6 new, 0 changed, 0 extra, 0 unchanged; takt station apply ")
	s.run(ok, "station apply "+filepath.Join(cell, "station.yaml"), "test-cell: WM-TEST new, recipe ", "6 configuration events applied to [test-cell]")
	s.run(ok, "station diff "+filepath.Join(cell, "station.yaml"), "WM-TEST", "unchanged")
	s.run(ok, "station apply --json "+filepath.Join(cell, "station.yaml"), `{"applied":6,"scopes":["test-cell"],"work_masters":[{"scope":"test-cell","id":"WM-TEST","change":"unchanged","before":"`)

	const at = " --scope test-cell"
	first := s.order("JO-1", false)
	s.run(ok, "job store "+first+at, "JO-1 stored")
	s.state("JO-1", "NotAllowedToStart_Ready")
	s.run(refused, "job store "+first+at, "JO-1", "exists and is NotAllowedToStart_Ready")
	s.run(ok, "job update "+first+at, "JO-1 updated")
	s.run(ok, "job start JO-1"+at, "JO-1 started")
	s.state("JO-1", "AllowedToStart_Ready")
	s.run(refused, "job start JO-1"+at, "possible: ")
	s.run(ok, "job revoke-start JO-1"+at)
	s.state("JO-1", "NotAllowedToStart_Ready")
	s.run(refused, "job clear JO-1"+at, "Clear is not possible")
	s.run(ok, "job abort JO-1 --comment wrong"+at)
	s.state("JO-1", "Aborted")
	s.run(ok, "job show JO-1", "response JO-1-response, never started, over at 2")
	s.run(ok, "job clear JO-1"+at)
	s.run(ok, "job store "+first+at) // the id may be used again
	s.run(ok, "job cancel JO-1"+at)

	second := s.order("JO-2", true)
	s.run(ok, "job store-and-start "+second+at, "JO-2 stored and started")
	s.state("JO-2", "Running")
	shown := s.run(ok, "job show JO-2", "recipe of WM-TEST, SHA-256 ")
	s.otherRecipe(cell, shown)
	s.run(refused, "job update "+second+at, "Update is not possible")
	s.run(ok, "job pause JO-2"+at)
	s.state("JO-2", "Interrupted_Suspended")
	s.run(ok, "job resume JO-2"+at)
	s.state("JO-2", "Running")
	s.run(ok, "job stop JO-2"+at)
	s.state("JO-2", "Ended_Completed")
	s.past(cell)

	// Machines read the status, also of a refusal.
	out := s.run(refused, "job start NONE --json"+at)
	if want := `{"method":"Start","job_order_id":"NONE","return_status":2,"meaning":"unknown job order","error_message":"`; !strings.HasPrefix(out, want) {
		t.Errorf("%s, want %s...", out, want)
	}
	// The same id again is the same command.
	out = s.run(ok, "job clear JO-2 --id my-clear --json"+at)
	if again := s.run(ok, "job clear JO-2 --id my-clear --json"+at); again != out || !strings.Contains(out, `"return_status":1`) {
		t.Errorf("%s\n%s", out, again)
	}
	s.run(refused, "job clear JO-2 --id other"+at, "Clear JO-2 refused: job order \"JO-2\" is EndState, where Clear is not possible; it was canceled or cleared (return status 8)")
	s.run(ok, "job show JO-2", "JO-2  EndState  at ", "cleared or canceled", "the id can be used again")
	if list := s.run(ok, "job list --state Ended"); strings.Contains(list, "JO-2") {
		t.Errorf("a cleared order is listed:\n%s", list)
	}
	if list := s.run(ok, "job list --state NotAllowedToStart --limit 1 --json"); strings.Count(list, "\n") > 1 {
		t.Errorf("more than one:\n%s", list)
	}
	s.run(usage, "job store "+first+" --scope elsewhere/there", "--scope", "elsewhere/there")
	s.run(usage, "job store /nowhere/order.json"+at, "no such file")
	s.run(usage, "job start JO-1", "--scope")
	s.Check()
}

// What looks at orders: list, show, watch, mes follow.
func TestLookingAtOrders(t *testing.T) {
	t.Parallel()
	s := &shell{rig.New(t, rig.Options{Takes: "1ms..5ms"}), t}
	s.Serve("a")
	m := s.QuietMES()
	s.run(ok, "job list", "SCOPE", "JOB ORDER", "STATE")
	s.run(failed, "job show JO-1", `no job order "JO-1" is stored`)
	s.run(usage, "job show a/b", "a/b")

	watch := rig.Start(t, s.Args("job", "watch", "--json", "--count", "6")...)
	watched := func(n int) func(out, _ string) bool {
		return func(out, _ string) bool { return strings.Count(out, "\n") >= n }
	}
	// The watch sees what is done after it began: a draft tells when it has.
	for n := 0; !watched(2)(watch.Stdout(), ""); n++ {
		s.run(ok, "job store "+s.order("DRAFT", false)+" --scope test-cell")
		s.run(ok, "job cancel DRAFT --scope test-cell")
	}
	m.Order(rig.Orders("JO", 2))
	if code := watch.Exit(); code != 0 {
		t.Errorf("watch: exit status %d", code)
	}
	for _, line := range strings.Split(strings.TrimSpace(watch.Stdout()), "\n") {
		var c map[string]string
		if err := json.Unmarshal([]byte(line), &c); err != nil || c["id"] == "" || c["change_type"] == "" || c["job_order_id"] == "" || c["scope"] != "test-cell" || c["ts"] == "" {
			t.Errorf("%s: %v", line, err)
		}
	}
	s.state("JO-001", "Ended_Completed")
	s.state("JO-002", "Ended_Completed")

	s.run(ok, "job show JO-001", "JO-001  Ended_Completed  at test-cell, priority 0", "parameter mark", "place_cover", "completed",
		"response JO-001-response, 2", `place_cover.placed_for = "JO-001"`)
	var shown struct {
		Scope, State string
		JobOrder     struct{ JobOrderID string } `json:"job_order"`
		Execution    struct{ Completed bool }
		Response     struct{ JobOrderID string }
	}
	if err := json.Unmarshal([]byte(s.run(ok, "job show JO-001 --json")), &shown); err != nil ||
		shown.Scope != "test-cell" || shown.State != "Ended_Completed" || shown.JobOrder.JobOrderID != "JO-001" || !shown.Execution.Completed || shown.Response.JobOrderID != "JO-001" {
		t.Errorf("%+v, %v", shown, err)
	}
	list := strings.Split(s.run(ok, "job list --json --scope test-cell"), "\n")
	if len(list) != 3 || !strings.HasPrefix(list[0], `{"scope":"test-cell","id":"JO-002","state":"Ended_Completed","priority":1,"work_master":"WM-TEST"`) {
		t.Errorf("%q", list) // the higher priority first
	}

	// A look does not clear; a follower without memory of its own does, once, and goes on from there.
	out := s.run(ok, "mes follow --keep --json --count 2 --memory "+filepath.Join(s.Dir, "keep.json"))
	results := rig.Lines[struct {
		Scope    string
		Response struct{ JobOrderID string }
	}](t, out)
	if len(results) != 2 || results[0].Scope != "test-cell" {
		t.Errorf("%s", out)
	}
	s.state("JO-001", "Ended_Completed")
	memory := filepath.Join(s.Dir, "follow.json")
	s.run(usage, "mes follow --count=-1 --memory "+memory, "--count is -1: must be 0 (never) or more")
	out = s.run(ok, "mes follow --scope test-cell --count 1 --memory "+memory, "Ended_Completed  test-cell    JO-00", `placed_for = "JO-00`)
	if strings.Count(out, "Ended_Completed") != 1 {
		t.Errorf("more than one result:\n%s", out)
	}
	s.run(ok, "mes follow --scope test-cell --count 1 --memory "+memory, "Ended_Completed  test-cell    JO-00")
	s.run(ok, "job list", "(none)") // each was cleared before its run ended
	follow := rig.Start(t, s.Args("mes", "follow", "--memory", memory)...)
	follow.Await("mes: following results")
	s.run(failed, "mes follow --memory "+memory, "takt: --memory: mes: memory "+memory+": another process uses this memory: end that one, or give this one a file of its own")
	follow.Stop()
	if follow.Stdout() != "" {
		t.Errorf("given twice: %s", follow.Stdout())
	}
	s.AtRest()
	s.Check()
}

// While orders run a check reports nothing of what is just being done, and finds what is broken all the same.
func TestCheckWhileOrdersRun(t *testing.T) {
	long.Test(t, "runs whole checks under load")
	t.Parallel()
	s := &shell{rig.New(t, rig.Options{Takes: "1ms..5ms"}), t}
	s.Serve("a")
	m := s.MES()
	n := 0
	busy := func() rig.Result { // a check beside orders that come, run, end and are cleared until it has ended
		check := rig.Start(t, s.Args("check")...)
		for !check.Gone() {
			n++
			m.OrderSteadily(rig.Orders(fmt.Sprintf("JO-%d", n), 8), 8)
		}
		return rig.Result{Code: check.Exit(), Stdout: check.Stdout(), Stderr: check.Stderr()}
	}
	for range 2 {
		if r := busy(); r.Code != ok {
			t.Errorf("exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
		}
	}
	s.run(ok, "job store "+s.order("DRAFT", false)+" --scope test-cell")
	c := s.Redis.Client
	testenv.Must(t, c.Do(t.Context(), c.B().Zrem().Key(s.Keys.JobOrderList("test-cell")).Member("DRAFT").Build()).Error())
	if r := busy(); r.Code != failed || !strings.Contains(r.Stdout, s.Keys.JobOrder("DRAFT")+": is NotAllowedToStart_Ready and in no list; ") {
		t.Errorf("exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	} else {
		t.Logf("after %d orders: %s", n*8, r.Stdout)
	}
}

// What looks at the system: check, doctor.
func TestLookingAtTheSystem(t *testing.T) {
	long.Test(t, "runs many commands")
	t.Parallel()
	s := &shell{rig.New(t, rig.Options{Redis: embedded.RedisOptions{Persist: true}}), t}
	s.Serve("a")
	s.QuietMES()
	s.run(ok, "check", "nothing found: store, streams and retained topics agree")
	c := s.Redis.Client
	broken := s.Keys.JobOrder("BROKEN")
	testenv.Must(t, c.Do(t.Context(), c.B().Set().Key(broken).Value("{").Build()).Error())
	s.run(failed, "check", broken, "cannot be read", "broken invariants: 1")
	var v struct{ Key, Problem, Next string }
	if err := json.Unmarshal([]byte(s.run(failed, "check --json")), &v); err != nil || v.Key != broken || v.Problem == "" || v.Next == "" {
		t.Errorf("%+v, %v", v, err)
	}
	testenv.Must(t, c.Do(t.Context(), c.B().Del().Key(broken).Build()).Error())

	s.run(ok, "doctor", "persistence", "eviction", "retained messages", "shared subscriptions", "MQTT 5")
	type diagnosis struct{ Subject, Grade, Found string }
	for _, d := range rig.Lines[diagnosis](t, s.run(ok, "doctor --json")) {
		if d.Subject == "" || d.Grade == "" || d.Found == "" || d.Grade == "bad" {
			t.Errorf("%+v", d)
		}
	}
	testenv.Must(t, c.Do(t.Context(), c.B().ConfigSet().ParameterValue().ParameterValue("maxmemory-policy", "allkeys-lru").Build()).Error())
	s.run(failed, "doctor", "allkeys-lru", "noeviction")

	const nobody = "127.0.0.1:1" // a port where nobody listens
	for _, args := range []string{"job list", "job show JO-1", "check", "doctor"} {
		r := rig.Run(t, append(strings.Fields(args), "--redis", "redis://"+nobody, "--mqtt", "mqtt://"+nobody)...)
		if r.Code != noAnswer {
			t.Errorf("takt %s without Redis: exit status %d, want %d\n%s", args, r.Code, noAnswer, r.Stderr)
		}
		r = rig.Run(t, strings.Fields(args)...)
		if r.Code != usage || !strings.Contains(r.Stderr, "--redis URL") {
			t.Errorf("takt %s without --redis: exit status %d, want %d\n%s", args, r.Code, usage, r.Stderr)
		}
	}
}
