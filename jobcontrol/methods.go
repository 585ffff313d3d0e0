package jobcontrol

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// Why a job method is refused by the rules of the standard. status.go turns each into its bit.
var (
	errUnknownJobOrder = errors.New("unknown job order")
	errNoTransition    = errors.New("not allowed in this state")
	errNotAcceptable   = errors.New("not acceptable")
	errRecipeRuns      = errors.New("the station does not run this order")
)

// refusal is one of the errors above with the reason for people.
func refusal(why error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", why, fmt.Sprintf(format, args...))
}

// existsError is a refusal with the state of the job order, for requesters that act on it; isa95.Initial = Takt has no such order.
type existsError struct {
	error
	state isa95.State
}

func (e *existsError) Unwrap() error { return e.error }

// decide is what a job method does to what is stored: existence first, then state, then
// acceptance. program is the recipe that an order to be stored would run, nil if none is known. It is pure; the caller adds
// the reply and commits. now is the date, installation the time of recipes.
func (req *request) decide(snap *jobstore.Snapshot, program *recipe.Program, now, installation time.Time) (jobstore.Change, error) {
	before, err := req.before(snap.Job)
	if err != nil {
		return jobstore.Change{}, err
	}
	next, ok := isa95.Next(before, req.method)
	if !ok {
		return jobstore.Change{}, refusal(errNoTransition, "job order %q is %s, where %s is not possible; %s",
			req.id, before, req.method, possible(before))
	}
	if req.order != nil {
		if why := snap.Acceptance.Refusal(req.method == isa95.Update); why != "" {
			return jobstore.Change{}, refusal(errNotAcceptable, "%s", why)
		}
		if why := req.judge(program); why != "" {
			return jobstore.Change{}, refusal(errNotAcceptable, "%s", why)
		}
	}
	change := jobstore.Change{
		Transition:    &jobstore.Transition{Method: req.method, Order: req.order, Text: req.text, State: next, JudgedBy: req.judgedBy(program)},
		Acceptance:    snap.Acceptance,
		WorkMaster:    req.order != nil, // its parameters were judged by it
		Now:           now,
		CorrelationID: req.event.CorrelationID, CausationID: req.event.ID, Source: req.event.Source,
	}
	if next.Top == isa95.AllowedToStart && before.Top != isa95.AllowedToStart {
		change.Work = append(change.Work, jobstore.WorkStart) // Start as well as StoreAndStart
	}
	req.reachRecipe(snap, installation, &change)
	req.reachStation(snap, &change)
	if next.Clearable() {
		change.Response = response(snap, change.Execution, next, now)
	}
	return change, nil
}

// response is that of an order which reaches the state end.
func response(snap *jobstore.Snapshot, x *recipe.Execution, end isa95.State, now time.Time) *isa95.JobResponse {
	if x == nil {
		return jobstore.StationResponse(snap.Job, snap.Response, end, now)
	}
	return jobstore.NewResponse(snap.Job, x, end, now)
}

// reachStation carries a method over to the station that runs the order without a recipe.
func (req *request) reachStation(snap *jobstore.Snapshot, change *jobstore.Change) {
	if snap.Job == nil || snap.Job.Station.Start == "" {
		return
	}
	switch req.method {
	case isa95.RevokeStart:
		change.Station = new(jobstore.Station)
	case isa95.Pause, isa95.Resume, isa95.Stop, isa95.Abort, isa95.Cancel, isa95.Update:
	default:
		return
	}
	change.Commands = append(change.Commands, jobstore.NewStationCommand(snap.Job, req.method))
}

// judge says what the recipe lacks in the order, "" if nothing.
func (req *request) judge(program *recipe.Program) string {
	if program == nil {
		return ""
	}
	order := jobstore.StoredOrder{JobOrder: req.order, Scope: req.scope}
	return program.Refusal(order.RecipeOrder())
}

// judgedBy is what the start needs to know of judge: whether the work master has changed since.
func (req *request) judgedBy(program *recipe.Program) string {
	switch {
	case program != nil:
		return program.SHA()
	case req.order != nil && jobstore.WorkMasterOf(req.order) != "":
		return jobstore.JudgedByNone
	}
	return ""
}

// before is the state the method acts on. A job order belongs to the scope that stored it; for any other it does not
// exist. Its id may be used again once it is in EndState.
func (req *request) before(job *jobstore.StoredOrder) (isa95.State, error) {
	storing := req.method == isa95.Store || req.method == isa95.StoreAndStart
	switch {
	case storing && job != nil && job.Scope != req.scope && !job.State.IsEnd():
		return isa95.Initial, refusal(errNotAcceptable, "the id %q is in use at 1 other station, and ids of job orders are one name space over all stations", req.id)
	case storing && job != nil && !job.State.IsEnd():
		return isa95.Initial, &existsError{refusal(errNotAcceptable, "job order %q exists and is %s", req.id, job.State), job.State}
	case storing:
		return isa95.Initial, nil
	case job == nil || job.Scope != req.scope:
		return isa95.Initial, refusal(errUnknownJobOrder, "%q at station %q", req.id, req.scope)
	}
	return job.State, nil
}

// possible lists the methods that state allows.
func possible(state isa95.State) string {
	methods := isa95.Allowed(state)
	if len(methods) == 0 {
		return "it was canceled or cleared"
	}
	names := make([]string, len(methods))
	for i, m := range methods {
		names[i] = string(m)
	}
	return "possible: " + strings.Join(names, ", ")
}

// reachRecipe carries a method over to the recipe that runs, so that no command is sent to the equipment for a job order that is
// aborted, stopped or paused. A station may run the order without one: see reachStation.
func (req *request) reachRecipe(snap *jobstore.Snapshot, now time.Time, change *jobstore.Change) {
	x := snap.Execution
	if x == nil || x.Terminal() {
		return
	}
	switch req.method {
	case isa95.Abort:
		x = x.Abort(jobstore.AbortedBy+req.event.Source, now)
	case isa95.Stop:
		x = x.Stop(now)
	case isa95.Pause:
		x = x.Pause(now)
	case isa95.Resume:
		x = x.Resume(now)
		change.Work = append(change.Work, jobstore.WorkResume)
	default:
		return
	}
	if x.Terminal() && len(x.WaitingTypes()) > 0 {
		change.Work = append(change.Work, jobstore.WorkResume) // the engine takes it out of the mailboxes, which only the recipe knows
	}
	change.Execution, change.Due = x, x.Due()
}
