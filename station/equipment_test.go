package station_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/station"
)

// TestEquipmentFormatIsTrue: the description of the format is a file of the format.
func TestEquipmentFormatIsTrue(t *testing.T) {
	e, err := station.ParseEquipment("equipment.yaml", []byte(station.EquipmentFormat))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]isa95.Scope{"cell-07"}, e.Scopes); diff != "" || e.Source != "urn:acme:cell-07" || len(e.Types()) != 2 {
		t.Errorf("%s %+v %v", diff, e, e.Types())
	}
}

// TestEquipmentFaults: every fault names file, line, field, value and rule; all are found at once.
func TestEquipmentFaults(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"empty":            {"", `e.yaml:1: must not be empty`},
		"comment":          {"# nothing\n", `e.yaml:1: must not be empty`},
		"syntax":           {"scope: a\ncommands: [\n", `e.yaml:2: must be YAML: sequence end token ']' not found`},
		"tab":              {"scope: a\ncommands:\n\t- type: x", `e.yaml:3: must be YAML: found character '	' that cannot start any token`},
		"list":             {"- a", `e.yaml:1: must be a mapping with members of scope, scopes, source, seed, commands, sources|e.yaml:1: must have a scope, or a list of scopes|e.yaml:1: must have commands or sources`},
		"two documents":    {"scope: a\n---\nscope: b", `e.yaml:3: must be one YAML document, not several`},
		"twice":            {"scope: a\nscope: b", `e.yaml:2: must be YAML: mapping key "scope" already defined at [1:1]`},
		"anchor":           {"scope: &a x", `e.yaml:1: scope must not use anchors, aliases or merge keys`},
		"merge":            {"scope: a\n<<: {seed: 1}", `e.yaml:2: must not use anchors, aliases or merge keys`},
		"tag":              {"scope: !x a", `e.yaml:1: scope must not use tags`},
		"no scope":         {"commands: [{type: a}]", `e.yaml:1: must have a scope, or a list of scopes`},
		"bad scope":        {"scope: a/b\ncommands: [{type: a}]", `e.yaml:1: scope "a/b" must be a scope: must not contain / + # (it becomes a topic level)`},
		"scope empty":      {"scope: ''\ncommands: [{type: a}]", `e.yaml:1: scope must not be empty`},
		"both":             {"scope: a\nscopes: [b]\ncommands: [{type: a}]", `e.yaml:2: scopes must not stand beside scope`},
		"scope twice":      {"scopes: [a, a]\ncommands: [{type: a}]", `e.yaml:1: scopes[1] "a" must not stand here twice`},
		"nothing to do":    {"scope: a", `e.yaml:1: must have commands or sources`},
		"unknown":          {"scope: a\ncommands:\n  - type: x\n    take: 5s", `e.yaml:4: commands[0].take is not known here; known are type, takes, result, refuse, unanswered, events, cases`},
		"no type":          {"scope: a\ncommands:\n  - takes: 5s", `e.yaml:3: commands[0].type is missing`},
		"type with space":  {"scope: a\ncommands: [{type: a b}]", `e.yaml:2: commands[0].type "a b" must be a CloudEvents type: at most 256 printable ASCII characters without spaces`},
		"type twice":       {"scope: a\ncommands:\n  - {type: a}\n  - {type: a}", `e.yaml:4: commands[1] "a" must not have a type that stands here twice`},
		"takes":            {"scope: a\ncommands:\n  - type: a\n    takes: 2 minutes", `e.yaml:4: commands[0].takes "2 minutes" must be a duration from 0s to 24h, such as 200ms, or a range, such as 150ms..300ms`},
		"takes backwards":  {"scope: a\ncommands: [{type: a, takes: 3s..2s}]", `e.yaml:2: commands[0].takes "3s..2s" must be a duration from 0s to 24h, such as 200ms, or a range, such as 150ms..300ms`},
		"takes a list":     {"scope: a\ncommands: [{type: a, takes: [1s]}]", `e.yaml:2: commands[0].takes must be text`},
		"takes a number":   {"scope: a\ncommands: [{type: a, takes: 5}]", `e.yaml:2: commands[0].takes "5" must be a duration from 0s to 24h, such as 200ms, or a range, such as 150ms..300ms`},
		"unanswered":       {"scope: a\ncommands: [{type: a, unanswered: -1}]", `e.yaml:2: commands[0].unanswered "-1" must be a whole number from 0 to 1073741824`},
		"unanswered text":  {"scope: a\ncommands: [{type: a, unanswered: '1'}]", `e.yaml:2: commands[0].unanswered "1" must be a whole number from 0 to 1073741824`},
		"refuse":           {"scope: a\ncommands: [{type: a, refuse: {kind: X}}]", `e.yaml:2: commands[0].refuse.message is missing|e.yaml:2: commands[0].refuse.kind "X" must be one of [CONFIGURATION_INVALID NO_MATCHING_SUBSCRIBERS TIMEOUT UNSUPPORTED_CONTENT_TYPE UNKNOWN_PAYLOAD_TYPE MISSING_PROPERTY MISSING_USER_PROPERTY PROPERTY_INVALID USER_PROPERTY_INVALID PAYLOAD_INVALID STATE_INVALID CANCELLATION INTERNAL_LOGIC_ERROR NOT_IMPLEMENTED SERVICE_UNAVAILABLE COMMUNICATION_ERROR RESOURCE_EXHAUSTED PERMISSION_DENIED UNSUPPORTED_VERSION UNKNOWN_ERROR]`},
		"refuse + result":  {"scope: a\ncommands: [{type: a, result: {}, refuse: {message: x}}]", `e.yaml:2: commands[0].refuse must not stand beside result`},
		"reference":        {"scope: a\ncommands:\n  - type: a\n    result: {x: '${param.y}'}", `e.yaml:4: commands[0].result.x "${param.y}" must refer to order, scope, action, attempt, parameters or a range such as 84.1..85.9 between ${ and }`},
		"result in result": {"scope: a\ncommands: [{type: a, result: '${result.x}'}]", `e.yaml:2: commands[0].result "${result.x}" must refer to order, scope, action, attempt, parameters or a range such as 84.1..85.9 between ${ and }`},
		"path of attempt":  {"scope: a\ncommands: [{type: a, result: '${attempt.x}'}]", `e.yaml:2: commands[0].result "${attempt.x}" must refer to order, scope, action, attempt, parameters or a range such as 84.1..85.9 between ${ and }`},
		"open reference":   {"scope: a\ncommands: [{type: a, result: 'a ${order'}]", `e.yaml:2: commands[0].result "a ${order" must close the reference that ${ opens with }`},
		"range":            {"scope: a\ncommands: [{type: a, result: ['${2..1}', '${a..b}', '${0..0.0000000001}']}]", `e.yaml:2: commands[0].result[0] "${2..1}" must have two numbers of at most 9 decimals around .., the smaller first|e.yaml:2: commands[0].result[1] "${a..b}" must have two numbers of at most 9 decimals around .., the smaller first|e.yaml:2: commands[0].result[2] "${0..0.0000000001}" must have two numbers of at most 9 decimals around .., the smaller first`},
		"infinite":         {"scope: a\ncommands: [{type: a, result: [.inf, .nan]}]", `e.yaml:2: commands[0].result[0] ".inf" must be a number that JSON has, or be quoted|e.yaml:2: commands[0].result[1] ".nan" must be a number that JSON has, or be quoted`},
		"leading zeros":    {"scope: a\ncommands: [{type: a, result: [014, 008, -00.5, 01e3]}]", `e.yaml:2: commands[0].result[0] "014" must not begin with a zero: quote it if it is text, else leave the zero out|e.yaml:2: commands[0].result[1] "008" must not begin with a zero: quote it if it is text, else leave the zero out|e.yaml:2: commands[0].result[2] "-00.5" must not begin with a zero: quote it if it is text, else leave the zero out|e.yaml:2: commands[0].result[3] "01e3" must not begin with a zero: quote it if it is text, else leave the zero out`},
		"integers":         {"scope: a\ncommands: [{type: a, unanswered: 014}, {type: b, unanswered: 0x1f}, {type: c, unanswered: 2.0}, {type: d, unanswered: 1_0}]", `e.yaml:2: commands[0].unanswered "014" must be a whole number from 0 to 1073741824|e.yaml:2: commands[1].unanswered "0x1f" must be a whole number from 0 to 1073741824|e.yaml:2: commands[2].unanswered "2.0" must be a whole number from 0 to 1073741824|e.yaml:2: commands[3].unanswered "1_0" must be a whole number from 0 to 1073741824`},
		"chance text":      {"scope: a\ncommands: [{type: a, cases: [{chance: 0x1p-2}, {chance: '0.5'}]}]", `e.yaml:2: commands[0].cases[0].chance "0x1p-2" must be a number from 0 to 1|e.yaml:2: commands[0].cases[1].chance "0.5" must be a number from 0 to 1`},
		"orders":           {"scope: a\ncommands: [{type: a, cases: [{orders: [J*O, '', JO, JO]}]}]", `e.yaml:2: commands[0].cases[0].orders[1] must not be empty|e.yaml:2: commands[0].cases[0].orders[3] "JO" must not stand here twice|e.yaml:2: commands[0].cases[0].orders[0] "J*O" must have a * at its end only`},
		"orders a text":    {"scope: a\ncommands: [{type: a, cases: [{orders: JO}]}]", `e.yaml:2: commands[0].cases[0].orders "JO" must be a list`},
		"attempts":         {"scope: a\ncommands:\n - type: a\n   cases:\n    - {attempts: 0}\n    - {attempts: 2..1}\n    - {attempts: x..}\n    - {attempts: 1.5}", `e.yaml:5: commands[0].cases[0].attempts "0" must be an attempt from 1, such as 1, or a range, such as 1..2 or 3..|e.yaml:6: commands[0].cases[1].attempts "2..1" must be an attempt from 1, such as 1, or a range, such as 1..2 or 3..|e.yaml:7: commands[0].cases[2].attempts "x.." must be an attempt from 1, such as 1, or a range, such as 1..2 or 3..|e.yaml:8: commands[0].cases[3].attempts "1.5" must be an attempt from 1, such as 1, or a range, such as 1..2 or 3..`},
		"chance":           {"scope: a\ncommands: [{type: a, cases: [{chance: 1.1}]}]", `e.yaml:2: commands[0].cases[0].chance "1.1" must be a number from 0 to 1`},
		"repeat":           {"scope: a\ncommands: [{type: a, events: [{type: b, repeat: 5s}]}]", `e.yaml:2: commands[0].events[0].repeat "5s" must stand beside until`},
		"repeat range":     {"scope: a\ncommands: [{type: a, events: [{type: b, repeat: 5s..6s, until: [a]}]}]", `e.yaml:2: commands[0].events[0].repeat "5s..6s" must be one duration of at least 1ms`},
		"asset":            {"scope: a\ncommands: [{type: a, events: [{type: b, asset: \"x\\ny\"}]}]", `e.yaml:2: commands[0].events[0].asset "x\ny" must be at most 128 bytes without control characters`},
		"every":            {"scope: a\nsources: [{type: a}]", `e.yaml:2: sources[0].every must be at least 1ms`},
		"ahead":            {"scope: a\nsources: [{type: a, every: 1s, ahead: 2}]", `e.yaml:2: sources[0].ahead "2" must stand beside taken_by`},
		"taken_by":         {"scope: a\nsources: [{type: a, every: 1s, taken_by: b}]", `e.yaml:2: sources[0].taken_by "b" must be the type of one of the commands`},
		"several":          {"scope: a\nseed: x\ncommands:\n  - type: a\n    takes: x\n    unanswered: x\n", `e.yaml:2: seed "x" must be a whole number from -4611686018427387904 to 4611686018427387904|e.yaml:5: commands[0].takes "x" must be a duration from 0s to 24h, such as 200ms, or a range, such as 150ms..300ms|e.yaml:6: commands[0].unanswered "x" must be a whole number from 0 to 1073741824`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := station.ParseEquipment("e.yaml", []byte(row.text))
			var invalid *station.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("%v", err)
			}
			if got := strings.ReplaceAll(err.Error(), "\n", "|"); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
	t.Run("too deep", func(t *testing.T) {
		_, err := station.ParseEquipment("e.yaml", []byte("scope: "+strings.Repeat("[", 70)+strings.Repeat("]", 70)))
		if err == nil || !strings.Contains(err.Error(), "must not nest deeper than 64 levels") {
			t.Error(err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		_, err := station.ParseEquipment("e.yaml", []byte(strings.Repeat("#", 1<<20+1)))
		if err == nil || !strings.Contains(err.Error(), "must not be larger") {
			t.Error(err)
		}
	})
	if _, err := station.LoadEquipment("none.yaml"); err == nil {
		t.Error("no file")
	}
}

// FuzzParseEquipment: no text makes it panic; what is wrong has a place and a rule.
func FuzzParseEquipment(f *testing.F) {
	f.Add([]byte(simple))
	f.Add([]byte(station.EquipmentFormat))
	f.Add([]byte("scope: a\nsources: [{type: b, every: 1ms, body: ['${n}', \"$${\", ${1..2}, 0x1f, .5, ~]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		checkFaults(t, func() error { _, err := station.ParseEquipment("e.yaml", data); return err }())
	})
}

func checkFaults(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var invalid *station.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Faults) == 0 {
		t.Fatalf("%#v", err)
	}
	for _, f := range invalid.Faults {
		if f.File == "" || f.Rule == "" || f.Line < 0 {
			t.Fatalf("%#v", f)
		}
	}
}
