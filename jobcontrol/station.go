package jobcontrol

import (
	"context"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// Station answers what stations say of the job orders that they run without a recipe: Run, End, Abort and ReceiveJobResponse, on {prefix}/equipment/{scope}/events.
// It is an mqtt.Handler, and may be called by any number of goroutines.
//
// A recipe tells itself when its order runs and ends: for such an order only Abort is carried out, the others are refused with STATE_INVALID.
type Station struct{ r *Receiver }

// Station is the side of r for stations.
func (r *Receiver) Station() Station { return Station{r} }

// Knows reports whether e calls a method of a station, or means to; other events are for recipes.
func (Station) Knows(e cloudevent.Event) bool { return isa95.IsJobControlType(e.Type) }

// Handle carries out what e says, as Receiver.Handle does for an MES.
func (s Station) Handle(ctx context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
	return s.r.handle(ctx, e, s.read, s.carryOut)
}

// Refuse makes the answer to an event that could not be read, as Receiver.Refuse does.
func (s Station) Refuse(ctx context.Context, e cloudevent.Event, why *cloudevent.Error) *cloudevent.Event {
	return s.r.Refuse(ctx, e, why)
}

func (s Station) read(e cloudevent.Event) (request, error) {
	req := request{event: e, unknown: s.r.opt.UnknownMembers}
	req.method, _ = isa95.StationMethodByTypeID(e.Type)
	if req.method == "" {
		return req, cloudevent.Errorf(cloudevent.KindUnknownPayloadType, "type %.200q is no method of a station: want %v", e.Type, isa95.StationMethods())
	}
	if err := checkCall(e); err != nil {
		return req, err
	}
	var err error
	if req.scope, err = isa95.ParseScope(e.Scope()); err != nil {
		return req, err
	}
	if want := topics.Prefix(s.r.opt.TopicPrefix).Equipment(string(req.scope), "events"); e.Delivery.Topic != "" && e.Delivery.Topic != want {
		return req, cloudevent.Errorf(cloudevent.KindPropertyInvalid, "the subject %q belongs to topic %s", e.Subject, want)
	}
	if req.method != isa95.ReceiveJobResponse {
		return req, req.readID()
	}
	return req, req.readResponse()
}

// readResponse reads the body of ReceiveJobResponse.
func (req *request) readResponse() error {
	var call isa95.JobResponseCall
	if err := isa95.Receive(req.event.Data, &call, req.unknown); err != nil {
		return err
	}
	switch {
	case call.JobResponse == nil:
		return missing("JobResponse")
	case call.JobResponse.JobOrderID == "":
		return missing("JobResponse.JobOrderID")
	}
	if len(call.JobResponse.JobState) > 0 {
		if _, err := isa95.ParseState(call.JobResponse.JobState); err != nil {
			return err
		}
	}
	if err := idsDiffer(call.JobResponse.JobResponseData, "/JobResponse/JobResponseData"); err != nil {
		return err
	}
	req.response = call.JobResponse
	var err error
	req.id, err = isa95.ParseJobOrderID(call.JobResponse.JobOrderID)
	return err
}

// carryOut loads, decides and commits.
func (s Station) carryOut(ctx context.Context, req *request) (cloudevent.Event, error) {
	r := s.r
	snap, err := r.load(ctx, req, jobstore.Query{JobOrderID: req.id, Scope: req.scope, Source: req.event.Source, ID: req.event.ID, Response: true})
	if err != nil {
		return cloudevent.Event{}, err
	}
	if snap.Execution != nil && !snap.Execution.Terminal() {
		if err := r.store.SyncInstallationTime(ctx); err != nil {
			return cloudevent.Event{}, err
		}
	}
	change, err := req.decideStation(snap, r.store)
	if err != nil {
		return cloudevent.Event{}, err
	}
	return r.commit(ctx, req, snap, change)
}

// decideStation is what a method of a station does to what is stored.
func (req *request) decideStation(snap *jobstore.Snapshot, store *jobstore.Store) (jobstore.Change, error) {
	job := snap.Job
	if job == nil || job.Scope != req.scope || job.State.IsEnd() {
		return jobstore.Change{}, refusal(errUnknownJobOrder, "%q at station %q", req.id, req.scope)
	}
	if req.method != isa95.Abort && (snap.Execution != nil || job.Station.Start == "") {
		return jobstore.Change{}, refusal(errRecipeRuns, "job order %q is %s; a recipe runs it, or no command Start was sent for it", req.id, job.State)
	}
	change := jobstore.Change{Now: store.Now(), CorrelationID: req.event.CorrelationID, CausationID: req.event.ID, Source: req.event.Source}
	if req.method == isa95.ReceiveJobResponse {
		if top := job.State.Top; top != isa95.Running && top != isa95.Interrupted && !job.State.Clearable() {
			return jobstore.Change{}, refusal(errNoTransition, "job order %q is %s; its response can be received once it runs", req.id, job.State)
		}
		change.Response = jobstore.StationResponse(job, req.response, job.State, change.Now)
		return change, nil
	}
	next, ok := isa95.Next(job.State, req.method)
	if !ok {
		return jobstore.Change{}, refusal(errNoTransition, "job order %q is %s, where %s is not possible", req.id, job.State, req.method)
	}
	change.Transition = &jobstore.Transition{Method: req.method, State: next}
	if req.method == isa95.Run {
		change.Station = job.Station.StartedNow(change.Now)
	}
	req.reachRecipe(snap, store.InstallationTime(), &change)
	if next.Clearable() {
		change.Response = response(snap, change.Execution, next, change.Now)
	}
	return change, nil
}
