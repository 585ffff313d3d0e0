package isa95

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// decodeInto reads text into a new T and writes it again.
func decodeInto[T any](t *testing.T, text string) string {
	t.Helper()
	var v T
	if err := Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	out, err := Marshal(v)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return string(out)
}

// The leniency of MicroDCS: left what comes in, right what is written again.
func TestUnmarshalLeniency(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"empty body", ``, `{}`},
		{"empty object", ` { } `, `{}`},
		{"snake case", `{"job_order":{"job_order_id":"JO-1","work_master_id":[{"id":"WM-1"}],"start_time":"t"}}`,
			`{"JobOrder":{"JobOrderID":"JO-1","WorkMasterID":[{"ID":"WM-1"}],"StartTime":"t"}}`},
		{"alias wins, first", `{"JobOrder":{"JobOrderID":"alias","job_order_id":"snake"}}`, `{"JobOrder":{"JobOrderID":"alias"}}`},
		{"alias wins, last", `{"JobOrder":{"job_order_id":"snake","JobOrderID":"alias"}}`, `{"JobOrder":{"JobOrderID":"alias"}}`},
		{"alias wins, also when null", `{"JobOrder":{"job_order_id":"snake","JobOrderID":null}}`, `{"JobOrder":{}}`},
		{"alias wins whole", `{"job_order":{"Priority":1},"JobOrder":{"JobOrderID":"a"}}`, `{"JobOrder":{"JobOrderID":"a"}}`},
		{"a snake name that loses is not read", `{"JobOrder":{},"job_order":[1,2]}`, `{"JobOrder":{}}`},
		{"the last of two", `{"JobOrder":{"JobOrderID":"a","Priority":1},"JobOrder":{"JobOrderID":"b"}}`, `{"JobOrder":{"JobOrderID":"b"}}`},
		{"case matters", `{"joborder":{},"JOBORDER":{}}`, `{}`},
		{"unknown members", `{"x":{"y":[1,{"z":null}]},"JobOrder":{"q":1.5e-3,"JobOrderID":"a","r":"\ud800"}}`, `{"JobOrder":{"JobOrderID":"a"}}`},
		{"underscore members", `{"_scope":"m42","JobOrder":{"_dataschema":"x","JobOrderID":"a"},"_normalized_state":[]}`, `{"JobOrder":{"JobOrderID":"a"}}`},
		{"null is absent", `{"JobOrder":{"JobOrderID":null,"Priority":null,"Description":null,"JobOrderParameters":[{"ID":"p","Value":null}]}}`,
			`{"JobOrder":{"JobOrderParameters":[{"ID":"p"}]}}`},
		{"null in an array", `{"Comment":[null]}`, `{"Comment":[{}]}`},
		{"empty arrays stay", `{"JobOrder":{"Description":[],"WorkMasterID":[]},"Comment":[]}`,
			`{"JobOrder":{"Description":[],"WorkMasterID":[]},"Comment":[]}`},
		{"text of scalars", `{"JobOrder":{"JobOrderID":12,"StartTime":-1.50e3,"EndTime":true}}`,
			`{"JobOrder":{"JobOrderID":"12","StartTime":"-1.50e3","EndTime":"true"}}`},
		{"integer text", `{"JobOrder":{"Priority":" 12 "}}`, `{"JobOrder":{"Priority":12}}`},
		{"integer text with sign", `{"JobOrder":{"Priority":"+007"}}`, `{"JobOrder":{"Priority":7}}`},
		{"integer of a bool", `{"JobOrder":{"Priority":true}}`, `{"JobOrder":{"Priority":1}}`},
		{"integer of false", `{"JobOrder":{"Priority":false}}`, `{"JobOrder":{"Priority":0}}`},
		{"integral float", `{"JobOrder":{"Priority":-7.000}}`, `{"JobOrder":{"Priority":-7}}`},
		{"integral exponent", `{"JobOrder":{"Priority":1.25e2}}`, `{"JobOrder":{"Priority":125}}`},
		{"zero in any form", `{"JobOrder":{"Priority":0.00e99999999999999999999}}`, `{"JobOrder":{"Priority":0}}`},
		{"smallest integer", `{"JobOrder":{"Priority":-9223372036854775808}}`, `{"JobOrder":{"Priority":-9223372036854775808}}`},
		{"value untouched", `{"JobOrder":{"JobOrderParameters":[{"Value":{"b":1.0,"a":[null,9007199254740993],"_c":"\u00e4<"}}]}}`,
			`{"JobOrder":{"JobOrderParameters":[{"Value":{"b":1.0,"a":[null,9007199254740993],"_c":"\u00e4<"}}]}}`},
		{"value without its white space", `{"JobOrder":{"JobOrderParameters":[{"Value": [ 1 , " a " ] }]}}`,
			`{"JobOrder":{"JobOrderParameters":[{"Value":[1," a "]}]}}`},
		{"escapes", `{"JobOrder":{"JobOrder\u0049D":"a\"\\\/\b\f\n\r\t\u00e4\ud83d\ude80\u0000"}}`,
			`{"JobOrder":{"JobOrderID":"a\"\\/\b\f\n\r\tä🚀\u0000"}}`},
		{"raw non-ASCII", "{\"JobOrder\":{\"JobOrderID\":\"工\u2028<&>\x7f\"}}", "{\"JobOrder\":{\"JobOrderID\":\"工\u2028<&>\x7f\"}}"},
		{"recipe in a job order is dropped", `{"JobOrder":{"WorkMasterID":[{"ID":"W","data":{"Steps":[]}}]}}`, `{"JobOrder":{"WorkMasterID":[{"ID":"W"}]}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := decodeInto[JobOrderCall](t, tc.in); got != tc.want {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestUnmarshalOtherTypes(t *testing.T) {
	for text, want := range map[string]string{
		`{"IsInverse":"no"}`:     `{"IsInverse":true}`,
		`{"IsInverse":""}`:       `{"IsInverse":false}`,
		`{"IsInverse":0.0e1}`:    `{"IsInverse":false}`,
		`{"is_inverse":-0.01}`:   `{"IsInverse":true}`,
		`{"IncludeSubtypes":1}`:  `{"IncludeSubtypes":true}`,
		`{"IsInverse":false}`:    `{"IsInverse":false}`,
		`{"IsInverse":true}`:     `{"IsInverse":true}`,
		`{"ReferenceTypeId":-1}`: `{"ReferenceTypeId":"-1"}`,
	} {
		if got := decodeInto[RelativePathElement](t, text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, c := range [][2]string{
		{decodeInto[WorkMaster](t, `{"data":[1, 2],"data_schema":"no","dataschema":"yes"}`), `{"data":[1,2],"dataschema":"yes"}`},
		{decodeInto[JobOrderIDCall](t, `{"JobOrderID":""}`), `{"JobOrderID":""}`}, // not the same as absent
		{decodeInto[MethodResult](t, `{"ReturnStatus":4294967296}`), `{"ReturnStatus":4294967296}`},
		{decodeInto[MethodResult](t, `{"return_status":"18446744073709551615"}`), `{"ReturnStatus":18446744073709551615}`},
		{decodeInto[JobAcceptance](t, `{"max_downloadable_job_orders":-1}`), `{"max_downloadable_job_orders":-1}`},
	} {
		if c[0] != c[1] {
			t.Errorf("%s, want %s", c[0], c[1])
		}
	}
	// A slice, for an array at top level.
	var elements []StateElement
	if err := Unmarshal([]byte(`[{"state_text":{"text":"Running"}}]`), &elements); err != nil || len(elements) != 1 {
		t.Error(elements, err)
	}
	if err := Unmarshal([]byte(`null`), &elements); err != nil || elements != nil {
		t.Error(elements, err)
	}
}

// Whatever is wrong with a body is an error value that names the place, the value and the rule.
// It is fit to be sent back.
func TestUnmarshalErrorsD1D14(t *testing.T) {
	deep := strings.Repeat(`[`, 65)
	for _, tc := range []struct {
		name, in, pointer, value, rule string
		is                             error
	}{
		{"array at top level", `[1]`, "", "[1]", "object", ErrType},
		{"text at top level", `"x"`, "", `"x"`, "object", ErrType},
		{"null at top level", `null`, "", `null`, "object", ErrType},
		{"white space", ` `, "", ``, "JSON", ErrSyntax},
		{"not JSON", `hello`, "", `hello`, "at byte 0", ErrSyntax},
		{"two values", `{} {}`, "", `{}`, "at byte 3", ErrSyntax},
		{"cut off", `{"JobOrder":{"JobOrderID":"JO`, "/JobOrder/JobOrderID", "", "closing quote", ErrSyntax},
		{"cut off after a name", `{"JobOrder"`, "", "", "colon", ErrSyntax},
		{"cut off in an array", `{"Comment":[{}`, "/Comment", "", "comma or ]", ErrSyntax},
		{"cut off in an object", `{"Comment":[]`, "", "", "comma or }", ErrSyntax},
		{"cut off value", `{"JobOrder":`, "/JobOrder", "", "value", ErrSyntax},
		{"trailing comma", `{"Comment":[],}`, "", "}", "member name", ErrSyntax},
		{"member name that is no text", `{1:2}`, "", "1:2}", "member name", ErrSyntax},
		{"bad member name", `{"a` + "\n" + `":2}`, "", "\uFFFD\":2}", "control", ErrSyntax},
		{"half surrogate in a name", `{"\ud800":2}`, "", `\ud800`, "surrogate", ErrSyntax},
		{"half surrogate", `{"JobOrder":{"JobOrderID":"a\udc00\ud800"}}`, "/JobOrder/JobOrderID", `a\udc00\ud800`, "surrogate", ErrSyntax},
		{"control character", "{\"JobOrder\":{\"JobOrderID\":\"a\x01\"}}", "/JobOrder/JobOrderID", "\uFFFD\"}}", "control", ErrSyntax},
		{"not UTF-8", "{\"JobOrder\":{\"JobOrderID\":\"a\xff\"}}", "/JobOrder/JobOrderID", "\"a\uFFFD\"}}", "UTF-8", ErrSyntax},
		{"bad escape", `{"JobOrder":{"JobOrderID":"\x"}}`, "/JobOrder/JobOrderID", `\x"}}`, "escape", ErrSyntax},
		{"bad escape u", `{"JobOrder":{"JobOrderID":"\u12G4"}}`, "/JobOrder/JobOrderID", `\u12G4"}}`, "escape", ErrSyntax},
		{"leading zero", `{"JobOrder":{"Priority":01}}`, "/JobOrder", "1}}", "comma", ErrSyntax},
		{"plus sign", `{"JobOrder":{"Priority":+1}}`, "/JobOrder/Priority", "+1}}", "value", ErrSyntax},
		{"no digits after the point", `{"JobOrder":{"Priority":1.}}`, "/JobOrder/Priority", "}}", "digit", ErrSyntax},
		{"no digits in the exponent", `{"JobOrder":{"Priority":1e+}}`, "/JobOrder/Priority", "}}", "digit", ErrSyntax},
		{"NaN", `{"JobOrder":{"Priority":NaN}}`, "/JobOrder/Priority", "NaN}}", "value", ErrSyntax},
		{"bad word", `{"JobOrder":nul}`, "/JobOrder", "nul}", "want null", ErrSyntax},
		{"bad word true", `{"JobOrder":{"JobOrderID":tru}}`, "/JobOrder/JobOrderID", "tru}}", "want true", ErrSyntax},
		{"bad unknown member", `{"a~b/c":{"x":}}`, "/a~0b~1c", "}}", "value", ErrSyntax},
		{"bad value of an unused type", `{"JobOrder":[}`, "/JobOrder", "}", "value", ErrSyntax},
		{"bad value in raw", `{"JobOrder":{"JobOrderParameters":[{"Value":[1,]}]}}`, "/JobOrder/JobOrderParameters/0/Value", "]}]}}", "value", ErrSyntax},
		{"text for an integer", `{"JobOrder":{"Priority":"abc"}}`, "/JobOrder/Priority", `"abc"`, "must be an integer", ErrType},
		{"broken text for an integer", `{"JobOrder":{"Priority":"\ud800"}}`, "/JobOrder/Priority", `\ud800`, "surrogate", ErrSyntax},
		{"empty text for an integer", `{"JobOrder":{"Priority":""}}`, "/JobOrder/Priority", `""`, "integer", ErrType},
		{"float text for an integer", `{"JobOrder":{"Priority":"7.0"}}`, "/JobOrder/Priority", `"7.0"`, "integer", ErrType},
		{"lossy float", `{"JobOrder":{"Priority":7.9}}`, "/JobOrder/Priority", `7.9`, "must be an integer", ErrType},
		{"lossy exponent", `{"JobOrder":{"Priority":1e-1}}`, "/JobOrder/Priority", `1e-1`, "must be an integer", ErrType},
		{"tiny", `{"JobOrder":{"Priority":1e-99999999999999999999}}`, "/JobOrder/Priority", `1e-99999999999999999999`, "integer", ErrType},
		{"too large", `{"JobOrder":{"Priority":9223372036854775808}}`, "/JobOrder/Priority", `9223372036854775808`, "64 bits", ErrType},
		{"much too large", `{"JobOrder":{"Priority":1e999999999999}}`, "/JobOrder/Priority", `1e999999999999`, "64 bits", ErrType},
		{"object for an integer", `{"JobOrder":{"Priority":{}}}`, "/JobOrder/Priority", `{}`, "integer", ErrType},
		{"array for text", `{"JobOrder":{"JobOrderID":["a"]}}`, "/JobOrder/JobOrderID", `["a"]`, "must be a string", ErrType},
		{"object for an array", `{"Comment":{"Text":"a"}}`, "/Comment", `{"Text":"a"}`, "must be an array", ErrType},
		{"text for an object", `{"Comment":[{},"a"]}`, "/Comment/1", `"a"`, "must be an object", ErrType},
		{"snake name in the pointer", `{"job_order":{"job_order_parameters":[{},{"subparameters":[1]}]}}`,
			"/job_order/job_order_parameters/1/subparameters/0", "1", "object", ErrType},
		{"long value", `{"JobOrder":["` + strings.Repeat("ä", 99) + `"]}`, "/JobOrder", `["` + strings.Repeat("ä", 39) + "...", "object", ErrType},
		{"depth", `{"x":` + deep, "/x", "", "deeper than 64", ErrLimit},
		{"depth in raw", `{"JobOrder":{"JobOrderParameters":[{"Value":` + deep, "/JobOrder/JobOrderParameters/0/Value", "", "deeper", ErrLimit},
		{"elements", `{"Comment":[` + strings.Repeat(`{},`, 10_000) + `{}]}`, "/Comment", "", "more than 10000", ErrLimit},
		{"elements in raw", `{"JobOrder":{"JobOrderParameters":[{"Value":[` + strings.Repeat(`1,`, 10_000) + `1]}]}}`,
			"/JobOrder/JobOrderParameters/0/Value", "", "more than 10000", ErrLimit},
		{"size", `{"x":"` + strings.Repeat(" ", 1<<20) + `"}`, "", "", "larger than 1048576", ErrLimit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var call JobOrderCall
			err := Unmarshal([]byte(tc.in), &call)
			var decodeErr *DecodeError
			if !errors.As(err, &decodeErr) {
				t.Fatalf("error %v, want a *DecodeError", err)
			}
			if decodeErr.Pointer != tc.pointer || decodeErr.Value != tc.value ||
				!strings.Contains(decodeErr.Rule, tc.rule) || !errors.Is(err, tc.is) {
				t.Errorf("%q %q %q (%v),\nwant %q %q %q (%v)", decodeErr.Pointer, decodeErr.Value, decodeErr.Rule, decodeErr.Err,
					tc.pointer, tc.value, tc.rule, tc.is)
			}
			if text := err.Error(); strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) || len(text) > 400 {
				t.Errorf("not fit to be sent back: %q", text)
			}
		})
	}
	// Nesting and elements right at the limits pass.
	for _, in := range []string{
		`{"x":` + strings.Repeat(`[`, 63) + strings.Repeat(`]`, 63) + `}`,
		`{"Comment":[` + strings.Repeat(`{},`, 9_999) + `{}]}`,
		`{"x":"` + strings.Repeat(" ", 1<<20-8) + `"}`,
	} {
		if err := Unmarshal([]byte(in), new(JobOrderCall)); err != nil {
			t.Error(err)
		}
	}
}

