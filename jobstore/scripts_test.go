package jobstore

import (
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/testenv"
)

// What a script must refuse changes nothing: Redis keeps what a failing script wrote.
func TestScriptsRefuse(t *testing.T) {
	srv := testenv.Redis(t)
	snapshot := []string{"token", "cell-07", "0", "0", "1", "epoch", "1", "0"}
	for name, c := range map[string]struct {
		script *script.Script
		given  []string
		keys   string
		args   []string
		want   string
	}{
		"dead letter: the key is no stream": {intakeDead, []string{"SET a x"}, "a", []string{"10", "1000", "event", "e"}, "WRONGTYPE a is a string"},
		"snapshot: another has the lease":   {snapshotScript, []string{"SET a other"}, "a b c d e f", snapshot, "lost"},
		"snapshot: a number of 16 digits":   {snapshotScript, []string{"SET a token", "SET d 1234567890123456"}, "a b c d e f", snapshot, "type d"},
		"snapshot: no number":               {snapshotScript, []string{"SET a token", "SET d x"}, "a b c d e f", snapshot, "type d"},
		"snapshot: the index is no hash":    {snapshotScript, []string{"SET a token", "SET b x"}, "a b c d e f", snapshot, "type b"},
		"snapshot: what is done is no hash": {snapshotScript, []string{"SET a token", "SET c x"}, "a b c d e f", snapshot, "type c"},
		"snapshot: the changes are no set":  {snapshotScript, []string{"SET a token", "SET e x"}, "a b c d e f", snapshot, "type e"},
		"snapshot: the topics to be dropped changed": {snapshotScript, []string{"SET a token", "SET d 5", "HSET b JO-1 new"}, "a b c d e f",
			[]string{"token", "cell-07", "0", "0", "0", "epoch", "1", "1", "JO-1", "", "0", "old"}, "ok"},
		"cursor: another has the lease":     {cursorScript, []string{"SET a other"}, "a b", []string{"token", "5-1"}, "0"},
		"lease: kept, but it is another's":  {leaseScript, []string{"SET a other"}, "a", []string{"keep", "token", "1000"}, "0"},
		"lease: given, but it is another's": {leaseScript, []string{"SET a other"}, "a", []string{"give", "token", ""}, "0"},
		"lease: taken, but it is another's": {leaseScript, []string{"SET a other"}, "a", []string{"take", "token", "1000"}, "0"},
		"lease: kept, but it is not held":   {leaseScript, nil, "a", []string{"keep", "token", "1000"}, "0"},
		"sent: another has the lease":       {sentScript, []string{"SET a other", "XADD b 5-1 event e", "XADD c 6-1 event e"}, "a b c", []string{"token", "1", "5-1", "6-1"}, "0"},
		"sent: the lease is over":           {sentScript, []string{"XADD b 5-1 event e", "XADD c 6-1 event e"}, "a b c", []string{"token", "1", "5-1", "6-1"}, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			b := testenv.NewBed(t, srv, c.given...)
			before := b.Dump()
			if got := b.Run(c.script, c.keys, c.args...); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if got := strings.Join(testenv.Changed(before, b.Dump()), " "); got != "" {
				t.Errorf("changed: %q", got)
			}
		})
	}
}

// A number below the one that was published says that the store lost something: the next index is above it, whole, and of another epoch.
func TestScriptSnapshotGoesOnAbove(t *testing.T) {
	b := testenv.NewBed(t, testenv.Redis(t), "SET a token", "SET d 3", "SET f before", "HSET b JO-1 topics")
	before := b.Dump()
	if got, want := b.Run(snapshotScript, "a b c d e f", "token", "cell-07", "9", "0", "1", "after", "0", "0"), "ok 10 after 1 [JO-1 topics] "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := strings.Join(testenv.Changed(before, b.Dump()), " "); got != "d f" {
		t.Errorf("changed: %q, want d and f, number and epoch", got)
	}
}
