package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/station"
)

// mesEntry is one line of the log that the demo's MES keeps.
type mesEntry struct {
	Time  time.Time `json:"time"`
	Kind  string    `json:"kind"` // see below
	Scope string    `json:"scope,omitempty"`
	Order string    `json:"order,omitempty"`
	State string    `json:"state,omitempty"` // of a result: Ended_Completed, Aborted
	Why   string    `json:"why,omitempty"`   // of a refusal, or of an aborted order
	Seq   int64     `json:"seq,omitempty"`   // of an index
}

// Kinds of entries of the MES' log.
const (
	mesAccepted = "accepted" // the station took the order
	mesRefused  = "refused"
	mesResult   = "result"  // a result was handed to the MES
	mesCleared  = "cleared" // Takt answered Clear with 1
	mesIndex    = "index"   // a state index was seen
	mesAway     = "away"    // the outage begins
	mesBack     = "back"    // the outage is over
	mesGap      = "gap"     // the index told of changes that were missed
)

// ledger is an append-only file of entries, one JSON object per line. It is written before anything that depends on it.
type ledger struct {
	mu     sync.Mutex
	file   *os.File
	failed error
	seen   func(mesEntry)
}

func openLedger(path string, seen func(mesEntry)) (*ledger, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &ledger{file: file, seen: seen}, nil
}

func (l *ledger) add(e mesEntry) error {
	e.Time = time.Now()
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	l.mu.Lock()
	_, err = l.file.Write(append(text, '\n'))
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("the MES' log: %w", err)
	}
	if l.seen != nil {
		l.seen(e)
	}
	return nil
}

// note is add for callbacks that cannot fail: the error is kept for close.
func (l *ledger) note(e mesEntry) {
	if err := l.add(e); err != nil {
		l.mu.Lock()
		l.failed = errors.Join(l.failed, err)
		l.mu.Unlock()
	}
}

// close ends the log and tells what of it could not be written.
func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.failed, l.file.Close())
}

func readLines[T any](path string) ([]T, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []T
	scan := bufio.NewScanner(file)
	scan.Buffer(nil, 4<<20)
	for n := 1; scan.Scan(); n++ {
		var e T
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		all = append(all, e)
	}
	return all, scan.Err()
}

// report is what the demo found out, from the logs of the MES and of the station alone.
type report struct {
	Orders           int      `json:"orders"` // accepted by Takt
	Refused          int      `json:"refused"`
	Ended            int      `json:"ended"`
	Aborted          int      `json:"aborted"`
	Results          int      `json:"results"` // orders whose result the MES has
	Cleared          int      `json:"cleared"`
	Lost             int      `json:"lost"`              // accepted, and no result
	RepeatedCommands int      `json:"repeated_commands"` // commands that the station got again and did not do again
	ExecutedTwice    int      `json:"executed_twice"`    // command ids that the station carried out more than once
	DuplicateResults int      `json:"duplicate_results"` // results handed to the MES more than once
	OutageSeconds    float64  `json:"outage_seconds"`
	Gaps             int      `json:"gaps"` // times the MES found that it had missed something
	SeqBefore        int64    `json:"seq_before"`
	SeqAfter         int64    `json:"seq_after"`
	Violations       []string `json:"violations"`
	Store            string   `json:"store"`
	Broker           string   `json:"broker"`
	Seconds          float64  `json:"seconds"`

	orders []orderReport
}

// orderReport is one line of the table.
type orderReport struct {
	Scope, Order, State, Why string
	Commands, Repeats        int
	Rework                   int // times an action was carried out again
	Took                     time.Duration
	Cleared, Refused         bool

	given time.Time // when the MES had the result, which may be before it knew that the order was accepted
}

// makeReport reads both logs. scope is the one whose sequence numbers are shown.
func makeReport(mesLog, stationLog, scope string) (*report, error) {
	mesEntries, err := readLines[mesEntry](mesLog)
	if err != nil {
		return nil, err
	}
	stationEntries, err := readLines[station.Entry](stationLog)
	if err != nil {
		return nil, err
	}
	b := newReport(scope)
	for _, e := range mesEntries {
		b.mes(e)
	}
	b.station(stationEntries)
	b.finish()
	return b.report, nil
}

func newReport(scope string) reportBuilder {
	return reportBuilder{report: &report{Violations: []string{}}, orders: make(map[string]*orderReport), accepted: make(map[string]time.Time), scope: scope}
}

type reportBuilder struct {
	*report
	scope    string
	orders   map[string]*orderReport
	accepted map[string]time.Time
	away     time.Time
	wasAway  bool
}

func (b *reportBuilder) order(scope, id string) *orderReport {
	o := b.orders[id]
	if o == nil {
		o = &orderReport{Scope: scope, Order: id}
		b.orders[id] = o
	}
	return o
}

