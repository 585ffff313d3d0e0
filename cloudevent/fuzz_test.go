package cloudevent

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzUnmarshalJSON: reading the structured form never panics; whatever came out of it, complete or not, is written as
// something that reads as the same.
func FuzzUnmarshalJSON(f *testing.F) {
	for _, text := range []string{
		``, `{}`, `null`, `[]`, `{"id":"1","source":"s","specversion":"1.0","type":"t","data":{"a":[1,null]}}`,
		`{"data":"<a/>","datacontenttype":"text/xml"}`, `{"data_base64":"eyJS\nZXR1\n","datacontenttype":"application/json"}`,
		`{"mdcserrorkind":"TIMEOUT","mdcserrorcontext":"a=1,b,c=,=d"}`, `{"expiryinterval":60,"x":{"y":1},"ce-ce-id":"z"}`,
		`{"data":"\ud800","a\u0000":"b"}`, `{"mdcserrorcontext":",","mdcserrormessage":"\n","mdcserrorkind":""}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var e Event
		if err := e.UnmarshalJSON(text); err != nil {
			wantError(t, err)
		}
		roundTrip(t, e)
	})
}

// FuzzSetAttribute: no pair of name and value panics; what is refused leaves the event as it was; what is accepted is
// written as something that reads as the same, by Attributes and by the structured form.
func FuzzSetAttribute(f *testing.F) {
	for _, a := range new(Event).envelope() {
		f.Add(a.Name, "1", "mdcserrorkind", "TIMEOUT")
	}
	f.Add("data", "x", "ce-data", "y")
	f.Add("custommetadata", "x", "transportmetadata", "y")
	f.Add("mdcserrorcontext", "a=1,b,c=d", "mdcserrormessage", "\n")
	f.Add("ce-ce-", "", "\xff", "\uFFFF")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		var e Event
		for _, a := range []Attribute{{name1, value1}, {name2, value2}} {
			before := e
			if err := e.SetAttribute(a.Name, a.Value); err != nil {
				wantError(t, err)
				if diff := cmp.Diff(before, e); diff != "" {
					t.Fatal(diff)
				}
			}
		}
		if diff := cmp.Diff(e, sent(t, e)); diff != "" {
			t.Fatal(diff)
		}
		if err := e.Check(); err != nil {
			wantError(t, err)
		}
		roundTrip(t, e)
	})
}

// sent is what arrives of e by its attributes, each of which is fit to be sent.
func sent(t *testing.T, e Event) (back Event) {
	t.Helper()
	for a := range e.Attributes() {
		if len(a.Value) > MaxValue || unfit(a.Value) || unfit(a.Name) || a.Name == "" {
			t.Fatalf("%q=%q is not fit to be sent", a.Name, a.Value)
		}
		if err := back.SetAttribute(a.Name, a.Value); err != nil {
			t.Fatal(err)
		}
	}
	return back
}

func wantError(t *testing.T, err error) {
	t.Helper()
	if refused, ok := errors.AsType[*Error](err); !ok || refused == nil || refused.Kind == "" || refused.Message == "" {
		t.Fatalf("%#v", err)
	}
}

func roundTrip(t *testing.T, e Event) {
	t.Helper()
	text, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var back Event
	if err := back.UnmarshalJSON(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if diff := cmp.Diff(normal(e), back); diff != "" {
		t.Fatalf("%s: %s", text, diff)
	}
	again, err := back.MarshalJSON()
	if err != nil || !bytes.Equal(text, again) {
		t.Fatalf("%s\n%s\n%v", text, again, err)
	}
}

func BenchmarkMarshalJSON(b *testing.B) {
	body, err := os.ReadFile("testdata/envelopes.json")
	if err != nil {
		b.Fatal(err)
	}
	e := request().Reply(body, "urn:schema", "urn:example:dcs", now)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.MarshalJSON(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAttributes(b *testing.B) {
	e := request().Reply([]byte(`{"ReturnStatus":1}`), "urn:schema", "urn:example:dcs", now)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for range e.Attributes() {
			n++
		}
		if n != 12 {
			b.Fatal(n)
		}
	}
}
