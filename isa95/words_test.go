package isa95

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv/golden"
)

// Names that would name another key, or break a topic, are refused; also because one such name
// stopped the publisher at every start. Names with dots, blanks and quotes are harmless, for nothing here is
// made by pasting text; they pass and come back as they were.
func TestNamesD6D20EP9ES14(t *testing.T) {
	good := []string{
		"JO-7", "m42", "other.line", "a b", `say "hi"`, "{takt}", "äöü-工单", "list", "changes", "_globals", "byorders", "a:b",
		strings.Repeat("x", 128), strings.Repeat("ä", 64), "None", "$share", "\U0001F680",
	}
	bad := map[string]string{
		"":                            "empty",
		strings.Repeat("x", 129):      "128 bytes",
		strings.Repeat("ä", 64) + "x": "128 bytes",
		"a\xffb":                      "UTF-8",
		"a/b":                         "topic",
		"a+b":                         "topic",
		"#":                           "topic",
		"a\x00b":                      "control",
		"a\nb":                        "control",
		"a\u0085b":                    "control",
		"a\uFFFFb":                    "non-characters",
		"a\uFDD0b":                    "non-characters",
		"a\U0001FFFEb":                "non-characters",
		"list:m42":                    "list:",
		"changes:m42":                 "changes:",
		"bystate:m42:Ended":           "bystate:",
		"_global":                     "_global",
		"byorder":                     "byorder",
	}
	parsers := map[string]func(string) (string, error){
		"JobOrderID":   func(s string) (string, error) { v, err := ParseJobOrderID(s); return string(v), err },
		"WorkMasterID": func(s string) (string, error) { v, err := ParseWorkMasterID(s); return string(v), err },
		"Scope":        func(s string) (string, error) { v, err := ParseScope(s); return string(v), err },
	}
	for kind, parse := range parsers {
		for _, name := range good {
			if got, err := parse(name); err != nil || got != name {
				t.Errorf("%s %q: %q, %v", kind, name, got, err)
			}
		}
		for name, rule := range bad {
			_, err := parse(name)
			var nameErr *NameError
			if !errors.As(err, &nameErr) || nameErr.Kind != kind || !strings.Contains(nameErr.Rule, rule) {
				t.Errorf("%s %q: %v, want a *NameError about %q", kind, name, err, rule)
				continue
			}
			if strings.ContainsAny(err.Error(), "\x00\n\u0085\uFFFF") || len(err.Error()) > 300 {
				t.Errorf("%s: the text of the error is not fit for a log: %q", kind, err)
			}
		}
	}
	for _, name := range []string{"equipment", "processors", "responses", "replies", "private"} {
		_, err := ParseScope(name)
		if err == nil {
			t.Errorf("scope %s passes, but is a topic segment", name)
		}
		if _, err := ParseJobOrderID(name); err != nil {
			t.Errorf("job order id %s: %v", name, err)
		}
	}
	for _, id := range good {
		order := JobOrderAndState{JobOrder: &JobOrder{JobOrderID: id}, State: State{Running, ""}.Elements()}
		var back JobOrderAndState
		if text, err := Marshal(order); err != nil {
			t.Error(err)
		} else if err := Unmarshal(text, &back); err != nil || back.JobOrder.JobOrderID != id {
			t.Errorf("id %q came back as %q, %v", id, back.JobOrder.JobOrderID, err)
		}
	}
}

// A text as score fails the command after others were written, so the score is a number whatever the text.
func TestStartScoreD7ES18(t *testing.T) {
	for text, want := range map[string]float64{
		"":                                 0,
		"yesterday":                        0,
		"2026-13-01T00:00:00Z":             0,
		"1970-01-01T00:00:00Z":             0,
		"2026-05-04T06:00:00Z":             1777874400000,
		"2026-05-04T08:00:00+02:00":        1777874400000,
		"2026-05-04T08:00:00+0200":         1777874400000,
		"2026-05-04T06:00:00.123456+00:00": 1777874400123,
		"2026-05-04T06:00:00,5Z":           1777874400500,
		"2026-05-04T06:00:00":              1777874400000,
		"2026-05-04T06:00:00.123456":       1777874400123,
		"2026-05-04 06:00:00":              1777874400000,
		"2026-05-04 06:00:00Z":             1777874400000,
		"2026-05-04T06:00Z":                1777874400000,
		"2026-05-04":                       1777852800000,
		"1969-12-31T23:59:59Z":             -1000,
	} {
		if got := (&JobResponse{StartTime: text}).StartScore(); got != want {
			t.Errorf("StartScore of %q = %f, want %f", text, got, want)
		}
	}
	if (*JobResponse)(nil).StartScore() != 0 {
		t.Error("a nil response has a score")
	}
}

// G3: the replies of the control methods.
func TestReturnStatus(t *testing.T) {
	for status, want := range map[ReturnStatus]string{
		NoError: `{"ReturnStatus":1}`, UnknownJobOrder: `{"ReturnStatus":2}`, InvalidStatus: `{"ReturnStatus":8}`,
		UnableToAccept: `{"ReturnStatus":16}`, InvalidRequest: `{"ReturnStatus":4294967296}`,
	} {
		if text, err := Marshal(MethodResult{status}); err != nil || string(text) != want || strings.HasPrefix(status.String(), "return status") {
			t.Errorf("%v: %s, %v, want %s", status, text, err, want)
		}
	}
	if s := ReturnStatus(5).String(); s != "return status 5" {
		t.Error(s)
	}
}

// The type ids and schemas, letter by letter, and what becomes of a message with each of them.
func TestTypeIDsAndSchemas(t *testing.T) {
	var text strings.Builder
	for _, m := range append(Methods(), Run, End, ReceiveJobResponse, EndedFromCompletedToClosed, "", "store") {
		byType, found := MethodByTypeID(m.TypeID())
		station, ofStation := StationMethodByTypeID(m.TypeID())
		if found && byType != m || ofStation && station != m {
			t.Errorf("the type of %s is that of %s and %s", m, byType, station)
		}
		fmt.Fprintf(&text, "%q\n  type %s\n  call %s\n  response %s\n  an MES calls it: %t, a station: %t, control: %t, query: %t, takes a job order: %t\n",
			m, m.TypeID(), m.CallSchema(), m.ResponseSchema(), found, ofStation, m.IsControl(), m.IsQuery(), m.TakesJobOrder())
	}
	for _, k := range append(ConfigKinds(), "colour") {
		byType, found := ConfigByTypeID(k.TypeID())
		if found && byType != k {
			t.Errorf("the type of %s is that of %s", k, byType)
		}
		fmt.Fprintf(&text, "configuration %s\n  type %s\n  schema %s\n  known: %t\n", k, k.TypeID(), k.Schema(), found)
	}
	fmt.Fprintf(&text, "status event\n  type %s\n  schema %s\norder and state %s\nresponse %s\n", StatusEventType, StatusEventSchema, SchemaJobOrderAndState, SchemaJobResponse)
	golden.Check(t, "testdata/types.txt", text.String())
}
