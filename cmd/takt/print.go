package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"
	"time"

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
type table struct {
	out   io.Writer
	w     *tabwriter.Writer
	text  bytes.Buffer // what w has aligned
	lines int
}

func newTable(out io.Writer, header ...string) *table {
	t := &table{out: out}
	t.w = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	t.row(header...)
	return t
}

// row adds a line. Empty cells at its end keep the columns of the lines around it aligned.
func (t *table) row(cells ...string) {
	t.lines++
	_, _ = io.WriteString(t.w, strings.Join(cells, "\t")+"\n") // to a buffer
}

// flush prints the table. One without rows says so.
func (t *table) flush() error {
	if t.lines == 1 {
		_, _ = io.WriteString(t.w, "(none)\n")
	}
	if err := t.w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(t.text.String()) {
		if _, err := io.WriteString(t.out, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// shownTime is a time of a document as people read it everywhere: UTC with milliseconds. What is no time stays as it is.
func shownTime(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z")
}

// shownSpan is from when to when an order ran; one that was aborted before its start has no begin.
func shownSpan(start, end string) string {
	if start == "" {
		return "never started, over at " + shownTime(end)
	}
	return shownTime(start) + " to " + shownTime(end)
}

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