func TestUnmarshalErrorsOfOtherTypes(t *testing.T) {
	for _, tc := range []struct {
		into    any
		in      string
		want    string
		missing bool
	}{
		{new(JobAcceptance), ``, "/max_downloadable_job_orders is required", true},
		{new(JobAcceptance), `{"max_downloadable_job_orders":null}`, "/max_downloadable_job_orders is required", true},
		{new(JobAcceptance), `{"max_downloadable_job_orders":"x"}`, `/max_downloadable_job_orders "x" must be an integer`, false},
		{new(StateIndex), `{"seq":1,"scope":"s"}`, "/published_at is required", true},
		{new(StateIndex), `{"seq":1,"scope":"s","published_at":"t","jobs":[{}]}`, "/jobs/0/job_order_id is required", true},
		{new(StateIndex), `{"seq":1,"scope":"s","published_at":"t","jobs":[{"job_order_id":"a","has_result":[]}]}`,
			"/jobs/0/has_result [] must be true or false", false},
		{new(WorkMaster), `{"data":"{}"}`, `/data "{}" must be an object or an array`, false},
		{new(WorkMaster), `{"data":1}`, `/data 1 must be an object or an array`, false},
		{new(MethodResult), `{"ReturnStatus":-1}`, `/ReturnStatus -1 must be an integer of 64 bits without sign`, false},
		{new(MethodResult), `{"ReturnStatus":[]}`, `/ReturnStatus [] must be an integer`, false},
		{new(MethodResult), `{"ReturnStatus":"\u"}`, `/ReturnStatus \u"} must be JSON: an escape that JSON does not have at byte 17`, false},
		{new(RelativePathElement), `{"IsInverse":tRUE}`, `/IsInverse tRUE} must be JSON: want true at byte 13`, false},
		{new([]StateElement), `{}`, `body {} must be an array`, false},
	} {
		err := Unmarshal([]byte(tc.in), tc.into)
		if err == nil || err.Error() != tc.want || errors.Is(err, ErrMissing) != tc.missing {
			t.Errorf("%T %s: %v, want %s", tc.into, tc.in, err, tc.want)
		}
	}
	for _, v := range []any{nil, JobOrder{}, (*JobOrder)(nil)} {
		if err := Unmarshal([]byte(`{}`), v); err == nil {
			t.Errorf("Unmarshal into %T has no error", v)
		}
	}
}

