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

// A lock is refused by who has it, and by who is in front in its line: the refusal names the first, and says how long a writer in front, or one that was called, may still
// take. Nothing is written then but the line.
func TestScriptTakeRefuses(t *testing.T) {
	srv := testenv.Redis(t)
	const later = "99999999999999"
	line := func(score, member string) []string {
		return []string{"ZADD b " + score + " " + member, "ZADD c " + later + " " + member}
	}
	slots := func(owners ...string) (all []string) {
		for _, o := range owners {
			all = append(all, "ZADD a "+later+" "+o)
		}
		return all
	}
	writer, reader, foreign := []string{"HSET a writer_owner them writer_until " + later}, []string{"HSET a r:them " + later + " readers 1"}, []string{"HSET a readers 1"}
	intent := func(since string) []string {
		return []string{"HSET a writer_wait " + since + " writer_wait_until " + later}
	}
	for name, c := range map[string]struct {
		kind   string
		waiter string
		given  []string
		want   string // beginning of the reply
		end    string // of the reply: waiters in front
	}{
		"mutex, another has it":     {"mutex", "me", []string{"SET a them"}, "held 1 them -1 -1 ", " 0"},
		"mutex, it has it already":  {"mutex", "me", []string{"SET a me"}, "held 1 me -1 -1 ", " 0"},
		"mutex, another is in line": {"mutex", "me", line("5", "wother"), "held 1  1000 ", ""},
		"mutex, of another type":    {"mutex", "me", []string{"RPUSH a x"}, "type a string list", ""},

		"write, a writer has it":                   {"write", "me", writer, "held 1 them 9", " 0"},
		"write, it has it already":                 {"write", "me", []string{"HSET a writer_owner me writer_until " + later}, "held 1 me 9", " 0"},
		"write, a reader has it":                   {"write", "me", reader, "held 1 them 9", " 0"},
		"write, a writer's time is over":           {"write", "me", []string{"HSET a writer_owner them writer_until 5"}, "ok ", ""},
		"write, a reader's time is over":           {"write", "me", []string{"HSET a r:them 5 readers 1"}, "ok ", ""},
		"write, a peer reads":                      {"write", "me", foreign, "held 1 reader without lease -1 ", " 0"},
		"write, another is in line":                {"write", "me", line("5", "wother"), "held 1  1000 ", ""},
		"write, without a place it came before":    {"write", "", given(line("10", "wother"), intent("5")), "ok ", ""},
		"write, without a place it came after":     {"write", "", given(line("10", "wother"), intent("15")), "held 1  1000 ", ""},
		"write, who waits keeps its turn":          {"write", "me", given(line("5", "wme"), line("10", "wother"), writer), "held 1 them 9", " 0"},
		"write, who waits behind another does too": {"write", "me", given(line("5", "wother"), line("10", "wme"), line("15", "wthird"), writer), "held 1 them 9", " 1"},

		"read, a writer has it":                   {"read", "me", writer, "held 1 them 9", " 0"},
		"read, it has it already":                 {"read", "me", []string{"HSET a r:me " + later + " readers 1"}, "held 1 me 9", " 0"},
		"read, a writer without a place waits":    {"read", "me", intent("5"), "held 1  9", " 0"},
		"read, such a writer came before":         {"read", "me", given(line("10", "rme"), intent("5")), "held 1  9", " 0"},
		"read, such a writer came after":          {"read", "me", given(line("10", "rme"), intent("15")), "ok ", ""},
		"read, a writer in front waits":           {"read", "me", given(line("5", "wother"), line("10", "rme"), reader), "held 1 them 9", " 1"},
		"read, a writer in front waits for peers": {"read", "me", given(line("5", "wother"), line("10", "rme"), foreign), "held 1 reader without lease -1 ", " 1"},
		"read, a writer in front is called":       {"read", "me", given(line("5", "wother"), line("10", "rme")), "held 1  1000 ", ""},
		"read, readers have it":                   {"read", "me", given(line("10", "rme"), reader), "ok ", ""},

		"slot, all are taken":           {"conc", "me", slots("a", "b", "c"), "held 1 a 9", " 0"},
		"slot, it has one already":      {"conc", "me", slots("a", "b", "me"), "ok ", ""},
		"slot, the last is for another": {"conc", "me", given(slots("a", "b"), line("5", "wother")), "held 1  1000 ", ""},
		"slot, one is left beside that": {"conc", "me", given(slots("a"), line("5", "wother")), "ok ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			keys := "a b c d"
			if c.kind == "conc" {
				keys = "a b c" // without a fence
			}
			b := testenv.NewBed(t, srv, c.given...)
			before := b.Dump()
			got := b.Run(takeScript, keys, "ch", "1000", "0", "me", c.waiter, "60000", c.kind, "60000", "3", "0", "1", "")
			words := strings.Split(strings.TrimSuffix(got, " other"), " ") // who is called
			if !strings.HasPrefix(got, c.want) || !strings.HasSuffix(strings.Join(words, " "), c.end) {
				t.Errorf("%q, want %q and %q", got, c.want, c.end)
			}
			if strings.HasPrefix(got, "ok") {
				return
			}
			changed := testenv.Changed(before, b.Dump())
			if slices.Contains(changed, "d") || slices.Contains(changed, "a") && !strings.Contains(name, "without a place it came after") {
				t.Errorf("changed: %q", changed)
			}
		})
	}
}

