package cloudevent

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJSONForm(t *testing.T) {
	for _, tc := range []struct {
		name string
		e    Event
		want string
	}{
		{"zero", Event{}, `{}`},
		{"reply", Event{
			ID: "1", Source: "s", SpecVersion: "1.0", Type: "t", DataContentType: ContentTypeJSON, ExpiryInterval: 60,
			ErrorKind: KindTimeout, ErrorMessage: "late", ErrorContext: map[string]string{"a": "b"}, Method: "DELETE",
			Extensions: map[string]string{"plant": "p\"1", "n": "1"}, Data: []byte("{ \"b\": 1.50,\n\"a\": [] }"),
		}, `{"data":{"b":1.50,"a":[]},"id":"1","source":"s","specversion":"1.0","type":"t",` +
			`"datacontenttype":"application/json; charset=utf-8","expiryinterval":60,"mdcserrorkind":"TIMEOUT",` +
			`"mdcserrormessage":"late","mdcserrorcontext":"a=b","method":"DELETE","n":"1","plant":"p\"1"}`},
		{"no content type, JSON", Event{Data: []byte(`[1]`)}, `{"data":[1]}`},
		{"no content type, white space", Event{Data: []byte(`[1] `)}, `{"data_base64":"WzFdIA=="}`},
		{"binary", Event{DataContentType: "application/msgpack", Data: []byte(`1`)}, `{"data_base64":"MQ==","datacontenttype":"application/msgpack"}`},
		{"JSON that is none", Event{DataContentType: ContentTypeJSON, Data: []byte(`{`)},
			`{"data_base64":"ew==","datacontenttype":"application/json; charset=utf-8"}`},
		{"null", Event{Data: []byte(`null`)}, `{"data_base64":"bnVsbA=="}`},
		{"not UTF-8", Event{Data: []byte("\"\xff\"")}, `{"data_base64":"Iv8i"}`},
		{"delivery stays", Event{ID: "1", Delivery: Delivery{Topic: "t", QoS: 1}}, `{"id":"1"}`},
		{"empty data", Event{Data: []byte{}}, `{}`},
	} {
		text, err := tc.e.MarshalJSON()
		if err != nil || string(text) != tc.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", tc.name, text, err, tc.want)
		}
		roundTrip(t, tc.e)
	}
}

// normal is e as it comes back: without transport facts, with its JSON body compact.
func normal(e Event) Event {
	e.Delivery = Delivery{}
	if len(e.Data) == 0 {
		e.Data = nil
	}
	if body, ok := e.appendJSON(nil); ok && e.Data != nil {
		e.Data = body
	}
	return e
}

