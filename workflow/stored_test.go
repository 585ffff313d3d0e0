package workflow

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// What is stored of an event is the event, to the microsecond.
func TestStoredEvents(t *testing.T) {
	c := &Client{opts: Options{MaxEvent: 1 << 20}}
	rapid.Check(t, func(t *rapid.T) {
		at := func(name string) time.Time {
			return time.UnixMicro(rapid.Int64Range(-1e15, 4e15).Draw(t, name)).UTC()
		}
		e := Event{ID: rapid.StringN(1, 20, 80).Draw(t, "id"), Type: rapid.StringN(1, 20, 80).Draw(t, "type"), Sequence: rapid.Int64Min(0).Draw(t, "sequence"), Ref: rapid.Int64().Draw(t, "ref"), Time: at("time")}
		if rapid.Bool().Draw(t, "visible") {
			v := at("visible at")
			e.VisibleAt = &v
		}
		if rapid.Bool().Draw(t, "data") {
			e.Data, _ = json.Marshal(map[string]any{rapid.String().Draw(t, "name"): rapid.String().Draw(t, "value")})
		}
		text, err := c.encode("event", e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeEvent(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if d := cmp.Diff(e, got); d != "" {
			t.Errorf("%s: %s", text, d)
		}
	})
}

// What appendEvent writes is not read as JSON. What is written otherwise is.
func TestScan(t *testing.T) {
	for text, want := range map[string]bool{
		`{"i":"1","t":"Started","s":1,"r":-2,"at":5,"v":6,"d":{"a":1}}`: true,
		`{"i":"1","t":"Started","at":-5}`:                               true,
		`{"i":"1","t":"Started","at":5,"d":null}`:                       true,
		`{"i":"1","t":"Started"}`:                                       false,
		`{"i":"1","t":"Started","at":5,"d":{"a":1},"new":true}`:         false,
		`{"i":"1","t":"Started","at":5,"d":{"a":1}`:                     false,
		`{"i":"1","t":"Started","at":5,"new":true}`:                     false,
		`{"i":"1","t":"Started","at":5,"d":}`:                           false,
		`{"i":"1","t":"Started","at":05}`:                               false,
		`{"i":"1","t":"Started","at":5.0}`:                              false,
		`{"i":"\u0031","t":"Started","at":5}`:                           false,
		`{"t":"Started","i":"1","at":5}`:                                false,
		`{"i":"1","t":"Stärted","at":5}`:                                false,
		``:                                                              false,
	} {
		if _, got := scan(text); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}

func TestStoredEventsAreOneLine(t *testing.T) {
	c := &Client{opts: Options{MaxEvent: 1 << 20}}
	text, err := c.encode("event", Event{ID: "a\nb", Type: "t", Data: json.RawMessage("{\n \"a\": 1\r\n}")})
	if want := `{"i":"a\nb","t":"t","at":-62135596800000000,"d":{"a":1}}`; text != want || err != nil {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	for _, wrong := range []string{"", "{", `{"i":1}`, "[]"} {
		if e, err := decodeEvent(wrong); err == nil {
			t.Errorf("%q is %+v", wrong, e)
		}
	}
}

// Whatever is stored under our name, reading it neither fails badly nor loses what it has.
func FuzzStoredEvent(f *testing.F) {
	f.Add(`{"i":"1","t":"Started","s":1,"at":5,"d":{"a":1},"new":true}`)
	f.Add(`{"i":"1","t":"Started","s":1,"r":2,"at":5,"v":6,"d":{"a":1}}`)
	c := &Client{opts: Options{MaxEvent: 1 << 30}}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := decodeEvent(text)
		if quick, ok := scan(text); ok {
			var s stored
			if err := json.Unmarshal([]byte(text), &s); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			quick.Data = bytes.TrimSpace(quick.Data)
			if d := cmp.Diff(s.event(), quick, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("%s: %s", text, d)
			}
		}
		if err != nil {
			return
		}
		again, err := c.encode("event", e)
		if err != nil {
			return // a name that is refused
		}
		if got, err := decodeEvent(again); err != nil || got.ID != e.ID || got.Sequence != e.Sequence || !got.Time.Equal(e.Time) {
			t.Errorf("%s: %+v, %v, was %+v", again, got, err, e)
		}
	})
}
