package jobstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/jsonscan"
	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// Limits of the history of one order. Beyond one of them the older half becomes one snapshot (ShortenHistories).
const (
	MaxHistoryEntries = 20_000
	MaxHistoryBytes   = 4 << 20
)

// HistoryEntry is one commit of a job order, as the history has it.
type HistoryEntry struct {
	ID           string    // of the entry
	Time         time.Time // when it was committed, by the clock of Redis
	Installation time.Time // the same in installation time, by which recipes are decided; zero if the commit did not change the execution

	Method      isa95.Method  // of the MES, the station or the recipe engine that changed the state; "" = none
	State       isa95.State   // after the commit
	CausationID string        // of the CloudEvent that it answers; "" = time, or a work entry
	Source      string        // of the sender of that CloudEvent, for methods of an MES or a station
	Facts       []recipe.Fact // what the recipe did, in order
	Station     *Station      // what changed with a station that runs the order without a recipe; nil: nothing
	Response    bool          // the response was written

	Execution *recipe.Execution // after the commit; nil: no recipe was started. It must not be changed
	Before    *recipe.Execution // the same before the commit

	// Snapshot says that the entry stands for all entries up to ID, which are gone: State and Execution are what they led to.
	Snapshot bool
}

// historyField is the field of an entry of the stream, and of a snapshot the text.
const historyField = "e"

// storedEntry is an entry in JSON, as history writes it.
type storedEntry struct {
	Method       isa95.Method    `json:"m"`
	State        string          `json:"s"`
	CausationID  string          `json:"c"`
	Source       string          `json:"y"`
	Installation int64           `json:"i"` // Unix ms
	Execution    json.RawMessage `json:"x"` // recipe.Execution.AppendChange
	Facts        json.RawMessage `json:"f"` // recipe.AppendFacts
	Station      *Station        `json:"t"`
	Response     int             `json:"r"`

	UpTo string `json:"upto"` // of a snapshot: the last entry that it stands for
}

// history appends the entry of the commit to the history of its order: one entry with all that the commit did.
func (w *writer) history() error {
	change := w.change
	if change.Transition == nil && change.Execution == nil && change.Response == nil && change.Station == nil {
		return nil // of mailboxes and work alone
	}
	buf := make([]byte, 0, 512)
	member := func(name string) {
		if len(buf) > 0 {
			buf = append(buf, ',')
		} else {
			buf = append(buf, '{')
		}
		buf = append(append(append(buf, '"'), name...), '"', ':')
	}
	text := func(name, value string) {
		if value != "" {
			member(name)
			buf = jsonscan.AppendString(buf, value)
		}
	}
	if t := change.Transition; t != nil {
		text("m", string(t.Method))
		text("s", t.State.String())
	}
	text("c", change.CausationID)
	text("y", change.Source)
	if x := change.Execution; x != nil {
		now := w.store.InstallationTime().UnixMilli()
		member("i")
		buf = strconv.AppendInt(buf, now, 10)
		before := w.snap.Execution
		if before != nil && before.CorrelationID != x.CorrelationID { // of an earlier use of the id
			before = nil
		}
		member("x")
		buf = x.AppendChange(buf, before, now)
	}
	if len(change.Facts) > 0 {
		member("f")
		buf = recipe.AppendFacts(buf, change.Facts, change.Execution)
	}
	if change.Station != nil {
		station, err := isa95.Marshal(change.Station)
		if err != nil {
			return err
		}
		member("t")
		buf = append(buf, station...)
	}
	if change.Response != nil {
		member("r")
		buf = append(buf, '1')
	}
	k := w.store.keys
	w.c.XAddNote(k.History(w.id), historyField, rueidis.BinaryString(append(buf, '}')))
	if job := w.snap.Job; change.Transition != nil && w.state.IsEnd() || change.Transition == nil && job != nil && job.State.IsEnd() { // it goes with the documents
		w.c.Tighten(k.History(w.id), k.HistoryStart(w.id)+":copy")
		w.c.Expire(k.History(w.id), w.store.opt.EndStateRetention)
		w.c.Expire(k.HistoryStart(w.id), w.store.opt.EndStateRetention)
	}
	return nil
}

