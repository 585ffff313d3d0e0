package jobstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// A station runs a job order without a recipe when nothing of Takt does: it gets the methods of the MES as commands, each repeated under its id until it is answered, and
// says itself when the order runs and ends.

// Station is what a job order's document says of the station that runs it without a recipe. The zero value: no station was asked to.
type Station struct {
	Start   string `json:"start,omitempty"`   // id of the command Start; "" = not sent, or revoked
	Refused string `json:"refused,omitempty"` // and does not take it: why
	Started string `json:"started,omitempty"` // when it said Run, as StartTime of the response
}

// NewStationCommand makes the command that carries method to the station of o. A commit puts it into the outbox (Change.Commands).
func NewStationCommand(o *StoredOrder, method isa95.Method) recipe.Command {
	id := cloudevent.NewID()
	c := recipe.Command{ID: id, JobID: o.JobOrder.JobOrderID, Scope: string(o.Scope), TypeID: method.TypeID(), CorrelationID: id}
	return DrawSeed().Tokens([]recipe.Command{c})[0]
}

// DrawSeed makes the seed of the tokens of one decision. It never fails: crypto/rand ends the process rather than return less.
func DrawSeed() (seed recipe.Seed) {
	_, _ = rand.Read(seed[:])
	return seed
}

// Standing reports whether the command is repeated by itself, whatever becomes of a recipe: one of NewStationCommand, or one that calls another one off.
func (r Route) Standing() bool { return r.Method != "" || r.Cancel != nil }

// stationMethod is the method that c carries to a station, "" for a command of a recipe, which has an action.
func stationMethod(c recipe.Command) isa95.Method {
	if c.Action != "" {
		return ""
	}
	m, _ := isa95.MethodByTypeID(c.TypeID)
	return m
}

// StationBody is the body of a command to a station, with the order as it stands.
func StationBody(method isa95.Method, o *StoredOrder) ([]byte, error) {
	var call isa95.StationCall
	if method != isa95.Start {
		call.JobOrderID = o.JobOrder.JobOrderID
	}
	if method == isa95.Start || method == isa95.Update {
		text, err := o.Text()
		if err != nil {
			return nil, err
		}
		call.JobOrder = text
	}
	return isa95.Marshal(call)
}

// StationObsolete says why the station need not get a command any more, "" if it must.
func (r Route) StationObsolete(commandID string, o *StoredOrder) string {
	if o == nil || o.Scope != r.Scope {
		return "the job order is gone"
	}
	var due bool
	switch top := o.State.Top; r.Method {
	case isa95.Start:
		due = top == isa95.AllowedToStart && o.Station.Start == commandID
	case isa95.Update:
		due = top == isa95.AllowedToStart
	case isa95.RevokeStart:
		due = top == isa95.NotAllowedToStart || o.State.Clearable() || o.State.IsEnd() // the MES may have canceled it since
	case isa95.Pause:
		due = top == isa95.Interrupted
	case isa95.Resume:
		due = top == isa95.Running
	default: // Stop, Abort, Cancel
		due = o.State.Clearable() || o.State.IsEnd()
	}
	if due {
		return ""
	}
	return "the job order is " + o.State.String()
}

// StationResponse is the response of an order that a station runs, in the given state: what the station handed in, with what it left out filled in.
// given nil: it has handed in none. A state in it that the order has left is replaced.
func StationResponse(o *StoredOrder, given *isa95.JobResponse, state isa95.State, now time.Time) *isa95.JobResponse {
	filled := NewResponse(o, nil, state, now)
	filled.StartTime = o.Station.Started
	if given == nil {
		return filled
	}
	r := *given
	r.JobOrderID = filled.JobOrderID
	if r.JobResponseID == "" {
		r.JobResponseID = filled.JobResponseID
	}
	if r.StartTime == "" {
		r.StartTime = filled.StartTime
	}
	if r.EndTime == "" && state.Clearable() {
		r.EndTime = filled.EndTime
	}
	if was, err := isa95.ParseState(r.JobState); err != nil || was == isa95.Initial || state.Clearable() && was.Top != state.Top {
		r.JobState = filled.JobState
	}
	return &r
}

