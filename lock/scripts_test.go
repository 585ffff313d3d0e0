package lock

import (
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
