package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// Whatever foreign texts hold, a table, a line and an error have printable characters only, and no lines of their own.
func TestForeignTextsAreQuoted(t *testing.T) {
	parts := rapid.SampledFrom([]string{"\x1b[31m", "\x1b]0;title\a", "\r", "\n", "\t", "\x9b", "\u009b2J", "\u202e", "\x7f", "\x00", "\b", "\"", "a", "ä", " "})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(parts, 1, 4).Draw(t, "text"), "")
		var out bytes.Buffer
		table := newTable(&out, "A", "B")
		table.row(text, "b")
		if err := table.flush(); err != nil {
			t.Fatal(err)
		}
		for _, arg := range []any{text, []byte(text), errors.New(text), []string{text}, &text} {
			if _, err := printf(&out, "%v %d\n", arg, 1); err != nil {
				t.Fatal(err)
			}
		}
		said := out.String()
		if strings.Count(said, "\n") != 7 || strings.ContainsFunc(strings.ReplaceAll(said, "\n", "")+shownLines(text), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) || strings.Contains(said, "\x9b") {
			t.Errorf("%q", said)
		}
	})
}