func given(lists ...[]string) []string { return slices.Concat(lists...) }

// Who gives a lock back calls the next in line: not one behind a writer that came before it, and not one that was called already.
func TestScriptGiveCallsTheNext(t *testing.T) {
	srv := testenv.Redis(t)
	const later = "99999999999999"
	for name, c := range map[string]struct {
		given []string
		most  string // ms in which who is called comes
		want  string
	}{
		"a reader in line":                       {nil, "1000", "ok other"},
		"a writer without a place came before":   {[]string{"HSET a writer_wait 5 writer_wait_until " + later}, "1000", "ok"},
		"a writer without a place came after it": {[]string{"HSET a writer_wait 15 writer_wait_until " + later}, "1000", "ok other"},
		"it was called already":                  {nil, later, "ok"},
		"its place in the line is over":          {[]string{"ZADD c 5 rother"}, "1000", "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			b := testenv.NewBed(t, srv, append([]string{"HSET a r:me " + later + " readers 1", "ZADD b 10 rother", "ZADD c " + later + " rother"}, c.given...)...)
			if got := b.Run(giveScript, "a b c d", "ch", c.most, "0", "me", "0", "read", "60000", "3", "0", "1", ""); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
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

// A lock that nobody waits for costs no look at its line.
func TestScriptsLeaveAnEmptyLineAlone(t *testing.T) {
	srv := testenv.Redis(t)
	b := testenv.NewBed(t, srv)
	ask := func(words ...string) string {
		text, err := srv.Client.Do(t.Context(), srv.Client.B().Arbitrary(words...).Build()).ToString()
		testenv.Must(t, err)
		return text
	}
	ask("CONFIG", "RESETSTAT")
	if got := b.Run(takeScript, "a b c d", "ch", "1000", "0", "me", "me", "60000", "mutex", "60000", "1", "0", "1", ""); !strings.HasPrefix(got, "ok ") {
		t.Fatalf("%q", got)
	}
	if got := b.Run(giveScript, "a b c d", "ch", "1000", "0", "me", "0", "mutex", "60000", "1", "0", "1", ""); got != "ok" {
		t.Fatalf("%q", got)
	}
	for line := range strings.Lines(ask("INFO", "commandstats")) {
		if strings.HasPrefix(line, "cmdstat_z") {
			t.Errorf("the line was looked at: %s", line)
		}
	}
}
