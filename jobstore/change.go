package jobstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// Change is everything one decision writes. What it does not name stays as it is.
type Change struct {
	// Transition replaces the job order or its state, and says so on the change streams, in the index of the
	// retained topics and as a status event.
	Transition *Transition
	// Response replaces the response. With a Transition that is one to a state that can be cleared. Without one the order is in such a state, or it runs:
	// then no topic and no index has the response yet.
	Response *isa95.JobResponse
	Station  *Station // replaces StoredOrder.Station

	// Execution replaces the execution document. With it go Due, its next timer (zero: none), and Recipe, the text of
	// the recipe when it was started with this change.
	Execution *recipe.Execution
	Due       time.Time
	Recipe    []byte
	Mailboxes map[string]*recipe.Mailbox // by TypeId, those that changed
	Commands  []recipe.Command           // for the equipment: of the Execution, or of NewStationCommand
	Taken     []recipe.PullEvent         // out of the mailboxes: if they come again they are handled

	Work []string // for the recipe engine: WorkStart, WorkResume

	Seen *Seen // the CloudEvent that asked for the change; a second commit for it conflicts

	// Acceptance makes the commit fail with ErrConflict if one of the facts of an accepted order is no longer so.
	Acceptance *Acceptance

	// WorkMaster makes the commit fail with ErrConflict if the scope would not run any more what Load found as
	// Snapshot.WorkMaster: for decisions that were made on it.
	WorkMaster bool

	// Item is the work this change settles: the entry leaves the work stream with it.
	Item *WorkItem

	// Now stands in the documents and entries.
	Now time.Time
	// CorrelationID and CausationID of the status event. The history names CausationID, the CloudEvent behind the change, and Source, its sender, too.
	CorrelationID, CausationID, Source string
	Facts                              []recipe.Fact // of the decision about Execution, for the history
}

// Transition is a step of the job state machine, already decided by isa95.Next.
type Transition struct {
	Method isa95.Method    // the change_type of the entry
	Order  *isa95.JobOrder // the order as it shall be; nil: as it was read
	Text   []byte          // Order in JSON, as isa95.Marshal makes it; nil = not made yet
	State  isa95.State

	JudgedBy string // with Order: as in StoredOrder
}

// Seen records that a CloudEvent was handled.
type Seen struct {
	Body  []byte            // of the CloudEvent: another one under the same id is not a repeat
	Reply *cloudevent.Event // given again to a repeated command; nil for an event
}

// Work verbs.
const (
	WorkStart  = "start_recipe"
	WorkResume = "resume"
)

// resultUpdate is the change_type of a response.
const resultUpdate = "ResultUpdate"

// Commit writes the change in one round trip, if everything read by Load for snap is still so. ErrConflict: it is
// not, nothing was written; load and decide again. *ReplicasError: it is written, see Options.Replicas. For any other error see Away.
func (s *Store) Commit(ctx context.Context, snap *Snapshot, change Change) error {
	w := &writer{store: s, snap: snap, change: change, c: commit.New()}
	if err := w.build(); err != nil {
		return err
	}
	rdb := s.rdb
	if change.Seen != nil && change.Seen.Reply != nil {
		rdb = s.safely() // it is acknowledged to an MES
	}
	if err := s.apply(ctx, rdb, w.c, w); err != nil {
		return fmt.Errorf("jobstore: job order %s: %w", snap.JobOrderID, err)
	}
	return nil
}

// apply runs c, which the writers have built.
func (s *Store) apply(ctx context.Context, rdb rueidis.Client, c *commit.Commit, writers ...*writer) error {
	result, err := c.Run(ctx, rdb)
	if err != nil {
		for _, w := range writers {
			s.recall.changed(w.snap.JobOrderID)
		}
		return s.alarm.Note(err)
	}
	s.commits.Add(1)
	for _, w := range writers {
		w.wrote()
		if w.change.Transition != nil {
			s.witness.acknowledged(result.IDs[w.entry])
		}
		if w.change.Item != nil {
			w.change.Item.settled = true
		}
	}
	return nil
}

// writer turns one change into one commit.
type writer struct {
	store  *Store
	snap   *Snapshot
	change Change
	c      *commit.Commit

	id                   string // job order id
	scope                string
	state                isa95.State     // after the change
	order                *isa95.JobOrder // after the change
	text                 []byte          // order in JSON
	event                EventMark       // of the status event
	jobDoc, executionDoc []byte          // as they are stored

	entry int // place of the last change entry among the ids that the commit returns
}

