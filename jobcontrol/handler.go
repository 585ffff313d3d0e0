package jobcontrol

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/programs"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// Receiver answers job methods, queries and station configuration. Its methods may be called at once from any
// goroutine, and any number of Receivers may share a store.
type Receiver struct {
	store    *jobstore.Store
	opt      Options
	programs *programs.Cache
}

// New makes a Receiver on store.
func New(store *jobstore.Store, o Options) *Receiver {
	return &Receiver{store: store, opt: o.withDefaults(), programs: programs.New(programBytes)}
}

// Handle carries out what e asks for, or refuses it, and returns the reply; its Delivery.Topic is "" when nobody asked for
// one. It blocks while Redis does not serve, up to HoldWhenAway; a full Redis is answered at once if an answer was asked for. An error means
// that nothing was decided and no answer was asked for, or that ctx ended: handle e again.
//
// An event whose response topic is not allowed (Options.ReplyTopics) is not carried out: reply and error are nil.
func (r *Receiver) Handle(ctx context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
	return r.handle(ctx, e, r.read, r.carryOut)
}

// handle is Handle with the two parts that differ for an MES and for a station.
func (r *Receiver) handle(ctx context.Context, e cloudevent.Event, read func(cloudevent.Event) (request, error),
	carryOut func(context.Context, *request) (cloudevent.Event, error),
) (*cloudevent.Event, error) {
	if r.mute(e) {
		return nil, nil
	}
	started, tries := time.Now(), 0
	req, err := read(e)
	var reply cloudevent.Event
	if err == nil {
		reply, err = r.hold(ctx, e.Delivery.ResponseTopic != "", func(ctx context.Context) (cloudevent.Event, error) {
			tries++
			return carryOut(ctx, &req)
		})
	}
	v := req.verdict(err)
	if _, failed := errors.AsType[*programError](err); failed && e.Delivery.ResponseTopic == "" {
		return nil, r.store.Failed(ctx, jobstore.Message{Kind: jobstore.KindProgram, Event: e}, err)
	}
	if undecided(err) {
		if ctx.Err() != nil {
			return nil, err
		}
		if e.Delivery.ResponseTopic == "" { // the caller holds it, for nobody else would send it again
			return nil, r.store.Failed(ctx, jobstore.Message{Kind: "command", Event: e}, err)
		}
		v.message = unserved(err, time.Since(started))
	}
	repeated := false
	switch again, before := errors.AsType[*repeatError](err); {
	case before:
		reply, repeated, v = again.reply, true, verdict{status: isa95.NoError}
	case err != nil:
		if e.Delivery.ResponseTopic == "" && jobstore.Final(err) {
			if failed := r.store.Failed(ctx, jobstore.Message{Kind: "command", Event: e}, err); failed != nil {
				return nil, failed
			}
		}
		reply = r.refuse(&req, v)
	}
	r.report(&req, v, err, repeated, tries, time.Since(started))
	return &reply, nil
}

// Refuse makes the answer to an event that could not be read: the error, and for methods and configuration the
// ReturnStatus that says so, too. nil: its response topic is not allowed.
func (r *Receiver) Refuse(_ context.Context, e cloudevent.Event, why *cloudevent.Error) *cloudevent.Event {
	if r.mute(e) {
		return nil
	}
	req := request{event: e}
	if req.method, _ = isa95.MethodByTypeID(e.Type); req.method == "" {
		req.method, _ = isa95.StationMethodByTypeID(e.Type)
	}
	req.config, _ = isa95.ConfigByTypeID(e.Type)
	v := req.verdict(why)
	reply := r.refuse(&req, v)
	r.report(&req, v, why, false, 0, 0)
	return &reply
}

// carryOut does what was read, once. The reply is that of success.
func (r *Receiver) carryOut(ctx context.Context, req *request) (cloudevent.Event, error) {
	switch {
	case req.config != "":
		return r.configure(ctx, req)
	case req.method.IsQuery():
		return r.query(ctx, req)
	}
	return r.call(ctx, req)
}