// A document in its storage form: metadata at the root beside the members of an embedded type (spec 1.4).
type stored struct {
	JobResponse
	DataSchema string         `json:"_dataschema"`
	Note       string         `json:"_note,omitempty"`
	Hidden     string         `json:"-"`
	Ratio      float64        `json:"ratio,omitempty"`
	Small      int8           `json:"small,omitempty"`
	Tags       map[string]int `json:"tags,omitempty"`
	Bytes      []byte         `json:"bytes,omitempty"`
	At         *time.Time     `json:"at"`
	Plain      string
	JobOrderID string `json:"JobOrderID"` // hides that of JobResponse
	secret     string
}

func TestOwnStructs(t *testing.T) {
	// A field hides one of the same member, not one of the same Go name: both schemas of a stored work master stay.
	text, err := Marshal(struct {
		WorkMaster
		DataSchema string `json:"_dataschema"`
	}{WorkMaster{ID: "WM", DataSchema: "recipe"}, "stored"})
	if want := `{"ID":"WM","dataschema":"recipe","_dataschema":"stored"}`; err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
	at := time.Date(2026, 5, 4, 6, 0, 0, 0, time.UTC)
	in := stored{
		JobResponse: JobResponse{JobResponseID: "R", JobOrderID: "hidden"}, DataSchema: "s", Hidden: "h", Ratio: 0.5,
		Small: -3, Tags: map[string]int{"<": 1}, Bytes: []byte("ab"), At: &at, Plain: "p", JobOrderID: "O", secret: "x",
	}
	if text, err = Marshal(&in); err != nil {
		t.Fatal(err)
	}
	const want = `{"JobResponseID":"R","JobOrderID":"O","_dataschema":"s","ratio":0.5,"small":-3,"tags":{"<":1},"bytes":"YWI=",` +
		`"at":"2026-05-04T06:00:00Z","Plain":"p"}`
	if string(text) != want {
		t.Fatalf("\n got %s\nwant %s", text, want)
	}
	var back stored
	if err := Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	again, err := Marshal(back)
	if err != nil || string(again) != want || back.secret != "" {
		t.Errorf("\n got %s, %v\nwant %s", again, err, want)
	}
	for in, rule := range map[string]string{
		`{"small":128}`:     "must be an integer of 8 bits",
		`{"ratio":1e999}`:   "is refused",
		`{"ratio":1.}`:      "want a digit",
		`{"tags":{"a":[]}}`: "is refused",
		`{"tags":{"a":[}}`:  "want a value",
	} {
		if err := Unmarshal([]byte(in), &back); err == nil || !strings.Contains(err.Error(), rule) {
			t.Errorf("%s: %v, want %s", in, err, rule)
		}
	}
}

