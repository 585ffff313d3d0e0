package cloudevent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// What most events look like is read on a way of its own, to the same end as all others: the same event, or the same error.
func TestPlainEventsAreReadAsAllOthers(t *testing.T) {
	t.Parallel()
	most, err := request().Reply([]byte(`{"ReturnStatus":1}`), "urn:schema", "urn:example:dcs", now).MarshalJSON()
	if err != nil || !new(Event).readPlain(most) {
		t.Errorf("%s is not read as most events are: %v", most, err)
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.RuneFrom([]rune("abcXYZ019-_./:{}[], \"\\<&ü\n")), 0, 12, -1)
		data := rapid.SampledFrom([]string{`{"a":1}`, `[1,{"b":"x,y}"}]`, `{"q":"\"\\"}`, `{"s": 1}`, `null`, `"text"`, `12`, `true`, `{}`, ``, `no JSON`, `{"a":"ü"}`, "{\"a\":\"\x80\"}"})
		e := Event{
			ID: word.Draw(t, "id"), Source: "urn:x", SpecVersion: "1.0", Type: word.Draw(t, "type"), Subject: word.Draw(t, "subject"), DataContentType: ContentTypeJSON,
			Data: []byte(data.Draw(t, "data")), ExpiryInterval: rapid.Int64Range(0, 3).Draw(t, "expiry"), CorrelationID: word.Draw(t, "correlation"),
		}
		if name := rapid.SampledFrom([]string{"", "sequence", "other", "data", "id"}).Draw(t, "extension"); name != "" {
			e.Extensions = map[string]string{name: word.Draw(t, "value")}
		}
		text, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "changes") {
			at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
			insert := rapid.SliceOfN(rapid.SampledFrom([]byte(`",:{}[]0a\ `)), 0, 2).Draw(t, "insert")
			cut := rapid.IntRange(0, 2).Draw(t, "cut")
			text = append(append(append([]byte(nil), text[:at]...), insert...), text[min(at+cut, len(text)):]...)
			if len(text) == 0 {
				return
			}
		}
		var got, want Event
		gotErr, wantErr := got.UnmarshalJSON(text), want.read(text)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s: -all others +plain\n%s", text, diff)
		}
		if (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
			t.Fatalf("%s: %v, want %v", text, gotErr, wantErr)
		}
	})
}