func (w *writer) build() error {
	w.id, w.scope = string(w.snap.JobOrderID), string(w.snap.Scope)
	w.expect()
	if w.change.Transition != nil {
		if err := w.transition(*w.change.Transition); err != nil {
			return err
		}
	} else if w.change.Station != nil || w.change.Response != nil {
		if err := w.station(); err != nil {
			return err
		}
	}
	if x := w.change.Execution; x != nil {
		w.execution()
		if cancels := x.NewCancels(w.snap.Execution); len(cancels) > 0 {
			w.change.Commands = append(w.change.Commands, DrawSeed().Tokens(cancels)...)
		}
	}
	if err := w.commands(); err != nil {
		return err
	}
	w.mailboxes()
	w.taken()
	for _, verb := range w.change.Work {
		w.c.XAdd(w.store.keys.SfcWork(), 0, "action", verb, "job_id", w.id, "scope", w.scope)
	}
	if w.change.Seen != nil {
		if err := w.store.writeSeen(w.c, w.snap, w.change.Seen); err != nil {
			return err
		}
	}
	if w.change.Item != nil {
		w.change.Item.entry.Settle(w.c)
	}
	return w.history()
}

// expect makes the commit depend on the job order, its execution and, if that was read, its response, on the mailboxes that it changes, and on the
// facts of the acceptance checks.
func (w *writer) expect() {
	for _, key := range []string{w.snap.keys.job, w.snap.keys.execution, w.store.keys.JobResponse(string(ResponseID(w.snap.JobOrderID)))} {
		if doc, ok := w.snap.doc(key); ok {
			w.c.Expect(key, doc)
		}
	}
	if w.change.Seen != nil {
		w.snap.expectSeen(w.c)
	}
	if w.change.WorkMaster && w.snap.workMaster != nil {
		w.snap.workMaster.expect(w.c)
	}
	if a := w.change.Acceptance; a != nil {
		if a.Limit >= 0 && (w.snap.Job == nil || w.snap.Job.State.IsEnd()) {
			w.c.ExpectCard(a.listKey, a.Limit-a.joined)
		}
		for _, m := range a.members {
			w.c.ExpectMember(m.key, m.id)
		}
		if a.configuration != nil {
			a.configuration.expect(w.c)
		}
	}
}

func (w *writer) transition(t Transition) error {
	k, c := w.store.keys, w.c
	w.order, w.state = t.Order, t.State
	judgedBy := t.JudgedBy
	var err error
	switch {
	case w.order == nil:
		w.order, judgedBy = w.snap.Job.JobOrder, w.snap.Job.JudgedBy
		w.text, err = w.snap.Job.Text()
	case t.Text != nil:
		w.text = t.Text
	default:
		w.text, err = isa95.Marshal(w.order)
	}
	var response []byte
	if r := w.change.Response; r != nil && err == nil {
		response, err = encodeResponse(r, w.state, w.snap.Scope)
	}
	w.event = nextEvent(w.snap.Job, w.change.Now)
	var doc []byte
	if err == nil {
		doc, err = encodeOrder(w.text, w.state, storedOrder{Scope: w.snap.Scope, Event: w.event, Station: w.stationAfter(), JudgedBy: judgedBy})
	}
	if err != nil {
		return fmt.Errorf("jobstore: encode job order %s: %w", w.id, err)
	}
	w.jobDoc = doc
	responseID := string(ResponseID(w.snap.JobOrderID))
	if w.state.IsEnd() {
		w.leave(doc, responseID)
	} else {
		if w.snap.Job != nil && w.snap.Job.State.IsEnd() { // the id is used again: nothing of the old order may stay
			c.Del(k.JobResponse(responseID))
			c.Del(w.snap.keys.execution)
			c.Del(k.History(w.id))
			c.Del(k.HistoryStart(w.id))
		}
		c.Set(w.snap.keys.job, doc, 0)
		w.list()
	}
	if err := w.index(responseID, response); err != nil {
		return err
	}
	w.changed(string(t.Method))
	if w.change.Response != nil {
		w.changed(resultUpdate)
	}
	return w.statusEvent()
}

// list puts a new order into the list of its scope, and one with another priority into its place.
func (w *writer) list() {
	k, c, before := w.store.keys, w.c, w.snap.Job
	isNew := before == nil || before.State.IsEnd()
	if isNew || before.JobOrder.PriorityOr0() != w.order.PriorityOr0() {
		c.ZAdd(k.JobOrderList(w.scope), float64(w.order.PriorityOr0()), w.id)
	}
	if isNew {
		c.SAdd(k.ActiveScopes(), w.scope)
	}
}