func TestMarshalErrors(t *testing.T) {
	deep := JobOrder{JobOrderParameters: []Parameter{{ID: "p"}}}
	for range 40 {
		deep.JobOrderParameters = []Parameter{{Subparameters: deep.JobOrderParameters}}
	}
	value := func(raw string) JobOrder {
		return JobOrder{JobOrderParameters: []Parameter{{Value: json.RawMessage(raw)}}}
	}
	for name, tc := range map[string]struct {
		v  any
		is error
	}{
		"raw that is no JSON":   {value(`{`), ErrSyntax},
		"raw of two values":     {value(`1 2`), ErrSyntax},
		"deep":                  {deep, ErrLimit},
		"deep raw":              {value(strings.Repeat(`[`, 62) + strings.Repeat(`]`, 62)), ErrLimit},
		"many":                  {JobOrder{Description: make([]LocalizedText, 10_001)}, ErrLimit},
		"many in raw":           {value(`[` + strings.Repeat(`1,`, 10_000) + `1]`), ErrLimit},
		"large":                 {value(`"` + strings.Repeat(" ", 1<<20) + `"`), ErrLimit},
		"deep in an object":     {[]any{deep}, nil},
		"not a number":          {struct{ X float64 }{math.NaN()}, nil},
		"a channel, of all":     {make(chan int), nil},
		"objects nested deeply": {nest(70), ErrLimit},
	} {
		if out, err := Marshal(tc.v); err == nil || tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%s: %.80s, %v, want %v", name, out, err, tc.is)
		}
	}
}

