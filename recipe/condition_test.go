package recipe

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// A.5.4: the constants.
func TestConstants(t *testing.T) {
	for text, want := range map[string]conditionKind{
		"": conditionAlways, " ": conditionAlways, "always": conditionAlways, "ALWAYS": conditionAlways, "true": conditionAlways, " True ": conditionAlways,
		"never": conditionNever, "Never": conditionNever, "false": conditionNever, "FALSE": conditionNever,
		"otherwise": conditionOtherwise, "Otherwise": conditionOtherwise,
		"not false": conditionExpression, "true and true": conditionExpression,
	} {
		c, err := compileCondition(text, nil)
		if err != nil || c.kind != want {
			t.Errorf("%q: %v, %v; want %v", text, c, err, want)
		}
	}
}

// An order and an execution for conditions to look at.
func conditionScope() scope {
	return scope{
		order: &Order{ID: "JO-1", Parameters: map[string]any{
			"mark": "laser", "count": json.Number("3"), "torque": 84.5, "on": true, "off": false, "null": nil,
			"list": []any{json.Number("1"), "b"}, "object": map[string]any{"deep": map[string]any{"n": json.Number("9007199254740993")}},
			"raw": json.RawMessage(`{"n": [10, 20]}`), "broken": json.RawMessage(`{`), "big": json.Number("1e3"),
			"huge": json.RawMessage(`1e999`), "missing": "missing", "5": json.RawMessage(`7`),
		}},
		execution: &Execution{Actions: []ActionEntry{
			{Name: "weld", State: ActionCompleted, Result: json.RawMessage(`{"ok":true,"seams":[{"mm":12},{"mm":15.5}],"id":9007199254740993,"note":"fine"}`)},
			{Name: "scan-2", State: ActionCompleted, Result: json.RawMessage(`7`)},
			{Name: "idle", State: ActionPending},
		}},
		elapsed: 2.5,
		cache:   new(cache),
	}
}

// verdict is what a condition gives in s, "true" or "false", or why it fails, in one line.
func verdict(t *testing.T, text string, s scope) string {
	t.Helper()
	c, err := compileCondition(text, conditionActions)
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return ""
	}
	holds, err := c.holds(s)
	if err != nil {
		if holds || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v", text, holds, err)
		}
		return err.Error()
	}
	return strconv.FormatBool(holds)
}

var conditionActions = map[string]bool{"weld": true, "scan-2": true, "idle": true, "unmade": true}

