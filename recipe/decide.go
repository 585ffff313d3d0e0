package recipe

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Phase is where a run stands after a decision.
type Phase string

// The phases. A completed or failed run ends its job (End or Abort) in the same commit.
const (
	PhaseRunning   Phase = "Running"
	PhaseCompleted Phase = "Completed"
	PhaseFailed    Phase = "Failed"
)

// Order is what conditions may see of a job order. Parameters maps the id of each job
// order parameter to its value, as encoding/json would decode it (json.Number and
// json.RawMessage are taken too).
type Order struct {
	ID           string
	Scope        string
	Parameters   map[string]any
	WorkMasterID string
}

// Docs is what a decision reads and changes: the execution, and the mailbox of each event
// type of the recipe (Program.PullTypes). A type without a mailbox has none stored.
type Docs struct {
	Execution *Execution
	Mailboxes map[string]*Mailbox
	Intake    Intake
}

// Intake is what a decision about a time-out must know of those who take the answers. The
// zero value says that they always could, and that the caller sent every command itself.
type Intake struct {
	// Resumed is since when, in installation time, answers can be taken without a break.
	Resumed time.Time
	// Sent says whether the caller itself sent the command with that id; nil: it did.
	Sent func(commandID string) bool
}

// Answer is the equipment's answer to the command CommandID: a Result, or an Error.
type Answer struct {
	CommandID  string
	Result     json.RawMessage
	Error      *ActionError
	Unreadable string // why the answer cannot be read, "" = it can: it fails the action, as a Result does that is not JSON

	body *body // Result as read, nil: not yet
}

// Command is one message to equipment: what the outbox sends.
type Command struct {
	ID            string
	JobID         string
	Scope         string
	Action        string
	TypeID        string
	CorrelationID string
	Attempt       int
	Iteration     int
	Parameters    json.RawMessage
	Deadline      time.Time
	Again         bool // sent before under the same ID

	// LastCall is how long an answer may take once the broker has this command, the last of its action (Execution.LastCalled); 0: it is not the last.
	LastCall time.Duration `json:",omitempty"`

	// Cancels is the id of the command that this one calls off, "" for a command of an action.
	Cancels string `json:",omitempty"`

	// Token is what the answer must carry. The engine adds it after the decision; a command that is sent again has that of its route.
	Token Token `json:",omitempty"`
}

// Outcome is a decision: what to commit, in one unit. The documents in it are new; those
// decided on are as they were. Docs.Mailboxes is the map that was decided on if none of them changed.
type Outcome struct {
	Docs             Docs
	ChangedMailboxes []string // keys of Docs.Mailboxes, sorted; an Empty one is to be deleted
	Commands         []Command
	Taken            []PullEvent // early events that actions got: they are handled now
	Due              time.Time   // next timer of the execution, zero = none
	Phase            Phase
	Stale            bool   // the event changed nothing: there is nothing to commit
	Note             string // for the log: why Stale, or how the run ended
	Facts            []Fact // all that the decision did, in order
}

// decision is one decision under way: copies of the documents, and what came of them.
type decision struct {
	p        *Program
	o        *Order
	x        *Execution
	mail     map[string]*Mailbox // those of the documents, until one changes
	own      map[string]bool     // mailboxes that are copies, so may be changed; nil: mail is not ours
	commands []Command
	facts    []Fact
	taken    []PullEvent
	now      int64 // Unix ms
	cache    cache
	intake   Intake
	entered  int   // steps entered in this decision
	wake     int64 // when a condition over step.t is to be looked at again
	note     string
}

// Start makes the first decision of a run: the execution document, the initial step and
// all that follows at once. startKey makes this start different from other starts of the
// same order id; the same start repeated must have the same startKey. mail holds the
// mailboxes of PullTypes that are stored.
func (p *Program) Start(o Order, workMasterID, startKey string, mail map[string]*Mailbox, now time.Time) Outcome {
	x := &Execution{
		JobID: o.ID, Scope: o.Scope, WorkMasterID: workMasterID, CurrentStep: p.initial,
		CorrelationID: CorrelationID(o.ID, startKey), Recipe: p.sha, StartedAt: now.UnixMilli(),
	}
	d := p.decide(&o, Docs{Execution: x, Mailboxes: mail}, now)
	d.enter(p.initial)
	d.settle()
	return d.outcome()
}