// leave takes an order that reached EndState out of every index at once; its documents expire later.
//
// It begins with a write that needs no memory: a full Redis refuses a script at its first write if that may need some, and
// Clear and Cancel are what makes room.
func (w *writer) leave(doc []byte, responseID string) {
	k, c, keep := w.store.keys, w.c, w.store.opt.EndStateRetention
	c.ZRem(k.JobOrderList(w.scope), w.id)
	c.Set(w.snap.keys.job, doc, keep)
	c.Expire(k.JobResponse(responseID), keep)
	c.Expire(w.snap.keys.execution, keep)
	c.ZRem(k.JobResponseList(w.scope), responseID)
	c.SRem(k.ResponsesByState(w.scope, w.snap.Job.State.String()), responseID)
}

// index writes what the retained topics shall be, and the response if there is one.
func (w *writer) index(responseID string, response []byte) error {
	k, c := w.store.keys, w.c
	entry := IndexEntry{Gone: w.state.IsEnd()}
	if !entry.Gone {
		entry.State, entry.Priority, entry.Order = w.state.Elements(), w.order.PriorityOr0(), revision(w.text)
	}
	if r := w.change.Response; r != nil {
		c.Set(k.JobResponse(responseID), response, 0)
		if w.state.Clearable() {
			entry.Result = revision(response)
			c.ZAdd(k.JobResponseList(w.scope), r.StartScore(), responseID)
			c.SAdd(k.ResponsesByState(w.scope, w.state.String()), responseID)
		}
	}
	value, err := isa95.Marshal(entry)
	if err != nil {
		return err
	}
	c.HSet(k.PubIndex(w.scope), w.id, value)
	c.SAdd(k.PubDirty(), w.scope)
	return nil
}

// changed appends one entry to both change streams.
func (w *writer) changed(changeType string) {
	k, max := w.store.keys, w.store.opt.ChangeCap
	ts := w.change.Now.UTC().Format("2006-01-02T15:04:05.000000-07:00")
	for _, stream := range []string{k.Changes(w.scope), k.ChangesAll()} {
		w.entry = w.c.XAdd(stream, max, "change_type", changeType, "job_order_id", w.id, "scope", w.scope, "ts", ts)
	}
}

// statusEvent puts the event of a transition into the outbox, so that it is sent if and only if the change was
// written.
func (w *writer) statusEvent() error {
	data, err := withOrder(w.text, isa95.StatusEvent{JobResponse: w.change.Response, JobState: w.state.Elements()})
	if err != nil {
		return err
	}
	event := cloudevent.Event{
		ID: cloudevent.NewID(), Source: w.store.opt.Source, SpecVersion: "1.0",
		Type: isa95.StatusEventType, DataSchema: isa95.StatusEventSchema, DataContentType: cloudevent.ContentTypeJSON,
		Subject: w.scope, RecordedTime: w.event.RecordedTime, Extensions: map[string]string{"sequence": fmt.Sprintf("%010d", w.event.Sequence)},
		ExpiryInterval: int64(w.store.opt.EventExpiry / time.Second),
		CorrelationID:  w.change.CorrelationID, CausationID: w.change.CausationID, Data: data,
	}
	text, err := event.MarshalJSON()
	if err != nil {
		return err
	}
	w.c.XAdd(w.store.keys.EventReceiver(), 0, "scope", w.scope, "job_order_id", w.id, "event", string(text))
	return nil
}

func (w *writer) execution() {
	k, c, x := w.store.keys, w.c, w.change.Execution
	w.executionDoc = x.Encode()
	keep := time.Duration(0)
	if job := w.snap.Job; w.change.Transition == nil && job != nil && job.State.IsEnd() { // a cancel command is answered late
		keep = w.store.opt.EndStateRetention
	}
	c.Set(w.snap.keys.execution, w.executionDoc, keep)
	if w.change.Recipe != nil {
		c.Set(k.SfcRecipe(x.Recipe), w.change.Recipe, 0)
	}
	before := w.snap.Execution
	switch {
	case x.Completed || x.Failed:
		c.SRem(k.SfcActiveJobs(), w.id)
		c.Set(k.SfcCorrelation(x.CorrelationID), []byte(w.id), commandTTL) // what equipment still sends for this run is for no other
	case before == nil || before.Terminal() || before.CorrelationID != x.CorrelationID || w.change.Item != nil:
		// A work entry may be there because the sweeper missed the job among the active ones.
		c.SAdd(k.SfcActiveJobs(), w.id)
		c.Set(k.SfcCorrelation(x.CorrelationID), []byte(w.id), 0)
	}
	if w.change.Due.IsZero() {
		c.ZRem(k.SfcTimers(), w.id)
	} else {
		c.ZAdd(k.SfcTimers(), float64(w.change.Due.UnixMilli()), w.id)
	}
}

// commandTTL is how long an answer that comes after its deadline can still be told from one never asked for, and an event
// of a run that is over from one of no run.
const commandTTL = 24 * time.Hour

