package lock

import (
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/testenv"
)

// A lease whose time is over is not held, although it still stands in the lock: it cannot be renewed, and giving it back says so. Nor is a lock another's to renew or give.
func TestScriptsOfOverLeases(t *testing.T) {
	srv := testenv.Redis(t)
	args := func(kind string, own ...string) []string {
		return append(append([]string{"ch", "1000", "0", "me"}, own...), kind, "60000", "3", "0", "1", "")
	}
	const over, later = "5", "99999999999999"
	for name, c := range map[string]struct {
		script  *script.Script
		given   string
		args    []string
		changes string
	}{
		"renew write: over":      {renewScript, "HSET a writer_owner me writer_until " + over, args("write"), ""},
		"renew write: another's": {renewScript, "HSET a writer_owner other writer_until " + later, args("write"), ""},
		"renew read: over":       {renewScript, "HSET a r:me " + over + " readers 1", args("read"), ""},
		"renew read: another's":  {renewScript, "HSET a r:other " + later + " readers 1", args("read"), ""},
		"renew slot: over":       {renewScript, "ZADD a " + over + " me", args("conc"), ""},
		"renew slot: another's":  {renewScript, "ZADD a " + later + " other", args("conc"), ""},
		"renew mutex: another's": {renewScript, "SET a other", args("mutex"), ""},
		"give write: over":       {giveScript, "HSET a writer_owner me writer_until " + over, args("write", "0"), "a"},
		"give write: another's":  {giveScript, "HSET a writer_owner other writer_until " + later, args("write", "0"), ""},
		"give read: over":        {giveScript, "HSET a r:me " + over + " readers 1", args("read", "0"), "a"},
		"give read: another's":   {giveScript, "HSET a r:other " + later + " readers 1", args("read", "0"), ""},
		"give slot: over":        {giveScript, "ZADD a " + over + " me", args("conc", "0"), "a"},
		"give slot: another's":   {giveScript, "ZADD a " + later + " other", args("conc", "0"), ""},
		"give mutex: another's":  {giveScript, "SET a other", args("mutex", "0"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			keys := "a b c d"
			if strings.Contains(name, "slot") {
				keys = "a b c" // without a fence
			}
			b := testenv.NewBed(t, srv, c.given)
			before := b.Dump()
			if got := b.Run(c.script, keys, c.args...); got != "gone" {
				t.Errorf("%q, want gone", got)
			}
			if got := strings.Join(testenv.Changed(before, b.Dump()), " "); got != c.changes {
				t.Errorf("changed: %q, want %q", got, c.changes)
			}
		})
	}
}

// A reader that waits is refused by whoever is in front: by the writer that holds readers off if that came before it, and by the readers that have the lock if a writer
// waits for them in front of it. The refusal names who has the lock, and how long a writer in front may still take: the time to try again follows from it.
func TestScriptTakeRefusesWaitingReaders(t *testing.T) {
	srv := testenv.Redis(t)
	const later = "99999999999999"
	behind := []string{"ZADD b 10 rme", "ZADD c " + later + " rme"}
	writer := []string{"ZADD b 5 wother", "ZADD c " + later + " wother"}
	for name, c := range map[string]struct {
		given []string
		want  string // beginning of the reply
	}{
		"a writer without a place came before":   {append(behind, "HSET a writer_wait 5 writer_wait_until "+later), "held 1  9"},
		"a writer without a place came after":    {append(behind, "HSET a writer_wait 15 writer_wait_until "+later), "ok "},
		"a writer waits in front for a reader":   {append(append(behind, writer...), "HSET a r:them "+later+" readers 1"), "held 1 them 9"},
		"a writer waits in front for a peer":     {append(append(behind, writer...), "HSET a readers 1"), "held 1 reader without lease -1 "},
		"a writer in front has been called":      {append(behind, writer...), "held 1  1000 "},
		"readers have the lock, no writer waits": {append(behind, "HSET a r:them "+later+" readers 1"), "ok "},
	} {
		t.Run(name, func(t *testing.T) {
			b := testenv.NewBed(t, srv, c.given...)
			before := b.Dump()
			got := b.Run(takeScript, "a b c d", "ch", "1000", "0", "me", "me", "60000", "read", "60000", "3", "0", "1", "")
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			changed := testenv.Changed(before, b.Dump())
			if refused := strings.HasPrefix(got, "held"); refused && (slices.Contains(changed, "a") || slices.Contains(changed, "d")) {
				t.Errorf("changed: %q", changed)
			}
		})
	}
}

// The quota of work that did not begin is given back to the cell it was taken from, and to no other that got its number since.
func TestScriptGivesQuotaBack(t *testing.T) {
	srv := testenv.Redis(t)
	for name, c := range map[string]struct {
		cell, items, mark string
		changes           string
	}{
		"its own":                       {"5~3", "2", "0 5", "a"},
		"another cell of its number":    {"7~3", "2", "0 5", ""},
		"there is less than it took":    {"5~1", "2", "0 5", ""},
		"nothing is there of that cell": {"5~3", "2", "1 5", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := testenv.NewBed(t, srv, "HSET a first 0 next 1 used 3 0 "+c.cell)
			before := b.Dump()
			if got := b.Run(giveScript, "a b c", "ch", "1000", "0", "me", "1", "rate", "60000", "3", "60000000", c.items, c.mark); got != "ok" {
				t.Errorf("%q, want ok", got)
			}
			if got := strings.Join(testenv.Changed(before, b.Dump()), " "); got != c.changes {
				t.Errorf("changed: %q, want %q", got, c.changes)
			}
		})
	}
}
