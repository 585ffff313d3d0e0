package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Guards are found in each form in which they are written here; the rest of a script is left alone. A mutant does not refuse any more for the one reason.
func TestGuards(t *testing.T) {
	for script, want := range map[string][]string{
		"if a ~= b then return {'lost'} end\nx()":                             {"token: if false then return {'lost'} end\nx()"},
		"if a then\n  y()\n  return {'conflict', k}\nend":                     {"expectation: if false then\n  y()\n  return {'conflict', k}\nend"},
		"if t ~= want then return {'type', k} end":                            {"type: if false then return {'type', k} end"},
		"if bad(k) then return redis.error_reply('WRONGTYPE ' .. k) end":      {"type: if false then return redis.error_reply('WRONGTYPE ' .. k) end"},
		"if a or b and c or (d or e) then return 0 end":                       {"entry: if b and c or (d or e) then return 0 end", "entry: if a or (d or e) then return 0 end", "entry: if a or b and c then return 0 end"},
		"if x then y() elseif not o then word = 'unowned' else z() end":       {"token: if x then y() elseif false then word = 'unowned' else z() end"},
		"if a and redis.call('XRANGE', k, i, i)[1] then w() end":              {"entry: if a and true then w() end"},
		"if acked == n or #redis.call('XRANGE', k) > 0 then w() end":          {"entry: if true then w() end"},
		"if f('if x then return 0 end') then -- then return 0 end\n  y() end": nil,
		"if n == 0 then return reply end\nif ok then return {'ok'} end":       nil,
		"for i = 1, 2 do if a then return false end end":                      {"entry: for i = 1, 2 do if false then return false end end"},
	} {
		var got []string
		for _, m := range guards("x.lua", script) {
			got = append(got, m.Kind+": "+m.mutated)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%s", script, diff)
		}
	}
}

// A mutant keeps its name when lines move, and those with one text are told apart.
func TestNames(t *testing.T) {
	const guard = "if a or b then return 0 end\n"
	name := func(script string) (ids []string, lines []int) {
		for _, m := range guards("f.lua", script) {
			ids, lines = append(ids, m.id()), append(lines, m.line())
		}
		return ids, lines
	}
	ids, lines := name(guard + guard)
	if diff := cmp.Diff([]string{
		"f.lua\tif a or b then [without: a]", "f.lua\tif a or b then [without: b]", "f.lua\tif a or b then [without: a] (2)", "f.lua\tif a or b then [without: b] (2)",
	}, ids); diff != "" {
		t.Error(diff)
	}
	moved, after := name("-- if c then return 0 end\nx()\n" + strings.Replace(guard, " or ", "\n  or ", 1) + guard)
	if diff := cmp.Diff(ids, moved); diff != "" {
		t.Error(diff)
	}
	if lines[0] != 1 || after[0] != 3 {
		t.Errorf("lines %v and %v", lines, after)
	}
}

// With probes a script does what it did, and its guards say when they refuse.
func TestProbes(t *testing.T) {
	const script = "if a or b then return 0 end\nif c and redis.call('XRANGE', k) then d() end"
	all := guards("f.lua", script)
	want := "if reached__(0, true, a or b) then return 0 end\nif c and reached__(2, false, redis.call('XRANGE', k)) then d() end"
	if got := probed(script, all, []int{0, 1, 2}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The guards of all scripts are found, each under a name of its own. Whether source.txt and exceptions.txt fit the files is for make mutate to say.
func TestAllGuards(t *testing.T) {
	all, err := findAll("../..", "")
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]bool)
	for _, m := range all {
		if ids[m.id()] {
			t.Errorf("two of %s", m.id())
		}
		ids[m.id()] = true
		if m.mutated == m.original {
			t.Errorf("nothing is changed: %s", m.id())
		}
	}
	if len(all) < 200 {
		t.Errorf("%d mutants, there were more than 200", len(all))
	}
	if _, err := exceptions(exceptionsTxt); err != nil {
		t.Error(err)
	}
	if ids := stale(all, map[string]string{all[0].id(): "known", "f.lua\tif a then": "gone"}); len(ids) != 1 || ids[0] != "f.lua\tif a then" {
		t.Errorf("exceptions of no guard: %q", ids)
	}
}

func TestSourceRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("one\ntwo\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for list, want := range map[string]string{
		"a.go token\n- two\n+ three": "2 times", "a.go token\n- four\n+ three": "0 times", "b.go token\n- one\n+": "no such file", "a.go\n- one\n+": "want a file and a kind", "a.go token\n+ x": "not once",
	} {
		if _, err := bySource(dir, list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", list, err, want)
		}
	}
	all, err := bySource(dir, "# comment\n\na.go token\n- one\n- two\n+ 1\n+\n")
	if err != nil || len(all) != 1 || all[0].mutated != "1\n\ntwo\n" {
		t.Errorf("%+v, %v", all, err)
	}
}

// A report is read as it was written; what is no mutant any more goes.
func TestReport(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.txt")
	if r, err := readReport(name); err != nil || len(r) != 0 {
		t.Errorf("no report yet: %v, %v", r, err)
	}
	all := guards("f.lua", "if a then return 0 end\nif b then return {'lost'} end")
	r := report{all[0].id(): {killed, kindEntry, "p TestA"}, all[1].id(): {survived, kindToken, ""}}
	with := report{"f.lua\tgone": {killed, kindEntry, "p TestA"}}
	for id, v := range r {
		with[id] = v
	}
	if err := with.write(name, all); err != nil {
		t.Fatal(err)
	}
	got, err := readReport(name)
	if diff := cmp.Diff(r, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if err := os.WriteFile(name, []byte("killed\tx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readReport(name); err == nil || !strings.Contains(err.Error(), "five fields") {
		t.Errorf("a broken line: %v", err)
	}
	if _, err := exceptions("f.lua\tif a then\n"); err == nil || !strings.Contains(err.Error(), "reason") {
		t.Errorf("an exception without a reason: %v", err)
	}
}
