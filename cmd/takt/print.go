package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"

	"github.com/taktworks/takt/internal/telemetry"
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

// newLog makes the log of a command; level and format are of those that the parser takes.
func newLog(w io.Writer, level, format string) *slog.Logger {
	log, err := telemetry.NewLogger(w, format, level)
	if err != nil {
		panic(err)
	}
	return log
}