// A.5.4 (conditions decide): what expressions give.
func TestExpressions(t *testing.T) {
	for text, want := range map[string]bool{
		"actions.weld.ok":                                             true,
		"actions.idle.ok":                                             false,
		"actions.unmade.ok":                                           false,
		"not actions.idle.ok":                                         true,
		"! actions.idle.ok && actions.weld.ok":                        true,
		"actions.weld.result.ok":                                      true,
		"actions.weld.result.ok == true":                              true,
		"actions?.weld.result?.ok":                                    true,
		"actions['weld'].result['ok']":                                true,
		`actions["scan-2"].result == 7`:                               true,
		"actions.weld.result.seams[1].mm > 15":                        true,
		"actions.weld.result.seams[-1].mm > 15":                       true,
		"len(actions.weld.result.seams) == 2":                         true,
		"actions.weld.result.id == 9007199254740993":                  true,
		"actions.weld.result.id == 9007199254740992":                  false,
		"actions.weld.result.note startsWith 'fi'":                    true,
		"actions.weld.result.note endsWith 'x'":                       false,
		"actions.weld.result.note contains 'in'":                      true,
		"actions.weld.result.note matches '^f.*e$'":                   true,
		"'note' in actions.weld.result":                               true,
		"job.id == 'JO-1'":                                            true,
		"job.parameters.mark == 'laser'":                              true,
		"job.parameters.mark in ['label', 'laser']":                   true,
		"job.parameters.mark not in ['label', 'laser']":               false,
		"job.parameters.count == 3":                                   true,
		"job.parameters.count + 1 == 4":                               true,
		"job.parameters.torque + 1 > 85":                              true,
		"1 + job.parameters.torque > 85.4":                            true,
		"job.parameters.torque >= 80 and job.parameters.torque <= 85": true,
		"80 <= job.parameters.torque <= 85":                           true,
		"job.parameters.on ? job.parameters.off : true":               false,
		"(job.parameters.on ? job.parameters : nil).count == 3":       true,
		"job.parameters.list[0] == 1":                                 true,
		"job.parameters.list[job.parameters.zero ?? 1] == 'b'":        true,
		"job.parameters[job.parameters.which ?? 'mark'] == 'laser'":   true,
		"job.parameters.object.deep.n == 9007199254740993":            true,
		"job.parameters.raw.n[1] == 20":                               true,
		"job.parameters.big == 1000":                                  true,
		"'mark' in job.parameters":                                    true,
		"'none' in job.parameters":                                    false,
		"step.t > 2 and step.t < 3":                                   true,
		"upper(job.parameters.mark) == 'LASER'":                       true,
		"int('5') + abs(-2) == 7":                                     true,
		"max(1, job.parameters.count) == 3":                           true,
		"job.parameters.on":                                           true,
		"(job.parameters.on)":                                         true,
		"job.parameters.a ?? job.parameters.on":                       true,
		"true && (false || actions.weld.ok)":                          true,
		// An id of a parameter may look like a number.
		"job.parameters[5] == 7 and job.parameters[5] > 6 and job.parameters['5'] == 7": true,
		// What is missing is nil, and no error.
		"actions.idle.result.x.y[3].z == nil":      true,
		"actions.weld.result.none == nil":          true,
		"actions.weld.result.note.x == nil":        true,
		"actions.weld.result.seams.x == nil":       true,
		"actions.weld.result.seams[9] == nil":      true,
		"actions.weld.result[0] == nil":            true,
		"actions.weld.result.none":                 false,
		"not actions.weld.result.none":             true,
		"actions.weld.result.none == 5":            false,
		"actions.weld.result.none == 'x'":          false,
		"job.parameters.none != 'x'":               true,
		"job.parameters.null == nil":               true,
		"job.parameters.broken == nil":             true,
		"job.parameters.none and true":             false,
		"(job.parameters.none ?? 0) < 5":           true,
		"job.parameters.none in [1, 2]":            false,
		"job.parameters.none contains 'x'":         false,
		"1 in job.parameters.none":                 false,
		"actions.unmade.result.x == nil":           true,
		"[1, 2, 3][job.parameters.count - 4] == 3": true,
		"[[1, 2], [3]][0][9] == nil":               true,
	} {
		if got := verdict(t, text, conditionScope()); got != strconv.FormatBool(want) {
			t.Errorf("%s: %s, want %v", text, got, want)
		}
		if c, _ := compileCondition(text, conditionActions); c.fault != nil {
			t.Errorf("%s: %v", text, c.fault)
		}
	}
	if c, _ := compileCondition("step.t > 1", nil); !c.timed {
		t.Error("step.t is not noticed")
	}
}