// call carries out one of the eleven methods: load, decide, commit.
func (r *Receiver) call(ctx context.Context, req *request) (cloudevent.Event, error) {
	snap, change, err := r.judge(ctx, req, func(ctx context.Context, q jobstore.Query) (*jobstore.Snapshot, error) {
		q.Source, q.ID = req.event.Source, req.event.ID
		return r.load(ctx, req, q)
	})
	if err != nil {
		return cloudevent.Event{}, err
	}
	return r.commit(ctx, req, snap, change)
}

// judge loads what the decision needs, and decides.
func (r *Receiver) judge(ctx context.Context, req *request, load func(context.Context, jobstore.Query) (*jobstore.Snapshot, error)) (*jobstore.Snapshot, jobstore.Change, error) {
	q := jobstore.Query{JobOrderID: req.id, Scope: req.scope}
	q.Response = req.method == isa95.Abort || req.method == isa95.Stop // a station may have handed it in while the order runs
	if req.order != nil {
		var err error
		if req.text == nil { // it is encoded once, however often it is decided
			req.text, err = isa95.Marshal(req.order)
		}
		if err != nil {
			return nil, jobstore.Change{}, err
		}
		q.Acceptance = r.opt.Skip.reduce(req.order)
		q.Configured = !r.opt.AnyScope
		q.WorkMaster = jobstore.WorkMasterOf(req.order)
	}
	snap, err := load(ctx, q)
	if err != nil {
		return nil, jobstore.Change{}, err
	}
	if a := snap.Acceptance; a != nil {
		r.opt.limit(a)
	}
	if snap.Execution != nil && !snap.Execution.Terminal() || snap.Job != nil && snap.Job.Station.Start != "" {
		if err := r.store.SyncInstallationTime(ctx); err != nil {
			return nil, jobstore.Change{}, err
		}
	}
	change, err := req.decide(snap, r.program(snap), r.store.Now(), r.store.InstallationTime())
	return snap, change, err
}

// commit writes the change together with the reply to it, which it returns.
func (r *Receiver) commit(ctx context.Context, req *request, snap *jobstore.Snapshot, change jobstore.Change) (cloudevent.Event, error) {
	reply := r.reply(req, verdict{status: isa95.NoError}, change.Now)
	change.Seen = &jobstore.Seen{Body: req.event.Data, Reply: &reply}
	return reply, r.store.Commit(ctx, snap, change)
}

// load reads what the decision needs. A command that was carried out before is a *repeatError, whatever has expired since.
func (r *Receiver) load(ctx context.Context, req *request, q jobstore.Query) (*jobstore.Snapshot, error) {
	snap, err := r.store.Load(ctx, q)
	if err != nil {
		return nil, err
	}
	if snap.Seen {
		return nil, r.seen(ctx, req, snap)
	}
	return snap, expired(req.event, r.store.Now())
}

// seen is the outcome of a command that was carried out before: its reply, once that is as safe as it must be.
func (r *Receiver) seen(ctx context.Context, req *request, snap *jobstore.Snapshot) error {
	if err := r.store.Replicated(ctx, snap); err != nil {
		return err
	}
	return r.repeated(req, snap)
}

// repeatError says that the command was carried out before, and with what reply.
type repeatError struct{ reply cloudevent.Event }

func (e *repeatError) Error() string { return "jobcontrol: the command was carried out before" }

// repeated is the stored reply, on its way to whoever repeated the command. An id that was used for something else is
// refused, for the requester would take that reply for this one.
func (r *Receiver) repeated(req *request, snap *jobstore.Snapshot) error {
	stored := snap.Reply
	if stored == nil || stored.Type != req.event.Type || stored.Subject != req.event.Subject || snap.SeenBody != jobstore.Revision(req.event.Data) {
		return cloudevent.Errorf(cloudevent.KindUserPropertyInvalid, "the id %.200q of %.200q was used before, for another event", req.event.ID, req.event.Source)
	}
	again := *stored
	again.CorrelationID = req.event.CorrelationID
	again.Delivery = req.event.Reply(nil, "", "", time.Time{}).Delivery
	return &repeatError{reply: again}
}