// HistoryReader reads the history of one order from its beginning, and then what follows. It serves one goroutine.
type HistoryReader struct {
	store *Store
	id    isa95.JobOrderID
	last  string // id of the last entry that was read; "" = none
	past  HistoryEntry
}

// History begins to read the history of an order.
func (s *Store) History(id isa95.JobOrderID) *HistoryReader { return &HistoryReader{store: s, id: id} }

// historyPage is how many entries are read at once.
const historyPage = 500

// Next returns the entries that follow, at most 500. None are there: it waits up to wait for one, and returns none after that; wait 0 does not wait.
// A history ends with EndState, but for late answers to cancel commands; if the id is used again, it begins anew, for another reader. An entry that cannot be read is a
// *DocumentError; so is one that changes an execution which no entry has begun.
func (r *HistoryReader) Next(ctx context.Context, wait time.Duration) ([]HistoryEntry, error) {
	s, key := r.store, r.store.keys.History(string(r.id))
	var all []HistoryEntry
	first := r.last == ""
	var read rueidis.Completed
	switch {
	case first:
		r.last = "0"
		fallthrough
	case wait <= 0:
		read = s.rdb.B().Xread().Count(historyPage).Streams().Key(key).Id(r.last).Build()
	default:
		read = s.rdb.B().Xread().Count(historyPage).Block(max(wait.Milliseconds(), 1)).Streams().Key(key).Id(r.last).Build()
	}
	commands := rueidis.Commands{read}
	if first {
		commands = append(commands, s.rdb.B().Get().Key(s.keys.HistoryStart(string(r.id))).Build())
	}
	replies := s.rdb.DoMulti(ctx, commands...)
	if first {
		text, err := replies[1].ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, fmt.Errorf("jobstore: history of %s: %w", r.id, s.alarm.Note(err))
		}
		if err == nil {
			all, err = r.fold(s.keys.HistoryStart(string(r.id)), []rueidis.XRangeEntry{{FieldValues: map[string]string{historyField: text}}})
			if err != nil {
				return nil, err
			}
		}
	}
	streams, err := replies[0].AsXRead()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, fmt.Errorf("jobstore: history of %s: %w", r.id, s.alarm.Note(err))
	}
	more, err := r.fold(key, streams[key])
	return append(all, more...), err
}

// fold takes entries of the stream in their order.
func (r *HistoryReader) fold(key string, list []rueidis.XRangeEntry) (all []HistoryEntry, err error) {
	for _, raw := range list {
		if raw.ID != "" {
			r.last = raw.ID
			if r.past.Snapshot && !stream.Before(r.past.ID, raw.ID) {
				continue // it is in the snapshot, and will be deleted
			}
		}
		e, err := r.entry(raw)
		if err != nil {
			return all, &DocumentError{Key: key, Err: fmt.Errorf("entry %s: %w", raw.ID, err)}
		}
		r.past, all = e, append(all, e)
	}
	return all, nil
}

// entry is raw after r.past.
func (r *HistoryReader) entry(raw rueidis.XRangeEntry) (HistoryEntry, error) {
	var stored storedEntry
	e := HistoryEntry{State: r.past.State, Execution: r.past.Execution, Before: r.past.Execution}
	if err := json.Unmarshal([]byte(raw.FieldValues[historyField]), &stored); err != nil {
		return e, err
	}
	e.ID, e.Snapshot = raw.ID, stored.UpTo != ""
	if e.Snapshot {
		e.ID = stored.UpTo
	}
	ms, _, _ := strings.Cut(e.ID, "-")
	at, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return e, err
	}
	e.Time = time.UnixMilli(at)
	e.Method, e.CausationID, e.Source, e.Station, e.Response = stored.Method, stored.CausationID, stored.Source, stored.Station, stored.Response > 0
	if stored.State != "" {
		if e.State, err = isa95.ParseStateText(stored.State); err != nil {
			return e, err
		}
	}
	if stored.Execution != nil {
		e.Installation = time.UnixMilli(stored.Installation)
		if e.Execution, err = e.Before.Changed(stored.Execution, stored.Installation); err != nil {
			return e, err
		}
	}
	if stored.Facts != nil {
		e.Facts, err = recipe.DecodeFacts(stored.Facts, e.Execution)
	}
	if !e.Snapshot && e.Execution != e.Before {
		e.Facts = append(e.Facts, recipe.CancelFacts(e.Before, e.Execution)...)
	}
	return e, err
}

