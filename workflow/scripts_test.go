package workflow

import (
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/testenv"
)

// What the scripts are called for: instance i runs as execution X in queue Q, its task is entry 5-1, and worker me has it. Activity r is entry 7-1 of the same queue.
var (
	instance = []string{"HSET run:i x X q Q e 5-1 a:r 7-1~Q", "SET doc:i:X doc", "RPUSH his:i:X first", "XADD in:i 1-1 e ev", "SADD queues tasks:Q", "SET last:i X"}
	worker   = []string{"SET w token"}
	taken    = []string{"XADD tasks:Q 5-1 i i", "XGROUP CREATE tasks:Q workers 0", "XREADGROUP GROUP workers me streams tasks:Q >"}
	activity = []string{"XADD activities:Q 7-1 i i x X r r d input", "XGROUP CREATE activities:Q workers 0", "XREADGROUP GROUP workers me streams activities:Q >"}
)

func given(lists ...[]string) []string { return slices.Concat(lists...) }

// actCall is the call of actScript for one thing that bears repetition.
func actCall(words ...string) []string { return append([]string{"", "0"}, words...) }

// completeCall is the call of completeScript for the one event of the instance, without anything that follows.
func completeCall(entry, execution, cursor, came string) []string {
	return []string{"token", "me", entry, "i", execution, "Q", cursor, "active", "new", "", came, "0", "0", "", "", "", "0", "0", "0", "0", "0", "0"}
}

func releaseCall(entry, execution string) []string {
	return []string{"token", entry, "i", execution, "Q", "", "0", "0"}
}

func settleCall(entry, execution string) []string {
	return []string{"token", "me", entry, "i", execution, "Q", "r", "result", "0"}
}

func terminateCall(execution, hash string) []string {
	return []string{"i", execution, hash, "new", "terminated", "0", "", "", "", "", "", "", ""}
}

const hashOfDoc = "f7f029ecb98abe979074a3ab45b74dbd9af02d42" // SHA-1 of the document