// What fails when evaluated, with a reason on one line.
func TestExpressionsThatFail(t *testing.T) {
	for text, reason := range map[string]string{
		"actions.weld.result.none > 5":                           "actions.weld.result.none is missing",
		"5 < job.parameters.none.x":                              "job.parameters.none.x is missing",
		"job.parameters.mark > 5":                                "a string > a number",
		"job.parameters.mark + 1 == 2":                           "cannot add a string and a number",
		"job.parameters.list + 1 == 2":                           "cannot add an array and a number",
		"job.parameters.object + 1 == 2":                         "cannot add an object and a number",
		"job.parameters.on + 1 == 2":                             "cannot add true or false and a number",
		"job.parameters.mark":                                    "job.parameters.mark is a string, not true or false",
		"not job.parameters.count":                               "job.parameters.count is a number",
		"job.parameters.list and true":                           "job.parameters.list is an array",
		"-job.parameters.mark == 1":                              "invalid operation: - a string",
		"len(job.parameters.none) == 0":                          "job.parameters.none is missing",
		"job.parameters.count % 0 == 1":                          "the right operand of % is 0",
		"int(job.parameters.mark) == 1":                          "int(laser)",
		"1 in job.parameters.mark":                               "operator \"in\" not defined on a string",
		"actions.weld.result.seams > 3":                          ">",
		"job.parameters.object ?? false":                         "is an object, not true or false",
		"(true ? job.parameters.mark : true)":                    "is a string",
		"job.parameters.count contains 'a'":                      "it is a number, not a string",
		"job.parameters.count matches 'a'":                       "job.parameters.count is a number, not a string",
		"job.parameters.mark > job.parameters.no":                "job.parameters.no is missing",
		"[1, 'a'] in job.parameters.object":                      "what is looked for in an object must be a string, and is an array",
		"1 in job.parameters.object":                             "what is looked for in an object must be a string, and is a number",
		"max(job.parameters.no) > 1":                             "job.parameters.no is missing",
		"[1, 2, 3][job.parameters.count] == 5":                   "the list has no element 3: its elements are 0 to 2",
		"[1, 2][0 - job.parameters.count] == 5":                  "the list has no element -3: its elements are 0 to 1",
		"[1, 2][job.parameters.torque] == 5":                     "an index must be a whole number or a name, and is 84.5",
		"[1, 2][job.parameters.mark] == 5":                       "the index of a list must be a whole number, and is a string",
		"[1, 2][job.parameters.no] == 5":                         "the index is missing (job.parameters.no is missing)",
		"job.parameters.list[1.0 / job.parameters.count] == nil": "an index must be a whole number or a name, and is 0.333",
		"job.parameters[job.parameters.list] == 5":               "an index must be a whole number or a name, and is an array",
	} {
		if got := verdict(t, text, conditionScope()); got == "false" || !strings.Contains(got, reason) {
			t.Errorf("%s: %s, want %q", text, got, reason)
		}
	}
}