func TestUnmarshalJSON(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     Event
	}{
		{"scalars", `{"id":12,"specversion":1.0,"subject":true,"expiryinterval":"60","time":null}`,
			Event{ID: "12", SpecVersion: "1.0", Subject: "true", ExpiryInterval: 60}},
		{"extensions", `{"a":{"z": 2},"b":[1, null],"c":1e3,"d":null,"e":false}`,
			Event{Extensions: map[string]string{"a": `{"z":2}`, "b": `[1,null]`, "c": "1e3", "e": "false"}}},
		{"text body", `{"data":"<a/>","datacontenttype":"application/xml"}`, Event{Data: []byte("<a/>"), DataContentType: "application/xml"}},
		{"empty text body", `{"data":"","datacontenttype":"text/plain"}`, Event{DataContentType: "text/plain"}},
		{"JSON text body", `{"data":"a"}`, Event{Data: []byte(`"a"`)}},
		{"object of another type", `{"data":{"a": 1},"datacontenttype":"application/xml"}`,
			Event{Data: []byte(`{"a":1}`), DataContentType: "application/xml"}},
		{"MIME Base64", `{"data_base64":"eyJS\nZXR1\n"}`, Event{Data: []byte(`{"Retu`)}},
		{"null body", `{"data":null,"data_base64":null}`, Event{}},
		{"prefix", `{"ce-id":"prefixed","id":"plain","ce-x":"y"}`, Event{ID: "plain", Extensions: map[string]string{"x": "y"}}},
		{"last of two", `{"id":"a","id":"b"}`, Event{ID: "b"}},
	} {
		e := Event{ID: "old", Delivery: Delivery{Topic: "old"}}
		if err := json.Unmarshal([]byte(tc.in), &e); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if diff := cmp.Diff(tc.want, e); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// Whatever is wrong is an *Error, and what could be read is there to answer it.
func TestUnmarshalJSONErrorsD1D14(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		kind     ErrorKind
		id       string
	}{
		{"array", `[]`, KindPayloadInvalid, ""},
		{"null", `null`, KindPayloadInvalid, ""},
		{"data twice", `{"id":"1","data":1,"data_base64":"MQ=="}`, KindPayloadInvalid, "1"},
		{"bad Base64", `{"id":"1","data_base64":"?"}`, KindPayloadInvalid, "1"},
		{"Base64 that is no text", `{"id":"1","data_base64":[1]}`, KindPayloadInvalid, "1"},
		{"custom metadata", `{"custommetadata":{},"id":"1"}`, KindUserPropertyInvalid, "1"},
		{"transport metadata", `{"transportmetadata":"x","id":"1"}`, KindUserPropertyInvalid, "1"},
		{"object for text", `{"subject":{},"id":"1","type":"t"}`, KindUserPropertyInvalid, "1"},
		{"bad expiry", `{"expiryinterval":-1,"id":"1"}`, KindUserPropertyInvalid, "1"},
		{"control character", `{"a\u0000":"x","id":"1"}`, KindUserPropertyInvalid, "1"},
		{"too many", `{"id":"1"` + manyMembers() + `}`, KindResourceExhausted, "1"},
	} {
		var e Event
		err := json.Unmarshal([]byte(tc.in), &e)
		refused, ok := errors.AsType[*Error](err)
		if !ok || refused.Kind != tc.kind || e.ID != tc.id {
			t.Errorf("%s: %v, id %q; want %s, %q", tc.name, err, e.ID, tc.kind, tc.id)
		}
	}
	var e Event
	if err := e.UnmarshalJSON([]byte(`{"id"`)); err == nil || kindOf(err) != KindPayloadInvalid {
		t.Error(err)
	}
}

func manyMembers() string {
	var out strings.Builder
	for i := range MaxExtensions + 1 {
		out.WriteString(`,"x` + string(rune('a'+i/26)) + string(rune('a'+i%26)) + `":"1"`)
	}
	return out.String()
}

// The envelopes of the captured exchange (testdata/envelopes.json) come in and go out with the same attributes.
func TestCapturedEnvelopes(t *testing.T) {
	text, err := os.ReadFile("testdata/envelopes.json")
	if err != nil {
		t.Fatal(err)
	}
	var captured []struct {
		Name           string
		UserProperties [][2]string
	}
	if err := json.Unmarshal(text, &captured); err != nil {
		t.Fatal(err)
	}
	for _, c := range captured {
		var e Event
		got := make(map[string]string)
		want := make(map[string]string)
		for _, p := range c.UserProperties {
			want[p[0]] = p[1]
			if err := e.SetAttribute(p[0], p[1]); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
		for a := range e.Attributes() {
			got[a.Name] = a.Value
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", c.Name, diff)
		}
		if len(e.Extensions) > 0 {
			t.Errorf("%s: extensions %v", c.Name, e.Extensions)
		}
		if hasType := e.Type != ""; (e.Check() == nil) != hasType { // the metadata event has none
			t.Errorf("%s: %v", c.Name, e.Check())
		}
		roundTrip(t, e)
	}
	if len(captured) < 4 {
		t.Error("few envelopes")
	}
}
