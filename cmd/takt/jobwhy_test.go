package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// storeOrder stores JO-1 at cell-07, in a state.
func storeOrder(t *testing.T, o jobstore.Options, state isa95.State) {
	t.Helper()
	o.Instance = "test"
	store, err := jobstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	snap, err := store.Load(t.Context(), jobstore.Query{JobOrderID: "JO-1", Scope: "cell-07"})
	if err != nil {
		t.Fatal(err)
	}
	transition := &jobstore.Transition{Method: isa95.Store, Order: &isa95.JobOrder{JobOrderID: "JO-1"}, State: state}
	if err := store.Commit(t.Context(), snap, jobstore.Change{Now: store.Now(), Transition: transition}); err != nil {
		t.Fatal(err)
	}
}

// takt job why answers in its first line, with --json as data; takt job list has the same in short.
func TestJobWhy(t *testing.T) {
	srv := testenv.Redis(t)
	prefix := srv.Prefix(t)
	storeOrder(t, jobstore.Options{URL: srv.URL, Prefix: prefix}, isa95.State{Top: isa95.NotAllowedToStart, Sub: isa95.Ready})
	on := func(command string) (int, string, string) {
		return takt(append(strings.Fields(command), "--redis", srv.URL, "--prefix", prefix)...)
	}

	const text = `JO-1 at cell-07 is NotAllowedToStart_Ready: it is stored, and Start has not come

REASON       WAITS FOR  TOPIC  NEXT
not-started  Start             takt job start JO-1 --scope cell-07
`
	if code, out, errOut := on("job why JO-1"); code != exitOK || out != text {
		t.Errorf("exit status %d\n%s%s", code, out, errOut)
	}
	var why jobstore.Why
	if code, out, errOut := on("job why JO-1 --json"); code != exitOK || json.Unmarshal([]byte(out), &why) != nil || why.Answer+"\n" != strings.SplitAfter(text, "\n")[0] || why.Reasons[0].Kind != jobstore.WhyNotStarted {
		t.Errorf("exit status %d\n%s%s", code, out, errOut)
	}
	var line jobLine
	if code, out, errOut := on("job list --json"); code != exitOK || json.Unmarshal([]byte(out), &line) != nil || line.Reason != jobstore.WhyNotStarted || line.WaitsFor != "Start" {
		t.Errorf("exit status %d\n%s%s", code, out, errOut)
	}
	if code, out, errOut := on("job list"); code != exitOK || !strings.Contains(out, "WAITS FOR\n") || !strings.Contains(out, "Start\n") {
		t.Errorf("exit status %d\n%s%s", code, out, errOut)
	}
	if code, _, errOut := on("job why JO-2"); code != exitFailed || !strings.Contains(errOut, `no job order "JO-2" is stored; see takt job list`) {
		t.Errorf("exit status %d\n%s", code, errOut)
	}
}