// What fails, with its whole reason. A number that is out of range is an error, and never one that is wrong or more than any limit.
func TestReasons(t *testing.T) {
	const most, least = "9223372036854775807", "(0 - 9223372036854775807 - 1)"
	for text, reason := range map[string]string{
		most + " + job.parameters.count > 5":             most + " + 3 is out of the range of whole numbers",
		least + " + -job.parameters.count < 5":           "-9223372036854775808 + -3 is out of the range of whole numbers",
		least + " - job.parameters.count < 5":            "-9223372036854775808 - 3 is out of the range of whole numbers",
		"0 - job.parameters.count - " + most + " < 5":    "-3 - " + most + " is out of the range of whole numbers",
		most + " * job.parameters.count > 5":             most + " * 3 is out of the range of whole numbers",
		"(2 - job.parameters.count) * " + least + " > 5": "-1 * -9223372036854775808 is out of the range of whole numbers",
		least + " * (2 - job.parameters.count) > 5":      "-9223372036854775808 * -1 is out of the range of whole numbers",
		"-" + least + " > job.parameters.count":          "-(-9223372036854775808) is out of the range of whole numbers",
		"abs(" + least + ") > job.parameters.count":      "abs(-9223372036854775808) is out of the range of whole numbers",
		"int(job.parameters.count * 1e20) > 5":           "int(3e+20) is out of the range of whole numbers",
		"job.parameters.count ** 1000 > 5":               "3 ** 1000 is out of the range of numbers",
		"(0 - job.parameters.count) ^ 0.5 > 5":           "-3 ** 0.5 is out of the range of numbers",
		"job.parameters.count * 1e308 > 5":               "3 * 1e+308 is out of the range of numbers",
		"job.parameters.count / 0 > 5":                   "3 / 0 is a division by zero",
		"0.0 / (job.parameters.count - 3) > 5":           "0 / 0 is a division by zero",
		"job.parameters.huge >= 5":                       "job.parameters.huge is 1e999, which is out of the range of numbers",
		"job.parameters.huge + 1 >= 5":                   "job.parameters.huge is 1e999, which is out of the range of numbers",
		"-job.parameters.huge < 5":                       "job.parameters.huge is 1e999, which is out of the range of numbers",
		"abs(job.parameters.huge) > 5":                   "job.parameters.huge is 1e999, which is out of the range of numbers",
		"[job.parameters.huge][0] > 5":                   "job.parameters.huge is 1e999, which is out of the range of numbers",
		"job.parameters.huge - job.parameters.huge == 0": "job.parameters.huge is 1e999, which is out of the range of numbers",
		// The reason is what failed, also where its text has words of what is missing.
		"job.parameters.count ?? (job.parameters.c[0] == nil ? true : false)": "job.parameters.count ?? (job.parameters.c[0] == nil ? true : false) is a number, not true or false",
		"(job.parameters.count ?? job.parameters.missing) matches 'x'":        "job.parameters.count ?? job.parameters.missing is a number, not a string",
		"job.parameters.none == 5 or int(job.parameters.missing) > 1":         "invalid operation: int(missing) (job.parameters.none is missing)",
		"job.parameters.none == 5 or job.parameters.missing + 1 > 1":          "cannot add a string and a number (job.parameters.none is missing)",
		"job.parameters.mark == 5 or job.parameters.none + 1 > 1":             "job.parameters.none is missing",
		"job.parameters.mark == 5 or 1 + job.parameters.none > 1":             "job.parameters.none is missing",
		"job.parameters.mark == 5 or job.parameters.none < 1":                 "job.parameters.none is missing",
		"job.parameters.mark == 5 or abs(job.parameters.none) < 1":            "job.parameters.none is missing",
		"job.parameters.mark == 5 or upper(job.parameters.none) contains 'x'": "job.parameters.none is missing",
		"job.parameters.mark == 5 or len(job.parameters.none) > 1":            "job.parameters.none is missing",
		"job.parameters.mark == 5 or -job.parameters.none > 1":                "job.parameters.none is missing",
		"job.parameters.mark == 5 or job.parameters.none % 2 == 1":            "job.parameters.none is missing",
		"job.parameters.mark == 5 or int(job.parameters.none) == 1":           "job.parameters.none is missing",
		"job.parameters.mark == 5 or round(job.parameters.none) == 1":         "job.parameters.none is missing",
		"job.parameters.mark == 5 or min(job.parameters.none, 5) == 1":        "job.parameters.none is missing",
		"job.parameters.mark == 5 or float(job.parameters.none) == 1":         "job.parameters.none is missing",
		"job.parameters.mark == 5 or trim(job.parameters.none) == 'x'":        "job.parameters.none is missing",
		"job.parameters.mark == 5 or ceil(job.parameters.none) == 1":          "job.parameters.none is missing",
		"job.parameters.mark == 5 or (job.parameters.none ?? nil) * 2.5 == 1": "job.parameters.none is missing",
		// What is in range.
		most + " + -job.parameters.count + job.parameters.count == " + most: "true",
		least + " + 1 == -" + most: "true", least + " * 1 < 0": "true", most + " * -1 == -" + most: "true", "0 * " + most + " == 0": "true",
		"8 / 2 == 4": "true", "1 - 2 == -1": "true", "2 ** 3 == 8": "true", "-(1.5) == -1.5": "true", "int(2.9) == 2": "true", "abs(-3) == 3": "true", "abs(-1e300) == 1e300": "true",
		"job.parameters.huge == 5": "false", "job.parameters.huge == job.parameters.huge": "true", "(job.parameters.huge ?? 5) != nil": "true", "string(job.parameters.huge) == '1e999'": "true",
	} {
		if got := verdict(t, text, conditionScope()); got != reason {
			t.Errorf("%s: %s, want %q", text, got, reason)
		}
	}
}