// hold tries until it is decided: again soon when another writer was faster (ErrConflict), and while Redis does not serve.
// It gives up after HoldWhenAway, or when ctx ends, with the last error of Redis. A full Redis stays full for longer than
// that, and has written nothing, so a command that asked for an answer gets it at once.
func (r *Receiver) hold(ctx context.Context, asked bool, try func(context.Context) (cloudevent.Event, error)) (cloudevent.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, r.opt.HoldWhenAway)
	defer cancel()
	pause := time.Duration(0)
	var last error
	for {
		reply, err := try(ctx)
		switch {
		case errors.Is(err, jobstore.ErrConflict):
			pause = min(max(2*pause, time.Millisecond), 32*time.Millisecond)
		case asked && jobstore.Full(err):
			return reply, err
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil && last != nil:
			return reply, last // the reason, not that its time is over
		case jobstore.Waits(err), jobstore.Unknown(err):
			pause = min(max(2*pause, 16*time.Millisecond), 500*time.Millisecond)
		default:
			return reply, err
		}
		last = err
		select {
		case <-ctx.Done():
			return reply, err
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// undecided says that err tells nothing about the command, or that it is carried out and not safe yet: it may be tried again.
func undecided(err error) bool {
	_, short := errors.AsType[*jobstore.ReplicasError](err)
	return short || jobstore.Waits(err) || jobstore.Unknown(err) || errors.Is(err, jobstore.ErrConflict) || errors.Is(err, context.Canceled)
}

// unserved is the answer to a command that is undecided.
func unserved(err error, took time.Duration) string {
	var short *jobstore.ReplicasError
	switch {
	case errors.As(err, &short) && short.Err == nil && short.OnDisk:
		return fmt.Sprintf("stored here, not yet on the disks of the master and of %d replicas (master %t, replicas %d within %v); repeat it under the same id",
			short.Want, !short.NotOnMaster, short.Acknowledged, short.Within)
	case errors.As(err, &short) && short.Err == nil:
		return fmt.Sprintf("stored here, not yet on %d replicas (%d within %v); repeat it under the same id", short.Want, short.Acknowledged, short.Within)
	case jobstore.Full(err):
		return "not carried out: " + jobstore.Reason(err) + "; repeat it under the same id when there is room"
	case errors.Is(err, jobstore.ErrConflict):
		return "not carried out within " + took.Round(time.Millisecond).String() + ": others changed the order each time; repeat it under the same id"
	}
	return "not carried out within " + took.Round(time.Millisecond).String() + ", or not known to be: " + jobstore.Reason(err) + "; repeat it under the same id"
}

// report tells the log and Options.Observe what became of an event.
func (r *Receiver) report(req *request, v verdict, err error, repeated bool, tries int, took time.Duration) {
	e := req.event
	asked := e.Delivery.ResponseTopic != ""
	if err != nil && !repeated {
		log := r.opt.Log.Debug
		switch {
		case v.kind == cloudevent.KindInternalLogicError:
			log = r.opt.Log.Error
		case v.kind == cloudevent.KindServiceUnavailable: // the store logs its trouble as an error, once a minute
			log = r.opt.Log.Warn
		case !asked:
			log = r.opt.Log.Warn // nobody else hears of it
		}
		log("jobcontrol: refused", "type", e.Type, "scope", e.Scope(), "job", string(req.id), "source", e.Source, "id", e.ID, "status", uint64(v.status), "err", err)
	}
	if r.opt.Observe == nil {
		return
	}
	o := Observation{Status: v.status, Kind: v.kind, Repeated: repeated, Asked: asked, Tries: tries, Took: took}
	if req.program || knownType(e.Type) {
		o.Type = e.Type
	}
	r.opt.Observe(o)
}

// knownType says whether a type is one of ours: a method of an MES or a station, a query or configuration.
func knownType(typ string) bool {
	_, method := isa95.MethodByTypeID(typ)
	_, config := isa95.ConfigByTypeID(typ)
	_, station := isa95.StationMethodByTypeID(typ)
	return method || config || station
}
