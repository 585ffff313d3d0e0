package workflow

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	c := &Client{opts: Options{MaxEvent: 1 << 30}}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := decodeEvent(text)
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