// R026: what does not compile, with a reason on one line.
func TestExpressionsRefused(t *testing.T) {
	for text, reason := range map[string]string{
		"torque_ok":                       `unknown name "torque_ok"`,
		"done":                            `unknown name "done"`,
		"actions":                         "write actions.<name>.ok",
		"actions.x.ok":                    `there is no action "x"`,
		"actions[0].ok":                   `there is no action "0"`,
		"actions[job.id].ok":              "write actions.<name>.ok",
		"actions.weld":                    "write actions.weld.ok",
		"actions.weld.state == 'x'":       "write actions.weld.ok",
		"actions.weld.ok.x":               "ok has no members",
		"actions.scan-2.result == 7":      "bad number syntax",
		"job":                             "write job.id",
		"job.scope == 'x'":                "write job.id",
		"job.id.x == 1":                   "id has no members",
		"step":                            "write step.t",
		"step.x":                          "write step.t",
		"step.t.x == 1":                   "t has no members",
		"step.t[job.id] == 1":             "t has no members",
		"$env.job.id == 'x'":              "unknown name",
		"5":                               "is not true or false",
		"'x'":                             "is not true or false",
		"[true]":                          "is not true or false",
		"nil":                             "is not true or false",
		"1 + 1":                           "is not true or false",
		"-step.t":                         "is not true or false",
		"len(job.id)":                     "is not true or false",
		"len(torque)":                     `unknown name "torque"`,
		"not 5":                           "is not true or false",
		"int(nil) > job.parameters.count": "invalid argument for int (type nil)",
		"job.parameters.n == 89490200001234567890":   "the number 89490200001234567890 has more digits than an expression keeps: compare with a parameter of the order instead",
		"job.parameters.n == 9007199254740992.00001": "the number 9007199254740992.00001 has more digits than an expression keeps",
		"job.parameters.n < 1e999":                   "the number 1e999 is out of the range of numbers",
		"job.parameters.n == 014":                    "014 is a number with a leading zero: write it without, or in quotes if it is text",
		"job.parameters.n > -0_1.5":                  "0_1.5 is a number with a leading zero",
		"job.parameters.list[00] == 1":               "00 is a number with a leading zero",
		"'abc'[1] == 'b'":                            `"abc" has no members`,
		"true and 'x'":                               "is not true or false",
		"5 ? true : false":                           "is not true or false",
		"'a' < 5":                                    "mismatched types",
		"now() == nil":                               "the function now cannot be used",
		"all([1], # > 0)":                            "the function all cannot be used",
		"filter([1], true) == nil":                   "the function filter cannot be used",
		"repeat('x', 100) == ''":                     "the function repeat cannot be used",
		"1 in 1..1000000":                            "the operator .. cannot be used",
		"foo() == 1":                                 "unknown function foo",
		"job.id.foo() == 1":                          "unknown function",
		"let x = 1; x == 1":                          "cannot be used",
		"true; true":                                 "cannot be used",
		"{'a': 1} == nil":                            "cannot be used",
		"[1][0:1] == nil":                            "cannot be used",
		"job.id matches job.id":                      "must be a string",
		"job.id matches '('":                         "missing closing",
		"a b":                                        "unexpected",
		"(":                                          "unexpected",
		"'":                                          "literal not terminated",
		"job.parameters.x ==":                        "unexpected",
		"$truth(true, '')":                           "unknown function",
		strings.Repeat("(", 3000) + "true":           "unexpected",
		strings.Repeat("x", 5000):                    "5000 bytes",
		strings.Repeat("true and ", 300) + "true":    "maximum allowed nodes",
	} {
		c, err := compileCondition(text, conditionActions)
		if err == nil || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s: %v, %v; want %q", text, c, err, reason)
		}
	}
}

// The same member of two spellings is one variable, another is another.
func TestReferencesAreTakenOnce(t *testing.T) {
	c, err := compileCondition(`actions.weld.result["a.b"]["c"] == actions.weld.result["a"]["b.c"] and actions.weld.ok and actions['weld'].ok`, conditionActions)
	if err != nil || len(c.refs) != 3 {
		t.Errorf("%+v, %v", c, err)
	}
}