func (w *writer) commands() error {
	for _, command := range w.change.Commands {
		text, err := json.Marshal(command)
		if err != nil {
			return err
		}
		w.c.XAdd(w.store.keys.SfcOutbox(), 0, "scope", w.scope, "job_id", w.id, "command", string(text))
		key, keep := w.store.keys.SfcCommand(command.ID), routeTTL(command, w.store.InstallationTime())
		if command.Again { // its deadline is a later one if the job was paused
			w.c.Expire(key, keep)
			continue
		}
		r := Route{JobOrderID: w.snap.JobOrderID, Scope: w.snap.Scope, Token: command.Token, Method: stationMethod(command)}
		if command.Cancels != "" {
			r.Cancel = &command
		}
		switch {
		case r.Standing():
			r.Since = w.store.InstallationTime().UnixMilli()
			if r.Sequence = w.event.Sequence; w.change.Transition == nil && w.snap.Job != nil {
				r.Sequence = w.snap.Job.Event.Sequence
			}
			w.c.ZAdd(w.store.keys.SfcTimers(), float64(r.Since+commandTTL.Milliseconds()), stationTimer+command.ID) // sooner once it was sent: RepeatStation
		default:
			r.Recipe = w.change.Execution.Recipe
		}
		route, err := json.Marshal(r)
		if err != nil {
			return err
		}
		w.c.Set(key, route, keep)
	}
	return nil
}

// routeTTL is how long the route of c is kept; now is installation time.
func routeTTL(c recipe.Command, now time.Time) time.Duration {
	return max(c.Deadline.Sub(now), 0) + commandTTL
}

func (w *writer) mailboxes() {
	for typ, box := range w.change.Mailboxes {
		key := w.snap.typeKeys[typ]
		read, _ := w.snap.doc(key)
		w.c.Expect(key, read)
		switch {
		case !box.Empty():
			ttl := time.Duration(0)
			if len(box.Waiting) == 0 {
				ttl = mailboxTTL
			}
			w.c.Set(key, box.Encode(), ttl)
		case read != nil:
			w.c.Del(key)
		}
	}
}

// mailboxTTL is how long a mailbox without waiting actions stays after its last change: longer than any event in it is of use.
const mailboxTTL = recipe.MailboxHold + time.Hour

// taken marks early events as seen. Until an action has one, the mailbox is what says that it came: so an event is never taken for
// handled that is no longer kept.
func (w *writer) taken() {
	for _, ev := range w.change.Taken {
		w.store.writeTaken(w.c, w.scope, ev.Source, ev.ID)
	}
}

// Route says which recipe an equipment command belongs to, and what its answer must carry: sfc:cmd:{id}. It does not change.
type Route struct {
	JobOrderID isa95.JobOrderID `json:"job_id"`
	Scope      isa95.Scope      `json:"scope"`
	Recipe     string           `json:"recipe"` // SHA; "" for a command of NewStationCommand
	Token      recipe.Token     `json:"token,omitempty"`
	Method     isa95.Method     `json:"method,omitempty"`   // of a command of NewStationCommand,
	Cancel     *recipe.Command  `json:"cancel,omitempty"`   // a command that calls another one off
	Since      int64            `json:"since,omitempty"`    // of both: when it was made, installation time in milliseconds,
	Sequence   int64            `json:"sequence,omitempty"` // and after which status event of the order
}

// Route finds what an equipment command belongs to. ErrNotFound: never sent, or long ago.
func (s *Store) Route(ctx context.Context, commandID string) (Route, error) {
	key := s.keys.SfcCommand(commandID)
	doc, err := s.get(ctx, key)
	if err != nil {
		return Route{}, err
	}
	return decodeRoute(key, doc)
}

func decodeRoute(key string, doc []byte) (Route, error) {
	var r Route
	if err := json.Unmarshal(doc, &r); err != nil {
		return Route{}, &DocumentError{Key: key, Err: err}
	}
	return r, nil
}

// KeepRoute returns the route of a command that is sent again. If it has expired, for a job may be paused longer than a route is kept, fresh becomes the route; of
// several processes that find it so, one wins.
func (s *Store) KeepRoute(ctx context.Context, c recipe.Command, fresh Route) (Route, error) {
	route, err := s.Route(ctx, c.ID)
	if !errors.Is(err, ErrNotFound) {
		return route, err
	}
	key := s.keys.SfcCommand(c.ID)
	text, err := json.Marshal(fresh)
	if err != nil {
		return Route{}, err
	}
	set := s.rdb.B().Set().Key(key).Value(string(text)).Nx().Px(routeTTL(c, s.InstallationTime())).Build()
	if err := s.rdb.Do(ctx, set).Error(); err != nil && !rueidis.IsRedisNil(err) {
		return Route{}, fmt.Errorf("jobstore: route of command %s: %w", c.ID, err)
	}
	return s.Route(ctx, c.ID)
}
