package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"
)

// printJSON writes v as one line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// table is rows of cells under a header, aligned for people.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer, header ...string) *table {
	t := &table{w: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	t.row(header...)
	return t
}

func (t *table) row(cells ...string) {
	line := strings.Join(cells, "\t")
	_, _ = io.WriteString(t.w, strings.TrimRight(line, "\t")+"\n") // Flush tells of errors
}

func (t *table) flush() error { return t.w.Flush() }

// isTerminal says whether a person looks at w, so that a line may be written over.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func newLog(w io.Writer, level, format string) *slog.Logger {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // one of four, checked by the parser
	opt := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, opt))
	}
	return slog.New(slog.NewTextHandler(w, opt))
}
