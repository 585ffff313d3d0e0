package cloudevent

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
)

// kindOf is the kind of an *Error, "" of anything else.
func kindOf(err error) ErrorKind {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Kind
	}
	return ""
}

var now = time.Date(2026, 11, 21, 1, 29, 34, 189_618_999, time.FixedZone("CET", 3600))

func request() Event {
	return Event{
		ID: "req-1", Source: "urn:example:mes", SpecVersion: "1.0", Type: "org.example.Store.v2", Subject: "m42/cam-2",
		CorrelationID: "not a uuid", TraceParent: "00-aa-bb-01", TraceState: "x=1", ExpiryInterval: 30, Method: "PUT",
		Extensions: map[string]string{"plant": "p1"}, Data: []byte(`{}`), DataContentType: "application/msgpack",
		Delivery: Delivery{Topic: "t", ResponseTopic: "mes/resp/1", CorrelationData: []byte{0xff, 0}, QoS: 1, Duplicate: true},
	}
}

// G3: the envelope of a reply; a correlation id is opaque; D21: times in UTC, trace context goes on.
func TestReplyD1D21(t *testing.T) {
	got := request().Reply([]byte(`{"ReturnStatus":1}`), "urn:schema", "urn:example:dcs", now)
	want := Event{
		ID: got.ID, Source: "urn:example:dcs", SpecVersion: "1.0", Type: "org.example.Store.v2", Subject: "m42/cam-2",
		DataContentType: "application/json; charset=utf-8", DataSchema: "urn:schema", RecordedTime: "2026-11-21T00:29:34.189618Z",
		CorrelationID: "not a uuid", CausationID: "req-1", TraceParent: "00-aa-bb-01", TraceState: "x=1",
		Data: []byte(`{"ReturnStatus":1}`), Delivery: Delivery{Topic: "mes/resp/1", CorrelationData: []byte{0xff, 0}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if id, err := uuid.Parse(got.ID); err != nil || id.Version() != 7 {
		t.Errorf("id %s is no UUID v7", got.ID)
	}
	if err := got.Check(); err != nil || got.Err() != nil {
		t.Error(err, got.Err())
	}
}

// A request that fails is answered with a kind, a message and a context.
func TestRefusalD14(t *testing.T) {
	why := &Error{KindPropertyInvalid, "JobOrderID must not be empty", map[string]string{"pointer": "/JobOrder/JobOrderID"}}
	got := request().Refusal(why, "urn:example:dcs", now)
	want := []Attribute{
		{"id", got.ID}, {"source", "urn:example:dcs"}, {"specversion", "1.0"}, {"type", "org.example.Store.v2"},
		{"subject", "m42/cam-2"}, {"traceparent", "00-aa-bb-01"}, {"tracestate", "x=1"},
		{"recordedtime", "2026-11-21T00:29:34.189618Z"}, {"correlationid", "not a uuid"}, {"causationid", "req-1"},
		{"mdcserrorkind", "PROPERTY_INVALID"}, {"mdcserrormessage", "JobOrderID must not be empty"},
		{"mdcserrorcontext", "pointer=/JobOrder/JobOrderID"},
	}
	if diff := cmp.Diff(want, slices.Collect(got.Attributes())); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(why, got.Err()); diff != "" {
		t.Error(diff)
	}
	if got.Data != nil || got.Delivery.Topic != "mes/resp/1" {
		t.Errorf("%+v", got)
	}
	for _, none := range []*Error{nil, {}} {
		e := request().Refusal(none, "s", now)
		if e.ErrorKind != KindUnknownError || e.ErrorMessage != "Unknown error occurred." {
			t.Errorf("%+v", e.Err())
		}
	}
}

func TestCaused(t *testing.T) {
	got := request().Caused("org.example.Event.v2", []byte(`{}`), "urn:schema", "urn:example:dcs", now)
	want := Event{
		ID: got.ID, Source: "urn:example:dcs", SpecVersion: "1.0", Type: "org.example.Event.v2", Subject: "m42",
		DataContentType: ContentTypeJSON, DataSchema: "urn:schema", RecordedTime: "2026-11-21T00:29:34.189618Z",
		CorrelationID: "not a uuid", CausationID: "req-1", TraceParent: "00-aa-bb-01", TraceState: "x=1", Data: []byte(`{}`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNew(t *testing.T) {
	a, b := New("t", "s", "m42", now), New("t", "s", "m42", now)
	if a.ID == b.ID || a.CorrelationID == b.CorrelationID || a.ID == "" || a.CorrelationID == "" {
		t.Error("ids are not new")
	}
	if diff := cmp.Diff(a, b, cmpopts.IgnoreFields(Event{}, "ID", "CorrelationID")); diff != "" {
		t.Error(diff)
	}
	if err := a.Check(); err != nil {
		t.Error(err)
	}
}

func TestScope(t *testing.T) {
	for subject, want := range map[string]string{"": "", "m42": "m42", "m42/cam-2": "m42", "/x": "", "a.b/c/d": "a.b"} {
		if got := (Event{Subject: subject}).Scope(); got != want {
			t.Errorf("scope of %q = %q, want %q", subject, got, want)
		}
	}
}

// Everything set: the order of MicroDCS, extensions last, by name.
func TestAttributesInOrder(t *testing.T) {
	e := Event{
		ID: "1", Source: "2", SpecVersion: "3", Type: "4", DataContentType: "5", DataSchema: "6", Subject: "7", Time: "8",
		TraceParent: "9", TraceState: "10", ExpiryTime: "11", ExpiryInterval: 12, RecordedTime: "13", CorrelationID: "14",
		CausationID: "15", ErrorKind: "16", ErrorMessage: "17", ErrorContext: map[string]string{"b": "2", "a": "1"}, Method: "19",
		Extensions: map[string]string{"z": "21", "a": "20", "empty": "", "id": "never", "data": "never", "ce-x": "never"},
	}
	want := []Attribute{
		{"id", "1"}, {"source", "2"}, {"specversion", "3"}, {"type", "4"}, {"datacontenttype", "5"}, {"dataschema", "6"},
		{"subject", "7"}, {"time", "8"}, {"traceparent", "9"}, {"tracestate", "10"}, {"expirytime", "11"},
		{"expiryinterval", "12"}, {"recordedtime", "13"}, {"correlationid", "14"}, {"causationid", "15"},
		{"mdcserrorkind", "16"}, {"mdcserrormessage", "17"}, {"mdcserrorcontext", "a=1,b=2"}, {"method", "19"},
		{"a", "20"}, {"empty", ""}, {"z", "21"},
	}
	if diff := cmp.Diff(want, slices.Collect(e.Attributes())); diff != "" {
		t.Error(diff)
	}
	back := sent(t, e)
	for _, name := range []string{"id", "data", "ce-x"} {
		delete(e.Extensions, name)
	}
	if diff := cmp.Diff(e, back); diff != "" {
		t.Error(diff)
	}
	if n := len(slices.Collect(new(Event).Attributes())); n != 0 {
		t.Errorf("the zero event has %d attributes", n)
	}
}

// The names data, custommetadata and transportmetadata as user properties stopped the process or replaced the
// body. What is wrong with an attribute has a kind and says what it must be.
func TestSetAttributeRefusesD1D14D32(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		kind        ErrorKind
	}{
		{"data", "x", KindUserPropertyInvalid},
		{"data_base64", "x", KindUserPropertyInvalid},
		{"custommetadata", "x", KindUserPropertyInvalid},
		{"transportmetadata", "x", KindUserPropertyInvalid},
		{"ce-data", "x", KindUserPropertyInvalid},
		{"ce-ce-transportmetadata", "x", KindUserPropertyInvalid},
		{"", "x", KindUserPropertyInvalid},
		{"ce-", "x", KindUserPropertyInvalid},
		{strings.Repeat("x", 65), "x", KindUserPropertyInvalid},
		{"a\x00", "x", KindUserPropertyInvalid},
		{"a\xff", "x", KindUserPropertyInvalid},
		{"a", "\x07", KindUserPropertyInvalid},
		{"a", strings.Repeat("x", MaxValue+1), KindUserPropertyInvalid},
		{"id", "\uFFFF", KindUserPropertyInvalid},
		{"id", strings.Repeat("ä", MaxValue), KindUserPropertyInvalid},
		{"mdcserrorkind", "\x00", KindUserPropertyInvalid},
		{"expiryinterval", "-1", KindUserPropertyInvalid},
		{"expiryinterval", "1.5", KindUserPropertyInvalid},
		{"expiryinterval", "4294967296", KindUserPropertyInvalid},
		{"expiryinterval", "soon", KindUserPropertyInvalid},
	} {
		e := request()
		err := e.SetAttribute(tc.name, tc.value)
		refused, ok := errors.AsType[*Error](err)
		if !ok || refused.Kind != tc.kind || refused.Context["rule"] == "" {
			t.Errorf("%.20q=%.20q: %v, want %s", tc.name, tc.value, err, tc.kind)
			continue
		}
		if unfit(refused.Error()) || len(refused.Error()) > 600 {
			t.Errorf("not fit to be sent back: %q", refused.Error())
		}
		if diff := cmp.Diff(request(), e); diff != "" {
			t.Errorf("%s changed the event: %s", tc.name, diff)
		}
	}
	var e Event
	for i := range MaxExtensions {
		if err := e.SetAttribute("x"+strings.Repeat("y", i%60)+string(rune('a'+i%26)), "v"); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := e.SetAttribute("onemore", "v"); err == nil || kindOf(err) != KindResourceExhausted {
		t.Error("no limit of extensions:", err)
	}
	if err := e.SetAttribute("xa", "changed"); err != nil || e.Extensions["xa"] != "changed" {
		t.Error("an extension cannot be replaced at the limit:", err)
	}
}

func TestSetAttributeAccepts(t *testing.T) {
	var e Event
	for _, a := range []Attribute{
		{"id", "first"}, {"id", "second"}, {"ce-source", "s"}, {"expiryinterval", "60"}, {"subject", "m42"}, {"subject", ""},
		{"correlationid", "not a uuid"}, {"ID", "case matters"}, {"x", ""}, {"mdcserrorkind", "NEW_KIND"},
		{"mdcserrorcontext", "a=b=c,d,e=,f"},
	} {
		if err := e.SetAttribute(a.Name, a.Value); err != nil {
			t.Error(err)
		}
	}
	want := Event{
		ID: "second", Source: "s", ExpiryInterval: 60, CorrelationID: "not a uuid", ErrorKind: "NEW_KIND",
		ErrorMessage: "Unknown error occurred.", ErrorContext: map[string]string{"a": "b=c,d", "e": ",f"},
		Extensions: map[string]string{"ID": "case matters", "x": ""},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
	for _, a := range []Attribute{
		{"mdcserrormessage", "line\nline"}, {"mdcserrorcontext", ""}, {"expiryinterval", ""},
	} {
		if err := e.SetAttribute(a.Name, a.Value); err != nil {
			t.Error(err)
		}
	}
	if e.ErrorMessage != "line\uFFFDline" || e.ErrorContext != nil || e.ExpiryInterval != 0 {
		t.Errorf("%+v", e)
	}
	if err := e.SetAttribute("mdcserrormessage", ""); err != nil || e.ErrorMessage != "Unknown error occurred." {
		t.Errorf("%q, %v", e.ErrorMessage, err)
	}
}

func TestErrorContextText(t *testing.T) {
	for _, tc := range []struct {
		context map[string]string
		text    string
		back    map[string]string
	}{
		{nil, "", nil},
		{map[string]string{"k": "v", "a": "b"}, "a=b,k=v", map[string]string{"k": "v", "a": "b"}},
		{map[string]string{"k": "a=b"}, "k=a=b", map[string]string{"k": "a=b"}},
		{map[string]string{"k": "a,b"}, "k=a,b", map[string]string{"k": "a,b"}},
		{map[string]string{"k": "a,b=c"}, "k=a;b=c", map[string]string{"k": "a;b=c"}},
		{map[string]string{"k=,": "v"}, "k__=v", map[string]string{"k__": "v"}},
		{map[string]string{"": ""}, "=", map[string]string{"": ""}},
	} {
		text := formatContext(tc.context)
		if text != tc.text {
			t.Errorf("%v: %q, want %q", tc.context, text, tc.text)
		}
		if back := parseContext(text); !maps.Equal(back, tc.back) {
			t.Errorf("%q: %v, want %v", text, back, tc.back)
		}
	}
}

func TestCheck(t *testing.T) {
	change := func(f func(*Event)) Event {
		e := request()
		f(&e)
		return e
	}
	many := make(map[string]string)
	for i := range MaxExtensions + 1 {
		many[strings.Repeat("x", i%60+1)+string(rune('a'+i%26))] = ""
	}
	for name, tc := range map[string]struct {
		e    Event
		kind ErrorKind
	}{
		"good":              {request(), ""},
		"zero":              {Event{}, KindMissingUserProperty},
		"no id":             {change(func(e *Event) { e.ID = "" }), KindMissingUserProperty},
		"no source":         {change(func(e *Event) { e.Source = "" }), KindMissingUserProperty},
		"no type":           {change(func(e *Event) { e.Type = "" }), KindMissingUserProperty},
		"version":           {change(func(e *Event) { e.SpecVersion = "0.3" }), KindUnsupportedVersion},
		"expiry":            {change(func(e *Event) { e.ExpiryInterval = -1 }), KindUserPropertyInvalid},
		"long expiry":       {change(func(e *Event) { e.ExpiryInterval = 1 << 32 }), KindUserPropertyInvalid},
		"control character": {change(func(e *Event) { e.Subject = "m42\n" }), KindUserPropertyInvalid},
		"long":              {change(func(e *Event) { e.ID = strings.Repeat("x", MaxValue+1) }), KindUserPropertyInvalid},
		"error kind":        {change(func(e *Event) { e.ErrorKind = "\n" }), KindUserPropertyInvalid},
		"extension name":    {change(func(e *Event) { e.Extensions = map[string]string{"id": "x"} }), KindUserPropertyInvalid},
		"extension value":   {change(func(e *Event) { e.Extensions = map[string]string{"x": "\x00"} }), KindUserPropertyInvalid},
		"extensions":        {change(func(e *Event) { e.Extensions = many }), KindResourceExhausted},
	} {
		err := tc.e.Check()
		if kindOf(err) != tc.kind {
			t.Errorf("%s: %v, want %s", name, err, tc.kind)
		}
	}
	// What is sent of an error is cut and cleaned, so that it passes the check of whoever gets it.
	e := request().Refusal(&Error{KindPayloadInvalid, strings.Repeat("ä\x00", 9000), map[string]string{"v": "\xff\uFFFE"}}, "s", now)
	back := sent(t, e)
	if err := back.Check(); err != nil {
		t.Error(err)
	}
}

func TestIsJSON(t *testing.T) {
	for contentType, want := range map[string]bool{
		"application/json":                   true,
		"application/json; charset=utf-8":    true,
		"application/json;charset=utf-8":     true,
		`Application/JSON; Charset="UTF-8"`:  true,
		"application/vnd.acme+json":          true,
		"application/cloudevents+json; a=b":  true,
		"application/json; charset=us-ascii": true,
		"application/json; charset=utf-16":   false,
		"application/json; charset":          false,
		"application/msgpack":                false,
		"application/octet-stream":           false,
		"text/plain":                         false,
		"application/jsonx":                  false,
		"json":                               false,
		"":                                   false,
		"\x00":                               false,
	} {
		if got := IsJSON(contentType); got != want {
			t.Errorf("IsJSON(%q) = %t", contentType, got)
		}
	}
}

// The vocabulary of MicroDCS, letter by letter.
func TestErrorKindsD14(t *testing.T) {
	const words = `CONFIGURATION_INVALID NO_MATCHING_SUBSCRIBERS TIMEOUT UNSUPPORTED_CONTENT_TYPE UNKNOWN_PAYLOAD_TYPE
		MISSING_PROPERTY MISSING_USER_PROPERTY PROPERTY_INVALID USER_PROPERTY_INVALID PAYLOAD_INVALID STATE_INVALID CANCELLATION
		INTERNAL_LOGIC_ERROR NOT_IMPLEMENTED SERVICE_UNAVAILABLE COMMUNICATION_ERROR RESOURCE_EXHAUSTED PERMISSION_DENIED
		UNSUPPORTED_VERSION UNKNOWN_ERROR`
	var got []string
	for _, k := range Kinds() {
		got = append(got, string(k))
	}
	if diff := cmp.Diff(strings.Fields(words), got); diff != "" {
		t.Error(diff)
	}
	if text := Errorf(KindTimeout, "after %d s", 3).Error(); text != "TIMEOUT: after 3 s" {
		t.Error(text)
	}
	if text := (&Error{Kind: KindTimeout, Context: map[string]string{"b": "2\n", "a": "1"}}).Error(); text !=
		`TIMEOUT: Unknown error occurred. (a="1", b="2\n")` {
		t.Error(text)
	}
	if e := (Event{ErrorKind: KindTimeout}).Err(); e.Message != "Unknown error occurred." {
		t.Error(e)
	}
}

// An error kind that is there and empty says that something failed: it must not be taken for a success, also beside another of its name.
func TestEmptyErrorKindIsAnError(t *testing.T) {
	for name, test := range map[string]struct {
		kinds []string
		want  ErrorKind
	}{
		"alone":          {[]string{""}, KindUnknownError},
		"after a kind":   {[]string{"STATE_INVALID", ""}, KindStateInvalid},
		"before a kind":  {[]string{"", "STATE_INVALID"}, KindStateInvalid},
		"not there":      {nil, ""},
		"a kind as such": {[]string{"TIMEOUT"}, KindTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			var e Event
			for _, kind := range test.kinds {
				if err := e.SetAttribute("mdcserrorkind", kind); err != nil {
					t.Fatal(err)
				}
			}
			if err := e.Err(); e.ErrorKind != test.want || (err != nil) != (test.want != "") {
				t.Errorf("%q, %v, want %q", e.ErrorKind, err, test.want)
			}
		})
	}
}
