package main

import (
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