// ShortenHistories puts one snapshot in the place of the older half of each history of ids that is longer than MaxHistoryEntries or larger than MaxHistoryBytes.
func (s *Store) ShortenHistories(ctx context.Context, ids []isa95.JobOrderID) error {
	for len(ids) > 0 {
		page := ids[:min(len(ids), historyPage)]
		ids = ids[len(page):]
		var commands rueidis.Commands
		for _, id := range page {
			key := s.keys.History(string(id))
			commands = append(commands, s.rdb.B().Xlen().Key(key).Build(), s.rdb.B().MemoryUsage().Key(key).Samples(0).Build())
		}
		replies := s.rdb.DoMulti(ctx, commands...)
		for i, id := range page {
			entries, err := replies[2*i].AsInt64()
			if err != nil {
				return fmt.Errorf("jobstore: length of the history of %s: %w", id, s.alarm.Note(err))
			}
			bytes, err := replies[2*i+1].AsInt64() // nil: there is none
			if err != nil && !rueidis.IsRedisNil(err) {
				return fmt.Errorf("jobstore: size of the history of %s: %w", id, s.alarm.Note(err))
			}
			if entries > s.history.entries || bytes > s.history.bytes {
				if err := s.shorten(ctx, id, entries/2); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// historyBounds are the limits, which tests lower.
type historyBounds struct{ entries, bytes int64 }

// shorten puts a snapshot in the place of the first entries, which are deleted once it is stored. A reader that has the snapshot passes over those that are still there.
func (s *Store) shorten(ctx context.Context, id isa95.JobOrderID, first int64) error {
	r, key := s.History(id), s.keys.History(string(id))
	var last HistoryEntry
	for seen := int64(0); seen < first; {
		entries, err := r.Next(ctx, 0)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return nil
		}
		entries = entries[:min(int64(len(entries)), first-seen)]
		seen += int64(len(entries))
		last = entries[len(entries)-1]
	}
	if last.Execution == nil {
		return nil // before a recipe there is nothing to shorten
	}
	at := last.Installation.UnixMilli()
	text := `{"upto":"` + last.ID + `","s":"` + last.State.String() + `","i":` + strconv.FormatInt(at, 10) + `,"x":`
	snapshot := rueidis.BinaryString(append(last.Execution.AppendChange([]byte(text), nil, at), '}'))
	for _, reply := range s.rdb.DoMulti(ctx,
		s.rdb.B().Set().Key(s.keys.HistoryStart(string(id))).Value(snapshot).Build(),
		s.rdb.B().Xtrim().Key(key).Minid().Threshold(last.ID).Build(),
	) {
		if err := reply.Error(); err != nil {
			return fmt.Errorf("jobstore: shorten the history of %s: %w", id, s.alarm.Note(err))
		}
	}
	return nil
}

// Recorded is what a history says of the run of a recipe, for recipe.Program.Replay: its last run, from its start. ok is false if no run is there, or its start is in a snapshot.
func Recorded(entries []HistoryEntry) (record []recipe.Recorded, ok bool) {
	for _, e := range entries {
		x, before := e.Execution, e.Before
		if x == before || x == nil {
			continue
		}
		r := recipe.Recorded{At: e.Installation, Facts: slices.DeleteFunc(slices.Clone(e.Facts), func(f recipe.Fact) bool {
			return f.Kind == recipe.FactCancel || f.Kind == recipe.FactCanceled
		})}
		switch {
		case e.Snapshot:
			ok = false
			continue
		case before == nil:
			record, ok = nil, true
		case len(r.Facts) == 0 && slices.Contains([]isa95.Method{isa95.Pause, isa95.Resume, isa95.Stop, isa95.Abort}, e.Method):
			r.Hold = recipe.Hold(e.Method)
		case len(r.Facts) == 0:
			for i := range x.Actions {
				if a, was := &x.Actions[i], before.Action(x.Actions[i].Name); a.LastCall && was != nil && a.Deadline != was.Deadline {
					r.Deadlines = map[string]int64{a.Name: a.Deadline}
				}
			}
		}
		record = append(record, r)
	}
	return record, ok
}
