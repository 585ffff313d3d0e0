package sqldead

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/taktworks/takt/task"
)

// Dialect is what one kind of database wants to hear. Use one of the values below.
type Dialect struct {
	numbered bool   // $1, $2 in the place of ?
	blob     string // type of bytes
	key      string // type of a text that is part of a key
	text     string // type of a long text
	ignore   string // between INSERT and INTO
	conflict string // at the end of an insert
}

// Dialects. SQLite is tested with modernc.org/sqlite; it wants a busy time-out, and one process' writes through one connection.
var (
	SQLite   = Dialect{blob: "BLOB", key: "TEXT", text: "TEXT", conflict: " ON CONFLICT DO NOTHING"}
	Postgres = Dialect{numbered: true, blob: "BYTEA", key: "TEXT", text: "TEXT", conflict: " ON CONFLICT DO NOTHING"}
	MySQL    = Dialect{blob: "LONGBLOB", key: "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", text: "LONGTEXT", ignore: "IGNORE "}
)

// States of a row.
const (
	pending    = "PENDING"
	claimed    = "CLAIMED"    // an operator is requeueing it
	dispatched = "DISPATCHED" // it was requeued
)

// schema is the table. Times are in microseconds since the epoch; died_at is when the task died, submitted_at when it was first submitted, claimed_at when an operator took it.
// task_args, labels and history are JSON to look at; letter is what counts.
func (d Dialect) schema(table string) string {
	r := strings.NewReplacer("{table}", table, "{key}", d.key, "{text}", d.text, "{blob}", d.blob)
	return r.Replace(`CREATE TABLE IF NOT EXISTS {table} (
	id {key} NOT NULL,
	died_at BIGINT NOT NULL,
	task_class {key} NOT NULL,
	queue {key} NOT NULL,
	reason {key} NOT NULL,
	status {key} NOT NULL,
	claimed_at BIGINT NOT NULL,
	submitted_at BIGINT NOT NULL,
	retry_count BIGINT NOT NULL,
	last_error {text} NOT NULL,
	traceback {text} NOT NULL,
	history {text} NOT NULL,
	task_args {text} NOT NULL,
	labels {text} NOT NULL,
	letter {blob} NOT NULL,
	PRIMARY KEY (id, died_at)
)`)
}

const columns = "id, died_at, task_class, queue, reason, status, claimed_at, submitted_at, retry_count, last_error, traceback, history, task_args, labels, letter"

func (d Dialect) insert(table string) string {
	marks := strings.TrimSuffix(strings.Repeat("?, ", strings.Count(columns, ",")+1), ", ")
	return d.bind("INSERT " + d.ignore + "INTO " + table + " (" + columns + ") VALUES (" + marks + ")" + d.conflict)
}

// row is a letter as insert wants it.
func row(l *task.DeadLetter) []any {
	e := l.Error
	if e == nil {
		e = &task.Error{}
	}
	return []any{l.ID, micros(l.Died), l.Name, string(l.Queue), l.Reason, pending, int64(0), micros(l.Enqueued), int64(max(len(l.History)-1, 0)),
		plain(e.Message), plain(e.Traceback), text(l.History), plain(string(l.Args)), text(l.Labels), l.Stored}
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return plain(string(b))
}

// plain leaves out what some databases refuse in texts.
func plain(s string) string { return strings.ReplaceAll(s, "\x00", "") }

// bind writes ? as the dialect wants it. No query has a ? in a text.
func (d Dialect) bind(query string) string {
	if !d.numbered {
		return query
	}
	var b strings.Builder
	n := 0
	for {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
		query = after
	}
}
