package isa95

import (
	"errors"
	"slices"
	"strings"
	"testing"
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

func TestReturnStatus(t *testing.T) {
	for status, want := range map[ReturnStatus]uint64{
		NoError: 1, UnknownJobOrder: 2, InvalidStatus: 8, UnableToAccept: 16, InvalidRequest: 4294967296,
	} {
		if uint64(status) != want || strings.HasPrefix(status.String(), "return status") {
			t.Errorf("%v = %d, want %d", status, uint64(status), want)
		}
	}
	if s := ReturnStatus(5).String(); s != "return status 5" {
		t.Error(s)
	}
}

// The type ids and schemas, letter by letter.
func TestTypeIDsAndSchemas(t *testing.T) {
	const j = "https://aschamberger.github.com/schemas/UA/ISA95-JOBCONTROL_V2/v2.0.0/"
	const m = "https://aschamberger.github.com/schemas/UA/Machinery/Jobs/v1.0.1/"
	control := []Method{Store, StoreAndStart, Start, Stop, Pause, Resume, Abort, Cancel, Clear, RevokeStart, Update}
	queries := []Method{RequestJobResponseByJobOrderID, RequestJobResponseByJobOrderState}
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s = %q, want %q", what, got, want)
		}
	}
	for _, x := range control {
		check("type", x.TypeID(), "org.opcfoundation.ISA95-JOBCONTROL_V2."+string(x)+".v2")
		check("call schema", x.CallSchema(), j+"#/$defs/"+string(x)+"Call")
		check("response schema", x.ResponseSchema(), j+"#/$defs/"+string(x)+"Response")
		if !x.IsControl() || x.IsQuery() {
			t.Errorf("%s is not a control method", x)
		}
	}
	for _, x := range queries {
		check("type", x.TypeID(), "org.opcfoundation.Machinery.Jobs."+string(x)+".v1")
		check("call schema", x.CallSchema(), m+"#/$defs/"+string(x)+"Call")
		check("response schema", x.ResponseSchema(), m+"#/$defs/"+string(x)+"Response")
		if x.IsControl() || !x.IsQuery() {
			t.Errorf("%s is not a query", x)
		}
	}
	for _, x := range append(control, queries...) {
		if got, ok := MethodByTypeID(x.TypeID()); !ok || got != x {
			t.Errorf("MethodByTypeID(%s) = %v, %t", x.TypeID(), got, ok)
		}
		if !slices.Contains(Methods(), x) {
			t.Errorf("%s is not in Methods", x)
		}
	}
	if len(Methods()) != 13 {
		t.Errorf("%d methods, want 13", len(Methods()))
	}
	for _, x := range StationMethods() {
		if got, ok := StationMethodByTypeID(x.TypeID()); !ok || got != x || x.ResponseSchema() == "" {
			t.Errorf("StationMethodByTypeID(%s) = %v, %t", x.TypeID(), got, ok)
		}
	}
	for _, x := range []Method{Run, End, ReceiveJobResponse} { // an MES calls none of them
		if got, ok := MethodByTypeID(x.TypeID()); ok || x.IsControl() || x.IsQuery() {
			t.Errorf("%s is a method of an MES: %v", x, got)
		}
	}
	for _, x := range []Method{EndedFromCompletedToClosed, "", "store"} {
		if x.TypeID() != "" || x.CallSchema() != "" || x.ResponseSchema() != "" || x.IsControl() || x.IsQuery() {
			t.Errorf("%q is a method for messages", x)
		}
	}
	if got, ok := MethodByTypeID(""); ok {
		t.Errorf("MethodByTypeID of nothing is %s", got)
	}
	for _, x := range Methods() {
		if want := x == Store || x == StoreAndStart || x == Update; x.TakesJobOrder() != want {
			t.Errorf("%s.TakesJobOrder() = %t", x, !want)
		}
	}
	check("status event", StatusEventType, "org.opcfoundation.ISA95-JOBCONTROL_V2.ISA95JobOrderStatusEventType.v2")
	check("status event schema", StatusEventSchema, j+"#/$defs/ISA95JobOrderStatusEventType")
	check("order and state", SchemaJobOrderAndState, j+"#/$defs/ISA95JobOrderAndStateDataType")
	check("response", SchemaJobResponse, j+"#/$defs/ISA95JobResponseDataType")

	names := []string{"Equipment", "MaterialClass", "MaterialDefinition", "Personnel", "PhysicalAsset", "WorkMaster", "JobAcceptance"}
	for i, k := range ConfigKinds() {
		check("config type", k.TypeID(), "com.github.aschamberger.ISA95-JOBCONTROL_V2.config."+strings.ToLower(names[i])+".v1")
		check("config schema", k.Schema(), j+"Config"+names[i]+"/")
		if got, ok := ConfigByTypeID(k.TypeID()); !ok || got != k {
			t.Errorf("ConfigByTypeID(%s) = %v, %t", k.TypeID(), got, ok)
		}
	}
	if ConfigKind("colour").TypeID() != "" || ConfigKind("colour").Schema() != "" {
		t.Error("a config kind that does not exist has a type")
	}
	if got, ok := ConfigByTypeID(""); ok {
		t.Errorf("ConfigByTypeID of nothing is %s", got)
	}
}