// What a script was asked about may have gone on when it comes to Redis: another worker, another execution, another task, or none. It says so, and changes those keys only.
func TestScriptsComeTooLate(t *testing.T) {
	srv := testenv.Redis(t)
	next := "HSET run:i x Y" // another execution of the instance
	for name, c := range map[string]struct {
		script  *script.Script
		given   []string
		keys    string
		args    []string
		want    string
		changes string
	}{
		"event: its execution is active":        {actScript, instance, "run:i", actCall("event", "i", "X", "ev", "0"), "ok", "in:i"},
		"event: whichever is active, none is":   {actScript, nil, "run:i", actCall("event", "i", "", "ev", "0"), "gone", ""},
		"event: its execution has ended":        {actScript, given(instance, []string{next}), "run:i", actCall("event", "i", "X", "ev", "0"), "gone", ""},
		"event: its execution is not there yet": {actScript, given(instance), "run:i", actCall("event", "i", "Z", "ev", "0"), "later", ""},
		"event: it was given before":            {actScript, given(instance, []string{"ZADD seen 99999999999999 once"}), "run:i", []string{"once", "1000", "event", "i", "X", "ev", "0"}, "dup", ""},
		"start: another is active":              {actScript, given(instance), "run:i", actCall("start", "i", "Y", "doc", "Q", "5", "ev", "n", "", "", "", "", "", "", "", ""), "exists", ""},
		"start: it is there and has ended":      {actScript, []string{"SET doc:i:X doc"}, "run:i", actCall("start", "i", "X", "new", "Q", "5", "ev", "n", "", "", "", "", "", "", "", ""), "same", ""},
		"either: it is there and has ended":     {actScript, []string{"SET doc:i:X doc"}, "run:i", actCall("either", "ev", "i", "X", "new", "Q", "5", "ev", "n", "", "", "", "", "", "", "", ""), "gone", ""},
		"enter: its execution has ended": {actScript, []string{"HSET run:i x Y q Q g G", "HSET gates G 1", "ZADD gate:G 0 :X:i", "ZADD gate:G 1 :Y:i"}, "run:i",
			actCall("enter", "i", "X", "G"), "ok", "gate:G run:i tasks:Q"},

		"await: there is no such execution":  {awaitScript, nil, "run:i doc:i:X his:i:X", []string{"X", "me"}, "none", ""},
		"await: another is active":           {awaitScript, given(instance, []string{next}), "run:i doc:i:X his:i:X", []string{"X", "me"}, "ended doc first", ""},
		"detail: there is no such execution": {detailScript, []string{"HSET run:i x X"}, "run:i last:i", []string{"i", "X", "10"}, "none", ""},

		"begin: another token":             {beginScript, given(instance, taken, []string{"SET w other"}), "w tasks:Q run:i", []string{"token", "Q", "5-1", "i", "me", "0"}, "lost", ""},
		"begin: the task is another entry": {beginScript, given(instance, worker, taken, []string{"HSET run:i e 6-1"}), "w tasks:Q run:i", []string{"token", "Q", "5-1", "i", "me", "0"}, "none ", "tasks:Q"},

		"complete: another token":     {completeScript, given(instance, taken, []string{"SET w other"}), "w run:i doc:i:X his:i:X in:i", completeCall("5-1", "X", "1-1", "1"), "lost", ""},
		"complete: another execution": {completeScript, given(instance, worker, taken, []string{next}), "w run:i doc:i:X his:i:X in:i", completeCall("5-1", "X", "1-1", "1"), "lost", ""},
		"complete: another entry":     {completeScript, given(instance, worker, taken, []string{"HSET run:i e 6-1"}), "w run:i doc:i:X his:i:X in:i", completeCall("5-1", "X", "1-1", "1"), "lost", ""},
		"complete: events are lost":   {completeScript, given(instance, worker, taken), "w run:i doc:i:X his:i:X in:i", completeCall("5-1", "X", "2-1", "2"), "lost", ""},
		"complete: other events":      {completeScript, given(instance, worker, taken), "w run:i doc:i:X his:i:X in:i", completeCall("5-1", "X", "0-9", "1"), "lost", ""},

		"extend: it is the worker's": {extendScript, given(instance, worker), "w run:i", []string{"token", "5-1", "e", "X"}, "ok", ""},
		"extend: another token":      {extendScript, given(instance, []string{"SET w other"}), "w run:i", []string{"token", "5-1", "e", "X"}, "lost", ""},
		"extend: another execution":  {extendScript, given(instance, worker, []string{next}), "w run:i", []string{"token", "5-1", "e", "X"}, "lost", ""},
		"extend: another entry":      {extendScript, given(instance, worker, []string{"HSET run:i e 6-1"}), "w run:i", []string{"token", "5-1", "e", "X"}, "lost", ""},

		"fire: there are no timers":          {fireScript, instance, "timers", []string{"10", "1000"}, "0 -1", ""},
		"fire: of an execution before":       {fireScript, given(instance, []string{next, "HSET run:i t:ref ev", "ZADD timers 1 ref:X:i"}), "timers", []string{"10", "1000"}, "1 -1", "clock timers"},
		"fire: its run is of another type":   {fireScript, []string{"SET run:i x", "ZADD timers 1 ref:X:i"}, "timers", []string{"10", "1000"}, "1 1000 run:i", "clock timers"},
		"fire: its inbox is of another type": {fireScript, given(instance, []string{"DEL in:i", "SET in:i x", "ZADD timers 1 ref:X:i"}), "timers", []string{"10", "1000"}, "1 1000 in:i", "clock timers"},

		"gone: another execution": {goneScript, given(instance, []string{next}), "run:i", []string{"i", "X", "r", "Q", "7-1", "ev"}, "none", ""},
		"gone: another entry":     {goneScript, instance, "run:i", []string{"i", "X", "r", "Q", "8-1", "ev"}, "none", ""},

		"mend: the instance has ended":            {mendScript, []string{"SET doc:i:X doc"}, "active", []string{"100", "0", "i", "X"}, "1 0", ""},
		"mend: another execution is active":       {mendScript, given(instance, []string{next, "HDEL run:i a:r"}), "active", []string{"100", "0", "i", "X"}, "1 0", ""},
		"mend: its run is of another type":        {mendScript, []string{"SET run:i x"}, "active", []string{"100", "0", "i", "X"}, "1 0 [i X run:i", ""},
		"mend: its task is in the queue":          {mendScript, []string{"HSET run:i x X q Q e 5-1", "XADD tasks:Q 5-1 i i"}, "active", []string{"100", "0", "i", "X"}, "1 0", ""},
		"mend: its task is gone":                  {mendScript, []string{"HSET run:i x X q Q e 5-1", "XADD tasks:Q 6-1 i j", "XADD in:i 1-1 e ev"}, "active", []string{"100", "0", "i", "X"}, "1 0 [i X  Q", "run:i tasks:Q"},
		"pause: no such instance is active":       {pauseScript, nil, "run:i", []string{"instance", "pause", "i", "10"}, "none", ""},
		"pause: the task is another entry by now": {pauseScript, given(instance, []string{"XADD tasks:Q 4-1 i i"}), "paused", []string{"queue", "pause", "Q", "10"}, "ok", "paused tasks:Q"},

		"release: another token":         {releaseScript, given(instance, taken, []string{"SET w other"}), "w run:i", releaseCall("5-1", "X"), "lost", ""},
		"release: another execution":     {releaseScript, given(instance, worker, taken, []string{next}), "w run:i", releaseCall("5-1", "X"), "lost", "tasks:Q"},
		"release: another entry":         {releaseScript, given(instance, worker, taken, []string{"HSET run:i e 6-1"}), "w run:i", releaseCall("5-1", "X"), "lost", "tasks:Q"},
		"release: no execution is there": {releaseScript, given(worker, taken), "w run:i", releaseCall("5-1", ""), "lost", "tasks:Q"},

		"remove: it is active":            {removeScript, given(instance, []string{"ZADD ended 1 i:X"}), "run:i", []string{"0", "i", "X"}, "active", "ended"},
		"remove: it has not expired":      {removeScript, []string{"SET doc:i:X doc", "ZADD ended 1 i:X"}, "run:i", []string{"1", "i", "X"}, "kept", ""},
		"remove: another is the last":     {removeScript, []string{"SET doc:i:X doc", "SET last:i Y"}, "run:i", []string{"0", "i", "X"}, "ok", "doc:i:X"},
		"settle: another token":           {settleScript, given(instance, activity, []string{"SET w other"}), "w run:i", settleCall("7-1", "X"), "lost", ""},
		"settle: another entry":           {settleScript, given(instance, worker, activity, []string{"HSET run:i a:r 8-1~Q"}), "w run:i", settleCall("7-1", "X"), "gone", "activities:Q"},
		"settle: another execution":       {settleScript, given(instance, worker, activity, []string{next}), "w run:i", settleCall("7-1", "X"), "gone", "activities:Q"},
		"terminate: another is active":    {terminateScript, given(instance, []string{next}), "run:i doc:i:X his:i:X", terminateCall("X", hashOfDoc), "none", ""},
		"terminate: it has gone on":       {terminateScript, given(instance, []string{"SET doc:i:X newer"}), "run:i doc:i:X his:i:X", terminateCall("X", hashOfDoc), "conflict", ""},
		"terminate: its document is gone": {terminateScript, given(instance, []string{"DEL doc:i:X"}), "run:i doc:i:X his:i:X", terminateCall("X", hashOfDoc), "conflict", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := testenv.NewBed(t, srv, c.given...)
			before := b.Dump()
			if got := b.Run(c.script, c.keys, append([]string{b.Prefix()}, c.args...)...); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if got := strings.Join(testenv.Changed(before, b.Dump()), " "); got != c.changes {
				t.Errorf("changed: %q, want %q", got, c.changes)
			}
		})
	}
}