func (b *reportBuilder) mes(e mesEntry) {
	switch e.Kind {
	case mesAccepted:
		b.Orders++
		b.accepted[e.Order] = e.Time
		b.order(e.Scope, e.Order)
	case mesRefused:
		b.Refused++
		o := b.order(e.Scope, e.Order)
		o.Refused, o.Why = true, e.Why
	case mesResult:
		o := b.order(e.Scope, e.Order)
		if o.State != "" {
			b.DuplicateResults++
			return
		}
		o.State, o.Why, o.given = e.State, e.Why, e.Time
		b.Results++
		if e.State == "Aborted" {
			b.Aborted++
		} else {
			b.Ended++
		}
	case mesCleared:
		if o := b.order(e.Scope, e.Order); !o.Cleared {
			o.Cleared = true
			b.Cleared++
		}
	case mesIndex:
		switch {
		case e.Scope != b.scope:
		case !b.wasAway:
			b.SeqBefore = e.Seq
		case b.SeqAfter == 0 && b.away.IsZero():
			b.SeqAfter = e.Seq
		}
	case mesGap:
		b.Gaps++
	case mesAway:
		b.away, b.wasAway = e.Time, true
	case mesBack:
		b.OutageSeconds += e.Time.Sub(b.away).Seconds()
		b.away = time.Time{}
	}
}

func (b *reportBuilder) station(entries []station.Entry) {
	executed := make(map[string]int) // command id
	done := make(map[[2]string]int)  // order, action
	for _, e := range entries {
		switch e.Kind {
		case station.Executed:
			if executed[e.Command]++; executed[e.Command] == 2 {
				b.ExecutedTwice++
			}
			o := b.order("", e.Order)
			o.Commands++
			if done[[2]string{e.Order, e.Action}]++; done[[2]string{e.Order, e.Action}] > 1 {
				o.Rework++
			}
		case station.Repeated:
			b.RepeatedCommands++
			b.order("", e.Order).Repeats++
		}
	}
}

func (b *reportBuilder) finish() {
	for id, accepted := range b.accepted {
		o := b.orders[id]
		if o.State == "" {
			b.Lost++
			continue
		}
		o.Took = max(o.given.Sub(accepted), 0)
	}
	for _, o := range b.orders {
		b.report.orders = append(b.report.orders, *o)
	}
	slices.SortFunc(b.report.orders, func(x, y orderReport) int { return strings.Compare(x.Order, y.Order) })
}

// good is what the exit status says.
func (r *report) good() bool {
	return r.Refused == 0 && r.Lost == 0 && r.DuplicateResults == 0 && r.ExecutedTwice == 0 && len(r.Violations) == 0 && r.Orders > 0
}

// failures says why the report is not good.
func (r *report) failures() string {
	text := fmt.Sprintf("lost %d, results twice %d, commands twice %d, broken invariants %d", r.Lost, r.DuplicateResults, r.ExecutedTwice, len(r.Violations))
	if r.Refused > 0 {
		text = fmt.Sprintf("refused %d of %d job orders, ", r.Refused, r.Refused+r.Orders) + text
	}
	return text
}

func (r *report) print(out io.Writer) error {
	t := newTable(out, "JOB ORDER", "SCOPE", "STATE", "COMMANDS", "REWORK", "RESULT AFTER", "CLEARED", "")
	for _, o := range r.orders {
		state, took := o.State, o.Took.Round(10*time.Millisecond).String()
		why := o.Why
		switch {
		case o.Refused:
			state, took, why = "REFUSED", "-", "" // the reason was printed when it was refused
		case state == "":
			state, took = "NO RESULT", "-"
		}
		t.row(o.Order, o.Scope, state, o.Commands, o.Rework, took, yesNo(o.Cleared), why)
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := printf(out, `
ordered      %4d  accepted by Takt (%d refused)
done         %4d  ended, %d aborted
given back   %4d  results, %d cleared
lost         %4d
twice        %4d  results, %d commands (%d came again and were only answered again)
outage       %6.1f s of the MES; its index went from seq %d to %d, gaps seen and filled: %d
`, r.Orders, r.Refused, r.Ended, r.Aborted, r.Results, r.Cleared, r.Lost, r.DuplicateResults, r.ExecutedTwice, r.RepeatedCommands,
		r.OutageSeconds, r.SeqBefore, r.SeqAfter, r.Gaps)
	if err != nil {
		return err
	}
	for _, v := range r.Violations {
		if _, err := printf(out, "broken       %s\n", v); err != nil {
			return err
		}
	}
	_, err = printf(out, "store %s, broker %s, %.1f s\n", r.Store, r.Broker, r.Seconds)
	return err
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
