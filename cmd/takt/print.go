package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/taktworks/takt/internal/telemetry"
)

// printJSON writes v as one line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// shown is a text as a terminal may get it: quoted if it holds line ends, escape sequences and the like. Texts in the store are written by programs and people
// of whom the reader knows nothing.
func shown(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// shownLines is a text of several lines, each of them shown.
func shownLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = shown(line)
	}
	return strings.Join(lines, "\n")
}

// printf is fmt.Fprintf with all texts among args shown.
func printf(w io.Writer, format string, args ...any) (int, error) {
	args = slices.Clone(args)
	for i, arg := range args {
		switch v := reflect.ValueOf(arg); v.Kind() {
		case reflect.String, reflect.Struct, reflect.Pointer, reflect.Interface, reflect.Map, reflect.Array:
			args[i] = shown(fmt.Sprint(arg))
		case reflect.Slice:
			if v.Type().Elem().Kind() == reflect.Uint8 {
				args[i] = shown(fmt.Sprintf("%s", arg))
			} else {
				args[i] = shown(fmt.Sprint(arg))
			}
		}
	}
	return fmt.Fprintf(w, format, args...)
}

// table is rows of cells under a header, aligned for people.
type table struct {
	out   io.Writer
	w     *tabwriter.Writer
	text  bytes.Buffer // what w has aligned
	lines int
}

func newTable(out io.Writer, header ...any) *table {
	t := &table{out: out}
	t.w = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	t.row(header...)
	return t
}

// row adds a line; the texts of its cells are shown. Empty cells at its end keep the columns of the lines around it aligned.
func (t *table) row(cells ...any) {
	t.lines++
	line := make([]string, len(cells))
	for i, cell := range cells {
		line[i] = shown(fmt.Sprint(cell))
	}
	_, _ = io.WriteString(t.w, strings.Join(line, "\t")+"\n") // to a buffer
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

// newFields is a table of what is known of one thing, for field.
func newFields(out io.Writer) *table { return newTable(out, "FIELD", "VALUE") }

// field adds a row with a name and a value, unless that is nothing: "", - or 0.
func (t *table) field(name string, value any) {
	if value != "" && value != "-" && value != 0 {
		t.row(name, value)
	}
}

// list shows things in rows of a table or, with --json, as one object on a line each.
type list struct {
	*table
	json bool
	err  error // the first of printing an object
}

func (a *app) list(asJSON bool, header ...any) *list {
	return &list{table: newTable(a.out, header...), json: asJSON}
}

// add takes one thing: as v for programs, in cells for people.
func (l *list) add(v any, cells ...any) {
	switch {
	case !l.json:
		l.row(cells...)
	case l.err == nil:
		l.err = printJSON(l.out, v)
	}
}

// flush ends the list.
func (l *list) flush() error {
	if l.json {
		return l.err
	}
	return l.table.flush()
}

// say prints v with --json, else a line; "" = none.
func (a *app) say(asJSON bool, v any, format string, args ...any) error {
	if asJSON {
		return printJSON(a.out, v)
	}
	_, err := printf(a.out, format, args...)
	return err
}

// tell is say after something that may have failed: then it prints nothing and returns err.
func (a *app) tell(err error, asJSON bool, v any, format string, args ...any) error {
	if err != nil {
		return err
	}
	return a.say(asJSON, v, format, args...)
}

// show prints v with --json, else as people has it. With err it prints nothing and returns that.
func show[T any](a *app, err error, asJSON bool, v *T, people func(*T) error) error {
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(a.out, v)
	}
	return people(v)
}

// showChanged prints what was changed with --json, as read has it now, unless err says that it was not.
func showChanged[T any](ctx context.Context, a *app, asJSON bool, name string, read func(context.Context, string) (T, error), err error) error {
	if err != nil || !asJSON {
		return err
	}
	v, err := read(ctx, name)
	return a.tell(err, true, v, "")
}

// shownTime is a time of a document as people read it everywhere: UTC with milliseconds. What is no time stays as it is.
func shownTime(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z")
}

// clock is the time now, as the lines of a watch begin.
func clock() string { return time.Now().Format("15:04:05.000") }

// shownSpan is from when to when an order ran; one that was aborted before its start has no begin.
func shownSpan(start, end string) string {
	if start == "" {
		return "never started, over at " + shownTime(end)
	}
	return shownTime(start) + " to " + shownTime(end)
}

// terminal returns how many cells a line of a stream has, 0 if it is not a terminal, and whether it takes colors.
func terminal(stream any) (width int, color bool) {
	if !isTerminal(stream) {
		return 0, false
	}
	width, _, err := term.GetSize(int(stream.(*os.File).Fd()))
	return width, err == nil && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// isTerminal says whether a person sits at a stream, so that a line may be written over, or a question asked.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
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