// Answer takes the equipment's answer. It counts for any attempt of the current iteration
// of an action that is dispatched. One that fails the action, as a refusal does or what
// cannot be read, counts for the latest attempt only: an earlier one was given up when it
// was refused or timed out. Every other answer is Stale.
func (p *Program) Answer(o Order, docs Docs, a Answer, now time.Time) Outcome {
	if why := p.unfit(docs.Execution); why != "" {
		return stale(docs, why)
	}
	d := p.decide(&o, docs, now)
	e := d.answered(a.CommandID)
	if e == nil {
		return stale(docs, "no action awaits the answer to command "+a.CommandID)
	}
	result, kind, fault := d.read(e, a)
	switch {
	case kind == FactAnswer:
		e.complete(result)
		d.fact(kind, e)
	case e.CommandID != a.CommandID:
		return stale(docs, fmt.Sprintf("action %s, attempt %d awaits an answer; an earlier one %s", e.Name, e.Attempt, fault))
	default:
		d.failAction(e, kind, fault)
	}
	d.settle()
	return d.outcome()
}

// read gives the result in a (FactAnswer), or says why e cannot have it.
func (d *decision) read(e *ActionEntry, a Answer) (result json.RawMessage, kind FactKind, fault string) {
	switch {
	case a.Error != nil:
		return nil, FactRefused, wasRefused + a.Error.text()
	case a.Unreadable != "":
		return nil, FactUnreadable, wasUnreadable + a.Unreadable
	}
	a, _ = a.Read()
	result, err := a.body.result()
	if err == nil {
		err = d.resultFits(e, result)
	}
	if err != nil {
		return nil, FactUnreadable, "was answered, but " + err.Error()
	}
	return result, FactAnswer, ""
}

// What stands before the reason that equipment gave, in the fault of an action.
const (
	wasRefused    = "was refused: "
	wasUnreadable = "was answered, but the answer cannot be read: "
)

// Answers takes answers as Answer does, one after the other, for one commit. each says what came of every one, in their
// order. The outcome is Stale if all are; it has no command that a later one of the answers made superfluous.
func (p *Program) Answers(o Order, docs Docs, answers []Answer, now time.Time) (out Outcome, each []Outcome) {
	out = stale(docs, "there is no answer")
	var commands []Command
	var facts []Fact
	var changed []string
	for _, a := range answers {
		next := p.Answer(o, docs, a, now)
		each = append(each, next)
		if next.Stale {
			if out.Stale {
				out = next
			}
			continue
		}
		out, docs = next, next.Docs
		commands, facts = append(commands, next.Commands...), append(facts, next.Facts...)
		changed = append(changed, next.ChangedMailboxes...)
	}
	if out.Stale {
		return out, each
	}
	out.Commands = slices.DeleteFunc(commands, func(c Command) bool { return !out.Docs.Execution.Awaits(c) })
	out.Facts = sent(facts, out.Commands)
	slices.Sort(changed)
	out.ChangedMailboxes = slices.Compact(changed)
	return out, each
}

// Pulled takes an event that Mailbox.Match gave to action of this job. The waiting entry
// leaves the mailbox. Stale if the action does not wait, or the payload is not JSON. The
// action fails if its payload makes the results of the run too many.
func (p *Program) Pulled(o Order, docs Docs, action string, ev PullEvent, now time.Time) Outcome {
	if why := p.unfit(docs.Execution); why != "" {
		return stale(docs, why)
	}
	data, err := payload(ev.Data)
	if err != nil {
		return stale(docs, fmt.Sprintf("event %s for action %s is ignored: %v", ev.ID, action, err))
	}
	d := p.decide(&o, docs, now)
	i := slices.IndexFunc(p.actions, func(a *Action) bool { return a.Name == action })
	if i < 0 || d.entry(i).State != ActionWaiting || !d.active(p.actions[i].Step) {
		return stale(docs, "action "+action+" does not wait for an event")
	}
	e := d.entry(i)
	d.forget(e)
	d.accept(e, data)
	d.settle()
	return d.outcome()
}

// Tick does what time brings: commands sent again, time-outs, conditions over step.t,
// early events past their time. Stale if there is none of it yet.
func (p *Program) Tick(o Order, docs Docs, now time.Time) Outcome {
	return p.look(o, docs, now, false)
}

// Evaluate looks at everything anew, as after Resume or by a sweeper that repairs: what
// Tick does, and the mailboxes are put right. It is Stale only if the run is over or
// paused, so that its timers are written again.
func (p *Program) Evaluate(o Order, docs Docs, now time.Time) Outcome {
	return p.look(o, docs, now, true)
}

func (p *Program) look(o Order, docs Docs, now time.Time, anew bool) Outcome {
	if why := p.unfit(docs.Execution); why != "" {
		return stale(docs, why)
	}
	if docs.Execution.Paused {
		return stale(docs, "the job is paused")
	}
	due := docs.Execution.Due()
	nothingDue := due.IsZero() || due.After(now)
	d := p.decide(&o, docs, now)
	d.expireMail()
	if nothingDue && !anew && len(d.own) == 0 {
		return stale(docs, "nothing is due")
	}
	d.timers()
	if anew {
		d.meet()
	}
	d.settle()
	return d.outcome()
}