// R041: a part without names that fails is found, unless a constant says that no order comes to it.
func TestConstantFaults(t *testing.T) {
	for text, fault := range map[string]string{
		"true ? job.parameters.a == 1 : 1/0 > 1":           "",
		"false ? 1/0 > 1 : job.parameters.a == 1":          "",
		"1 > 2 ? 1/0 > 1 : job.parameters.a == 1":          "",
		"false and job.parameters.a / (1/0) > 1":           "",
		"true || (1/0 > 1 and job.parameters.a)":           "",
		"(5 ?? (1/0 + job.parameters.a)) > 1":              "",
		"true ? 1/0 > 1 : job.parameters.a == 1":           "1 / 0 > 1 fails for each order: 1 / 0 is a division by zero",
		"false ? job.parameters.a == 1 : 1/0 > 1":          "1 / 0 > 1 fails for each order: 1 / 0 is a division by zero",
		"(1/0 > 1) ? job.parameters.a : job.parameters.b":  "1 / 0 > 1 fails for each order: 1 / 0 is a division by zero",
		"true and job.parameters.a / (1/0) > 1":            "1 / 0 fails for each order: 1 / 0 is a division by zero",
		"false or job.parameters.a / (1/0) > 1":            "1 / 0 fails for each order: 1 / 0 is a division by zero",
		"(nil ?? (1/0 + job.parameters.a)) > 1":            "1 / 0 fails for each order: 1 / 0 is a division by zero",
		"1/0 > 1 and job.parameters.a":                     "1 / 0 > 1 fails for each order: 1 / 0 is a division by zero",
		"job.parameters.a ? job.parameters.b : 1/0 > 1":    "1 / 0 > 1 fails for each order: 1 / 0 is a division by zero",
		"job.parameters.a[1/0] == 5":                       "1 / 0 fails for each order: 1 / 0 is a division by zero",
		"[1, 2, 3][5] == 1":                                "[1, 2, 3][5] == 1 fails for each order: the list has no element 5: its elements are 0 to 2",
		"[1, 2, 3][-4] == job.parameters.a":                "[1, 2, 3][-4] fails for each order: the list has no element -4: its elements are 0 to 2",
		"[1, job.parameters.a][1.5] == 1":                  "[1, job.parameters.a][1.5] fails for each order: an index must be a whole number or a name, and is 1.5",
		"[1, job.parameters.a][2] == 1":                    "[1, job.parameters.a][2] fails for each order: the list has no element 2: its elements are 0 to 1",
		"['x', 'y'][3 / 2] == job.id":                      "[\"x\", \"y\"][3 / 2] fails for each order: an index must be a whole number or a name, and is 1.5",
		"[1, 2]['x'] == job.id":                            "[1, 2].x fails for each order: the index of a list must be a whole number, and is a string",
		"job.parameters.a[1.5] == 1":                       "job.parameters.a[1.5] fails for each order: an index must be a whole number or a name, and is 1.5",
		"job.parameters.a[[1]] == nil":                     "job.parameters.a[[1]] fails for each order: an index must be a whole number or a name, and is an array",
		"(1 / 0)[job.parameters.a] == 1":                   "1 / 0 fails for each order: 1 / 0 is a division by zero",
		"job.parameters.a == 1 or [1, 2, 3][1.0] == 2":     "",
		"false and [1, 2, 3][5] == job.parameters.a":       "",
		"job.parameters.a in [1, abs(2 % 0), 'x'] or true": "[1, abs(2 % 0), \"x\"] fails for each order: the right operand of % is 0",
	} {
		c, err := compileCondition(text, nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := ""
		if c.fault != nil {
			got = c.fault.Error()
		}
		if got != fault {
			t.Errorf("%s: %q, want %q", text, got, fault)
		}
	}
}
