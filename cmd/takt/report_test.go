package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// What a demo reports is in the logs of the MES and the station, and nowhere else.
func TestReport(t *testing.T) {
	const accepted = `{"time":"2026-11-21T08:00:00Z","kind":"accepted","scope":"m42","order":"JO-1"}` + "\n"
	const result = `{"time":"2026-11-21T08:00:02Z","kind":"result","scope":"m42","order":"JO-1","state":"Ended_Completed"}` + "\n"
	const cleared = `{"time":"2026-11-21T08:00:03Z","kind":"cleared","scope":"m42","order":"JO-1"}` + "\n"
	const executed = `{"kind":"executed","command":"c-1","order":"JO-1","action":"press"}` + "\n"
	for name, test := range map[string]struct {
		mes, station string
		want         report
		good         bool
	}{
		"nothing": {"", "", report{}, false},
		"given back": {accepted + result + cleared, executed, report{
			Orders: 1, Ended: 1, Results: 1, Cleared: 1,
			orders: []orderReport{{Scope: "m42", Order: "JO-1", State: "Ended_Completed", Commands: 1, Took: 2e9, Cleared: true}},
		}, true},
		"result before the answer to the order": {result + accepted, "", report{
			Orders: 1, Ended: 1, Results: 1,
			orders: []orderReport{{Scope: "m42", Order: "JO-1", State: "Ended_Completed", Took: 2e9}},
		}, true},
		"lost": {accepted + cleared, executed, report{
			Orders: 1, Lost: 1, Cleared: 1, orders: []orderReport{{Scope: "m42", Order: "JO-1", Commands: 1, Cleared: true}},
		}, false},
		"result twice": {accepted + result + result, "", report{
			Orders: 1, Ended: 1, Results: 1, DuplicateResults: 1,
			orders: []orderReport{{Scope: "m42", Order: "JO-1", State: "Ended_Completed", Took: 2e9}},
		}, false},
		"carried out twice": {accepted + result, executed + executed, report{
			Orders: 1, Ended: 1, Results: 1, ExecutedTwice: 1,
			orders: []orderReport{{Scope: "m42", Order: "JO-1", State: "Ended_Completed", Took: 2e9, Commands: 2, Rework: 1}},
		}, false},
		"came again": {accepted + result, executed + `{"kind":"repeated","command":"c-1","order":"JO-1","action":"press"}` + "\n", report{
			Orders: 1, Ended: 1, Results: 1, RepeatedCommands: 1,
			orders: []orderReport{{Scope: "m42", Order: "JO-1", State: "Ended_Completed", Took: 2e9, Commands: 1, Repeats: 1}},
		}, true},
		"refused": {accepted + result + `{"kind":"refused","scope":"m42","order":"JO-2","why":"no such press"}` + "\n", "", report{
			Orders: 1, Ended: 1, Results: 1, Refused: 1,
			orders: []orderReport{{Scope: "m42", Order: "JO-1", State: "Ended_Completed", Took: 2e9}, {Scope: "m42", Order: "JO-2", Refused: true, Why: "no such press"}},
		}, false},
		"aborted": {accepted + strings.Replace(result, "Ended_Completed", "Aborted", 1), "", report{
			Orders: 1, Aborted: 1, Results: 1, orders: []orderReport{{Scope: "m42", Order: "JO-1", State: "Aborted", Took: 2e9}},
		}, true},
		"away": {
			accepted + `{"kind":"index","scope":"m42","seq":7}
{"kind":"index","scope":"other","seq":9}
{"time":"2026-11-21T08:00:01Z","kind":"away"}
{"time":"2026-11-21T08:00:05.5Z","kind":"back"}
{"kind":"gap","scope":"m42","seq":12}
{"kind":"index","scope":"m42","seq":12}
{"kind":"index","scope":"m42","seq":13}
` + result, "", report{
				Orders: 1, Ended: 1, Results: 1, OutageSeconds: 4.5, Gaps: 1, SeqBefore: 7, SeqAfter: 12,
				orders: []orderReport{{Scope: "m42", Order: "JO-1", State: "Ended_Completed", Took: 2e9}},
			}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mes, station := write(t, dir, "mes.jsonl", test.mes), write(t, dir, "station.jsonl", test.station)
			got, err := makeReport(mes, station, "m42")
			if err != nil {
				t.Fatal(err)
			}
			test.want.Violations = []string{}
			opts := []cmp.Option{cmp.AllowUnexported(report{}, orderReport{}), cmpopts.IgnoreFields(orderReport{}, "given")}
			if diff := cmp.Diff(&test.want, got, opts...); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got.good() != test.good {
				t.Errorf("good is %v", got.good())
			}
			got.Violations = []string{"something"}
			if got.good() {
				t.Error("good with a violation")
			}
		})
	}
}

func TestReportOfNoLog(t *testing.T) {
	dir := t.TempDir()
	if _, err := makeReport(write(t, dir, "mes.jsonl", "{\n"), "nothing", "m42"); err == nil || !strings.Contains(err.Error(), "mes.jsonl:1") {
		t.Error(err)
	}
}

// write makes a file and returns its path.
func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