type nested struct{ N *nested }

func nest(n int) *nested {
	if n == 0 {
		return nil
	}
	return &nested{nest(n - 1)}
}

func TestMarshalSmall(t *testing.T) {
	for _, tc := range []struct {
		v    any
		want string
	}{
		{nil, `null`},
		{(*JobOrder)(nil), `null`},
		{&JobOrder{}, `{}`},
		{JobOrder{JobOrderID: "a\xffb\"\\\n\r\t\x01\u2028"}, "{\"JobOrderID\":\"a\uFFFDb\\\"\\\\\\n\\r\\t\\u0001\u2028\"}"},
		{JobOrder{JobOrderParameters: []Parameter{{Value: json.RawMessage(" null ")}}}, `{"JobOrderParameters":[{}]}`},
		{JobOrder{JobOrderParameters: []Parameter{{Value: json.RawMessage(" 1 ")}}}, `{"JobOrderParameters":[{"Value":1}]}`},
		{JobResponsesResult{JobResponses: []JobResponse{}, ReturnStatus: NoError}, `{"ReturnStatus":1}`},
		{[]*int{nil}, `[null]`},
		{NoError, `1`},
		{true, `true`},
		{map[string]any{"b": 1, "a": "<"}, `{"a":"<","b":1}`},
		{StateIndex{Seq: 1, Scope: "s", PublishedAt: "t"}, `{"seq":1,"scope":"s","published_at":"t","jobs":[]}`},
		{&StateIndexEntry{JobOrderID: "a"}, `{"job_order_id":"a","state":[],"has_result":false}`},
	} {
		if out, err := Marshal(tc.v); err != nil || string(out) != tc.want {
			t.Errorf("Marshal(%#v) = %s, %v, want %s", tc.v, out, err, tc.want)
		}
	}
}