// The embedded server has no rights to ask for.
func TestScriptsWithoutRights(t *testing.T) {
	b := testenv.NewBed(t, testenv.Miniredis(t))
	if got := b.Run(fireScript, "timers", b.Prefix(), "10", "1000"); got != "0 -1" {
		t.Errorf("%q, want no timer", got)
	}
}

// An activity is queued once: while one of its ref is open, a checkpoint that schedules it again leaves no second entry.
func TestScriptCompleteQueuesAnActivityOnce(t *testing.T) {
	srv := testenv.Redis(t)
	for ref, want := range map[string]int64{"new": 1, "r": 0} {
		b := testenv.NewBed(t, srv, given(instance, worker, taken)...)
		call := completeCall("5-1", "X", "1-1", "1")
		call = slices.Replace(call, 17, 18, "1", ref, "other", "input")
		if got := b.Run(completeScript, "w run:i doc:i:X his:i:X in:i", append([]string{b.Prefix()}, call...)...); got != "ok" {
			t.Errorf("%s: %q", ref, got)
		}
		n, err := srv.Client.Do(t.Context(), srv.Client.B().Xlen().Key(b.Prefix()+"activities:other").Build()).AsInt64()
		if err != nil || n != want {
			t.Errorf("%s: %d entries, %v, want %d", ref, n, err, want)
		}
	}
}
