package rfc3339

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-02T03:04:05Z":                "2026-01-02T03:04:05Z",
		"2026-01-02t03:04:05z":                "2026-01-02T03:04:05Z",
		"2026-01-02T03:04:05.25+01:00":        "2026-01-02T02:04:05.25Z",
		"2026-01-02T03:04:05-23:59":           "2026-01-03T03:03:05Z",
		"2026-01-02T03:04:05-00:00":           "2026-01-02T03:04:05Z",
		"2026-01-02T03:04:05.123456789123Z":   "2026-01-02T03:04:05.123456789Z",
		"2026-01-02T03:04:05+24:00":           "", // time.Parse takes it
		"2026-01-02T03:04:05-24:00":           "", // and this
		"2026-01-02T03:04:05+01:60":           "", // and this
		"2026-01-02T3:04:05Z":                 "", // and this
		"2026-01-02T03:04:05,25Z":             "", // and this
		"2026-01-02T03:04:60Z":                "",
		"2026-01-02T24:00:00Z":                "",
		"2026-02-30T03:04:05Z":                "",
		"2026-01-02 03:04:05Z":                "",
		"2026-01-02T03:04:05":                 "",
		"2026-01-02T03:04:05+0100":            "",
		"2026-01-02":                          "",
		"12026-01-02T03:04:05Z":               "",
		" 2026-01-02T03:04:05Z":               "",
		"2026-01-02T03:04:05.Z":               "",
		"２026-01-02T03:04:05Z":                "",
		"2026-01-02T03:04:05Z\n":              "",
		"2026-01-02T03:04:05+01:00[Europe/X]": "",
	} {
		at, err := Parse(text)
		got := ""
		if err == nil {
			got = at.UTC().Format(time.RFC3339Nano)
		}
		if got != want {
			t.Errorf("%q: %q %v, want %q", text, got, err, want)
		}
	}
}

// FuzzParse: what is taken has an offset below a day, and reads the same when written again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"2026-01-02T03:04:05Z", "2026-01-02T3:04:05,5+24:00", "2026-01-02t03:04:05.5-23:59"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := Parse(text)
		if err != nil {
			return
		}
		if _, offset := at.Zone(); offset <= -24*3600 || offset >= 24*3600 {
			t.Fatalf("%q: offset of %d s", text, offset)
		}
		again, err := Parse(at.Format(time.RFC3339Nano))
		if err != nil || !again.Equal(at) {
			t.Fatalf("%q: %v, then %v %v", text, at, again, err)
		}
	})
}