// unfit says why x cannot be decided on, "" if it can.
func (p *Program) unfit(x *Execution) string {
	switch {
	case x == nil:
		return "there is no execution"
	case x.Terminal():
		return "the run is over"
	case x.Recipe != "" && x.Recipe != p.sha:
		return "the execution runs another recipe, " + x.Recipe
	}
	return ""
}

func stale(docs Docs, why string) Outcome {
	out := Outcome{Docs: docs, Stale: true, Note: why, Phase: PhaseRunning}
	if docs.Execution != nil {
		out.Phase, out.Due = docs.Execution.Phase(), docs.Execution.Due()
	}
	return out
}

// decide copies what docs hold and sets up the entries of all actions, in the order of
// the recipe.
func (p *Program) decide(o *Order, docs Docs, now time.Time) *decision {
	d := &decision{
		p: p, o: o, x: docs.Execution.Clone(), now: now.UnixMilli(), mail: docs.Mailboxes, intake: docs.Intake,
	}
	if !d.entriesInOrder() {
		entries := make([]ActionEntry, len(p.actions))
		for i, a := range p.actions {
			entries[i] = ActionEntry{Name: a.Name, State: ActionPending, TypeID: a.TypeID}
			if e := docs.Execution.Action(a.Name); e != nil {
				entries[i] = *e
			}
		}
		d.x.Actions = entries
	}
	return d
}

func (d *decision) entriesInOrder() bool {
	if len(d.x.Actions) != len(d.p.actions) {
		return false
	}
	for i, a := range d.p.actions {
		if d.x.Actions[i].Name != a.Name {
			return false
		}
	}
	return true
}

func (d *decision) outcome() Outcome {
	return Outcome{
		Docs:     Docs{Execution: d.x, Mailboxes: d.mail},
		Commands: d.commands,
		Facts:    sent(d.facts, d.commands),
		Taken:    d.taken,
		Due:      d.x.Due(),
		Phase:    d.x.Phase(),
		Note:     d.note,

		ChangedMailboxes: slices.Sorted(maps.Keys(d.own)),
	}
}

// answered finds the action that commandID is of: dispatched, in an active step, in its
// current iteration, by any attempt.
func (d *decision) answered(commandID string) *ActionEntry {
	for i, action := range d.p.actions {
		e := d.entry(i)
		if e.State != ActionDispatched || !d.active(action.Step) {
			continue
		}
		if e.CommandID == commandID {
			return e
		}
		for n := max(e.FirstAttempt, e.Attempt-action.maxAttempts()+1, 1); n < e.Attempt; n++ {
			if CommandID(d.x.CorrelationID, action.Name, e.Iteration, n) == commandID {
				return e
			}
		}
	}
	return nil
}

// timers: time-outs, and commands to send again. In active steps only, as all else; a
// timer anywhere else, in a document that something else wrote, is put out, for it would
// be due for ever.
func (d *decision) timers() {
	for i, action := range d.p.actions {
		e := d.entry(i)
		if e.State != ActionDispatched && e.State != ActionWaiting || !d.active(action.Step) {
			e.Deadline, e.ResendAt = 0, 0
			continue
		}
		switch {
		case e.Deadline != 0 && e.Deadline <= d.now && d.lastCall(i):
		case e.Deadline != 0 && e.Deadline <= d.now:
			what := "no answer"
			if e.State == ActionWaiting {
				what = "no event " + action.TypeID
			}
			if asset := d.p.assets[i]; asset != "" {
				what += " of " + asset
			}
			d.x.callOff(e, d.now)
			d.failAction(e, FactTimeout, fmt.Sprintf("timed out: %s within %d s", what, action.TimeoutSeconds))
		case e.ResendAt != 0 && e.ResendAt <= d.now:
			e.ResendAt = d.resendAt(action, e.Deadline)
			d.send(i, true)
		}
	}
}

// redelivery is one round of redelivery: how long equipment and broker have to bring an
// answer again.
func redelivery(action *Action) int64 {
	return min(int64(action.TimeoutSeconds)*1000/3, 5000)
}

// unsentCall is how long a last call may wait for the broker: behind other commands, or faults.
const unsentCall = 60_000

// lastCall puts a time-out off, and tells whether it did: once, if the answer or event may be on
// its way. That is so if no process could take it since the command was sent, or since the action
// waits, and if the caller did not send the command itself. The command is sent again: equipment
// answers a repeated id once more. It has one round of redelivery from when the broker has the
// command (Execution.LastCalled), which is at most unsentCall from now.
func (d *decision) lastCall(i int) bool {
	action, e := d.p.actions[i], d.entry(i)
	resumed := d.intake.Resumed.UnixMilli()
	missed := !d.intake.Resumed.IsZero() && max(e.SentAt, e.DispatchedAt) <= resumed
	if e.State == ActionWaiting {
		if round := redelivery(action); missed && resumed+round > d.now {
			e.Deadline = resumed + round
			return true
		}
		return false
	}
	unseen := !e.LastCall && d.intake.Sent != nil && !d.intake.Sent(e.CommandID)
	if !missed && !unseen {
		return false
	}
	e.LastCall, e.Deadline, e.ResendAt = true, d.now+unsentCall, 0
	d.send(i, true)
	return true
}