// StartedNow is the station's mark of an order that begins to run at now.
func (s Station) StartedNow(now time.Time) *Station {
	s.Started = rfc3339(now)
	return &s
}

// stationAfter is what the document says of the station after the change.
func (w *writer) stationAfter() Station {
	before := w.snap.Job
	switch {
	case w.change.Station != nil:
		return *w.change.Station
	case before == nil || before.State.IsEnd():
		return Station{}
	}
	return before.Station
}

// station writes what a station brings about without a transition.
func (w *writer) station() error {
	job := w.snap.Job
	w.order, w.state = job.JobOrder, job.State
	text, err := job.Text()
	if err != nil {
		return err
	}
	w.text = text
	if w.change.Station != nil {
		doc, err := encodeOrder(text, job.State, storedOrder{Scope: w.snap.Scope, Event: job.Event, Station: w.stationAfter(), JudgedBy: job.JudgedBy})
		if err != nil {
			return fmt.Errorf("jobstore: encode job order %s: %w", w.id, err)
		}
		w.c.Set(w.snap.keys.job, doc, 0)
	}
	if w.change.Response == nil {
		return nil
	}
	response, err := encodeResponse(w.change.Response, w.state, w.snap.Scope)
	if err != nil {
		return fmt.Errorf("jobstore: encode the response to job order %s: %w", w.id, err)
	}
	if err := w.index(string(ResponseID(w.snap.JobOrderID)), response); err != nil {
		return err
	}
	w.changed(resultUpdate)
	return nil
}

// Timers of commands to stations stand beside those of job orders, whose ids have no slash.
const stationTimer = "/"

// StationTimer is the command whose repetition is due, if that is what id of Due stands for.
func StationTimer(id isa95.JobOrderID) (commandID string, ok bool) {
	return strings.CutPrefix(string(id), stationTimer)
}

// A command to a station is repeated after stationAgain, then each time after as long as it has waited, at most stationSlow.
const (
	stationAgain = 5 * time.Second
	stationSlow  = time.Minute
)

// StationPause is how long the station has, from now in installation time, until its command is repeated.
func (r Route) StationPause(now time.Time) time.Duration {
	if r.Cancel != nil {
		return max(min(r.Cancel.Deadline.Sub(now), r.Cancel.Deadline.Sub(time.UnixMilli(r.Since))/3, stationAgain), time.Millisecond)
	}
	return min(max(now.Sub(time.UnixMilli(r.Since)), stationAgain), stationSlow)
}

// RepeatStation sets the time of the next repetition, unless the command was answered meanwhile; its route is kept as long.
func (s *Store) RepeatStation(ctx context.Context, commandID string, after time.Duration) error {
	b, at := s.rdb.B(), s.InstallationTime().Add(after)
	for _, r := range s.rdb.DoMulti(ctx,
		b.Zadd().Key(s.keys.SfcTimers()).Xx().ScoreMember().ScoreMember(float64(at.UnixMilli()), stationTimer+commandID).Build(),
		b.Pexpire().Key(s.keys.SfcCommand(commandID)).Milliseconds(commandTTL.Milliseconds()).Build(),
	) {
		if err := r.Error(); err != nil {
			return fmt.Errorf("jobstore: repeat command %s: %w", commandID, s.alarm.Note(err))
		}
	}
	return nil
}

// EndStation ends the repetition of a command to a station.
func (s *Store) EndStation(ctx context.Context, commandID string) error {
	if err := s.rdb.Do(ctx, s.rdb.B().Zrem().Key(s.keys.SfcTimers()).Member(stationTimer+commandID).Build()).Error(); err != nil {
		return fmt.Errorf("jobstore: end command %s: %w", commandID, s.alarm.Note(err))
	}
	return nil
}
