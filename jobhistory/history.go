// Package jobhistory reads what is recorded of one job order, for people and programs: each commit in words, the run of its recipe at any instant with its chart, and
// its actions over time. It reads Redis through package jobstore and writes nothing.
package jobhistory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// ErrNone: the job order has no history. It was never stored, or it was cleared longer ago than Options.EndStateRetention of jobstore.
var ErrNone = errors.New("jobhistory: the job order has no history")

// History is the history of one job order, as it is read. It serves one goroutine.
type History struct {
	ID      isa95.JobOrderID
	Entries []jobstore.HistoryEntry // all that were there when it was read; at least one
	Reader  *jobstore.HistoryReader // for those that follow

	store  *jobstore.Store
	recipe *recipe.Recipe // of sha; nil: its text is gone
	sha    string
}

// Open reads the first entries. Without any the error is ErrNone.
func Open(ctx context.Context, store *jobstore.Store, id isa95.JobOrderID) (h *History, err error) {
	h = &History{store: store, Reader: store.History(id), ID: id}
	if h.Entries, err = h.Reader.Next(ctx, 0); err != nil {
		return nil, err
	}
	if len(h.Entries) == 0 {
		return nil, ErrNone
	}
	return h, nil
}

// Read is Open, and reads all that is there.
func Read(ctx context.Context, store *jobstore.Store, id isa95.JobOrderID) (*History, error) {
	h, err := Open(ctx, store, id)
	if err != nil {
		return nil, err
	}
	for {
		more, err := h.Reader.Next(ctx, 0)
		if err != nil {
			return nil, err
		}
		if len(more) == 0 {
			return h, nil
		}
		h.Entries = append(h.Entries, more...)
	}
}

// Now is the date by the clock of Redis.
func (h *History) Now() time.Time { return h.store.Now() }

// Last is the newest of Entries.
func (h *History) Last() *jobstore.HistoryEntry { return &h.Entries[len(h.Entries)-1] }

// Recipe is the recipe that the order ran after an entry, nil if no recipe was started or its text is gone.
func (h *History) Recipe(ctx context.Context, e *jobstore.HistoryEntry) (*recipe.Recipe, error) {
	if e.Execution == nil || e.Execution.Recipe == h.sha {
		return h.recipe, nil
	}
	snap, err := h.store.Load(ctx, jobstore.Query{Recipe: e.Execution.Recipe})
	if err != nil {
		return nil, err
	}
	h.sha = e.Execution.Recipe
	h.recipe, _ = recipe.Decode(snap.RecipeText)
	return h.recipe, nil
}

// Line is one commit, for programs.
type Line struct {
	ID           string       `json:"id"`
	Time         time.Time    `json:"time"`
	Installation *time.Time   `json:"installation_time,omitempty"`
	Snapshot     bool         `json:"snapshot,omitempty"`
	Method       isa95.Method `json:"method,omitempty"`
	State        string       `json:"state"`
	CausationID  string       `json:"causationid,omitempty"`
	Source       string       `json:"source,omitempty"`
	Station      any          `json:"station,omitempty"`
	Response     bool         `json:"response,omitempty"`
	Facts        []Fact       `json:"facts,omitempty"`
}

// Fact is a fact with its transition named.
type Fact struct {
	recipe.Fact
	From      string `json:"from,omitempty"`
	To        string `json:"to,omitempty"`
	Condition string `json:"condition,omitempty"`
}

// LineOf is the line of an entry; r is History.Recipe of it.
func LineOf(e *jobstore.HistoryEntry, r *recipe.Recipe) Line {
	line := Line{ID: e.ID, Time: e.Time.UTC(), Snapshot: e.Snapshot, Method: e.Method, State: e.State.String(), CausationID: e.CausationID, Source: e.Source, Response: e.Response}
	if !e.Installation.IsZero() {
		at := e.Installation.UTC()
		line.Installation = &at
	}
	if e.Station != nil {
		line.Station = e.Station
	}
	for _, f := range e.Facts {
		line.Facts = append(line.Facts, Named(f, r))
	}
	return line
}

// Named is f with its transition in r; nil: without.
func Named(f recipe.Fact, r *recipe.Recipe) Fact {
	named := Fact{Fact: f}
	if f.Transition != nil && r != nil && *f.Transition < len(r.Transitions) {
		t := r.Transitions[*f.Transition]
		named.From, named.To, named.Condition = t.Source, t.Target, t.Condition
	}
	return named
}

// Head says what a commit was, but for its facts.
func Head(e *jobstore.HistoryEntry) string {
	parts := []string{Cause(e)}
	if e.Source != "" {
		parts = append(parts, "by "+e.Source)
	}
	if e.CausationID != "" {
		parts = append(parts, "event "+e.CausationID)
	}
	return strings.Join(parts, ", ")
}

// Cause is Head without the sender and the id of the event.
func Cause(e *jobstore.HistoryEntry) string {
	switch {
	case e.Snapshot:
		return "what was before is gone; it led to " + e.State.String()
	case e.Method != "":
		return fmt.Sprintf("%s: the order is %s", e.Method, e.State)
	case len(e.Facts) > 0 && (e.Facts[0].Ends() || e.Facts[0].Kind == recipe.FactCanceled) && e.CausationID != "":
		return "message of the equipment"
	case len(e.Facts) > 0:
		return "by time"
	case e.Station != nil && e.Station.Refused != "":
		return "its station refuses it: " + e.Station.Refused
	case e.Station != nil && e.Station.Started != "":
		return "its station runs it since " + e.Station.Started
	case e.Station != nil && e.Station.Start != "":
		return "its station is asked to start it"
	case e.Response:
		return "the station hands in its response"
	}
	return "the broker has the last call of a command, whose time counts from now"
}