// A scope with very many orders still has an index that can be written and read.
func TestStateIndexHasItsOwnLimits(t *testing.T) {
	index := StateIndex{Seq: 1, Scope: "s", PublishedAt: "t"}
	for i := range 20_000 {
		index.Jobs = append(index.Jobs, StateIndexEntry{JobOrderID: fmt.Sprint("JO-", i), State: State{Running, ""}.Elements()})
	}
	text, err := index.Encode("")
	if err != nil || len(text) < 1<<20 {
		t.Fatal(len(text), err)
	}
	var back StateIndex
	if err := Unmarshal(text, &back); err != nil || len(back.Jobs) != 20_000 {
		t.Fatal(len(back.Jobs), err)
	}
	if err := Unmarshal(bytes.Repeat([]byte(" "), 32<<20+1), &back); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
}

func TestMoreThan64FieldsIsAMistakeOfTheProgram(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	var wide struct {
		A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, B0, B1, B2, B3, B4, B5, B6, B7, B8, B9, C0, C1, C2, C3, C4, C5, C6, C7, C8, C9,
		D0, D1, D2, D3, D4, D5, D6, D7, D8, D9, E0, E1, E2, E3, E4, E5, E6, E7, E8, E9, F0, F1, F2, F3, F4, F5, F6, F7, F8, F9,
		G0, G1, G2, G3, G4 int
	}
	_ = Unmarshal([]byte(`{}`), &wide)
}