// entry is the entry of the i-th action of the recipe.
func (d *decision) entry(i int) *ActionEntry { return &d.x.Actions[i] }

// active tells whether step is. What is not active is never touched.
func (d *decision) active(step string) bool { return slices.Contains(d.x.ActiveSteps, step) }

// mailbox returns the mailbox of a type to read, never nil.
func (d *decision) mailbox(typeID string) *Mailbox {
	if m := d.mail[typeID]; m != nil {
		return m
	}
	return &Mailbox{}
}

// change returns a copy of the mailbox of a type, which then counts as changed.
func (d *decision) change(typeID string) *Mailbox {
	if d.own == nil {
		d.own, d.mail = map[string]bool{}, maps.Clone(d.mail)
		if d.mail == nil {
			d.mail = map[string]*Mailbox{}
		}
	}
	if !d.own[typeID] {
		d.mail[typeID] = d.mailbox(typeID).Clone()
		d.own[typeID] = true
	}
	return d.mail[typeID]
}

// waitingEntry is how the i-th action stands in its mailbox.
func (d *decision) waitingEntry(i int) Waiting {
	return Waiting{
		JobID: d.x.JobID, Action: d.p.actions[i].Name, Asset: d.p.assets[i],
		CorrelationID: d.x.CorrelationID, Since: d.x.StartedAt, Recipe: d.p.sha,
	}
}

// forget removes the waiting entry of e.
func (d *decision) forget(e *ActionEntry) {
	waits := func(w Waiting) bool { return w.JobID == d.x.JobID && w.Action == e.Name }
	if slices.ContainsFunc(d.mailbox(e.TypeID).Waiting, waits) {
		m := d.change(e.TypeID)
		m.Waiting = slices.DeleteFunc(m.Waiting, waits)
	}
}

// expireMail drops early events past their time.
func (d *decision) expireMail() {
	for _, t := range d.p.types {
		if d.mailbox(t).hasExpired(d.now) {
			d.change(t).expire(d.now)
		}
	}
}

// meet puts mailboxes right: every waiting action stands in its mailbox, or gets the
// early event that is there for it.
func (d *decision) meet() {
	for i, action := range d.p.actions {
		e := d.entry(i)
		if e.State != ActionWaiting || !d.active(action.Step) {
			continue
		}
		w := d.waitingEntry(i)
		if d.takeEarly(e, w) {
			d.forget(e)
		} else if !slices.Contains(d.mailbox(e.TypeID).Waiting, w) {
			d.forget(e) // an entry of an earlier start
			m := d.change(e.TypeID)
			m.Waiting = append(m.Waiting, w)
		}
	}
}

// takeEarly gives e an early event, if one is there for w.
func (d *decision) takeEarly(e *ActionEntry, w Waiting) bool {
	i := d.mailbox(e.TypeID).early(w, d.x.Scope, d.now)
	if i < 0 {
		return false
	}
	m := d.change(e.TypeID)
	d.taken = append(d.taken, m.Events[i])
	data := m.Events[i].Data // as Keep took it
	m.Events = slices.Delete(m.Events, i, i+1)
	d.accept(e, data)
	return true
}

// accept completes e with the payload of its event, or fails it if the results of the run
// would be too many.
func (d *decision) accept(e *ActionEntry, result json.RawMessage) {
	if err := d.resultFits(e, result); err != nil {
		d.failAction(e, FactUnreadable, fmt.Sprintf("got its event, but %v", err))
		return
	}
	e.complete(result)
	d.fact(FactEvent, e)
}

// complete ends an attempt with what the equipment gave.
func (e *ActionEntry) complete(result json.RawMessage) { e.end(ActionCompleted, result, "") }

// failAction ends an attempt for what follows "action NAME"; settle decides whether there is another one.
func (d *decision) failAction(e *ActionEntry, kind FactKind, why string) {
	if e.State == ActionWaiting {
		d.forget(e)
	}
	e.end(ActionFailed, nil, "action "+e.Name+" "+why)
	d.fact(kind, e)
	d.facts[len(d.facts)-1].Error = why
}

func (e *ActionEntry) end(state ActionState, result json.RawMessage, why string) {
	e.State, e.Result, e.Error, e.Parameters, e.Cancel = state, result, why, nil, Cancel{}
	e.Deadline, e.ResendAt, e.Left = 0, 0, 0
}
