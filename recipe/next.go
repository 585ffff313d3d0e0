package recipe

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// maxEntered bounds the steps entered in one decision. It is not less than MaxSteps, so
// that a run through a whole recipe never meets it: only loops without actions do, and
// loops over early events in great number. Branches do not count, for none is passed
// without a step in it.
const maxEntered = 1000

// settle carries the run on until nothing can move without another event: a fixed point,
// reached inside one decision, so that no state between "action completed" and "step
// advanced" is ever stored. A paused run does not move.
func (d *decision) settle() {
	if d.x.Paused {
		return
	}
	for d.wake = 0; !d.x.Terminal() && d.advance(); d.wake = 0 {
	}
	if !d.x.Terminal() {
		d.x.WakeAt = d.wake
	}
}

// advance makes one move and tells whether it made one.
func (d *decision) advance() bool {
	at, ok := d.p.places[d.x.CurrentStep]
	if !ok {
		d.fail(fmt.Sprintf("the document is at step %q, which the recipe does not have", d.x.CurrentStep))
		return false
	}
	if at.inside != nil { // as a linear step it would look like an end
		d.fail(fmt.Sprintf("the document is at step %s, which is inside branch %s", at.name, at.inside.name))
		return false
	}
	if d.retry() {
		return true
	}
	if at.kind != "" {
		return d.advanceBranch(at)
	}
	if !d.active(at.name) || !d.complete(at) {
		return false
	}
	return d.leave(at)
}

// retry sends the next attempt of one failed action, or fails the job.
func (d *decision) retry() bool {
	for i, action := range d.p.actions {
		e := d.entry(i)
		if e.State != ActionFailed || !d.active(action.Step) {
			continue
		}
		if tried := e.Attempt - e.FirstAttempt + 1; action.Interaction == InteractionPull || tried >= action.maxAttempts() {
			d.fail(e.Error + attempts(tried, action))
			return false
		}
		d.push(i)
		return true
	}
	return false
}

// attempts says how many were made, where more than one is allowed.
func attempts(tried int, a *Action) string {
	if a.maxAttempts() == 1 {
		return ""
	}
	return fmt.Sprintf(" (attempt %d of %d)", tried, a.maxAttempts())
}

// complete: a step is, when all of its actions are; without actions it is at once.
func (d *decision) complete(step *place) bool {
	return !slices.ContainsFunc(step.actions, func(i int) bool { return d.entry(i).State != ActionCompleted })
}

// advanceBranch: choose a path, advance within paths, converge.
func (d *decision) advanceBranch(branch *place) bool {
	record := d.record(branch.name)
	if record.Choosing {
		return d.choosePath(branch)
	}
	for i, name := range d.x.ActiveSteps {
		step := d.p.places[name]
		if step == nil || step.inside != branch {
			d.fail(fmt.Sprintf("step %q is active in branch %s, of which it is no part", name, branch.name))
			return false
		}
		if !d.complete(step) {
			continue
		}
		if step.next != "" {
			d.x.ActiveSteps[i] = step.next
			d.activate(step.next)
			return true
		}
		d.x.ActiveSteps = slices.Delete(d.x.ActiveSteps, i, i+1)
		if len(d.x.ActiveSteps) == 0 {
			d.record(branch.name).Since = d.now
		}
		return true
	}
	if len(d.x.ActiveSteps) > 0 {
		return false
	}
	return d.leave(branch)
}

// choosePath takes the entry of a selection branch whose condition is true; the first
// path, if the branch has no entries.
func (d *decision) choosePath(branch *place) bool {
	step := branch.paths[0][0]
	if len(branch.entries) > 0 {
		chosen := d.choose(branch, branch.entries)
		if chosen == nil {
			return false
		}
		step = chosen.target
		d.fires(chosen)
	}
	d.record(branch.name).Choosing = false
	d.x.ActiveSteps = []string{step}
	d.activate(step)
	return true
}

// leave takes the transition out of a step or branch that is done. The run is over when
// there is none; when there are some and none is true, the step stays.
func (d *decision) leave(from *place) bool {
	if len(from.exits) == 0 {
		d.x.Completed = true
		d.x.ActiveSteps = nil
		d.facts = append(d.facts, Fact{Kind: FactCompleted})
		d.over("completed")
		return false
	}
	chosen := d.choose(from, from.exits)
	if chosen == nil {
		return false
	}
	d.fires(chosen)
	d.enter(chosen.target)
	return true
}

func (d *decision) fires(e *edge) {
	d.facts = append(d.facts, Fact{Kind: FactTransition, Transition: &e.index})
}

// choose returns the edge to take, nil if none is true or the job failed over one. The
// edges are in the order of their priority; otherwise is for when no other is true.
func (d *decision) choose(from *place, edges []edge) *edge {
	var otherwise *edge
	timed := false
	for i := range edges {
		e := &edges[i]
		switch e.condition.kind {
		case conditionAlways:
			return e
		case conditionNever:
		case conditionOtherwise:
			if otherwise == nil {
				otherwise = e
			}
		case conditionExpression:
			timed = timed || e.condition.timed
			holds, err := e.condition.holds(scope{order: d.o, execution: d.x, elapsed: d.elapsed(from), cache: &d.cache})
			if err != nil {
				d.fail(e.fault(err))
				return nil
			}
			if holds {
				return e
			}
		}
	}
	if otherwise == nil && timed {
		since := d.record(from.name).Since
		d.wake = since + ((d.now-since)/1000+1)*1000 // the next full second of step.t
	}
	return otherwise
}

func (e *edge) fault(err error) string {
	return fmt.Sprintf("condition %q from %s to %s failed: %v", e.condition.text, e.source, e.target, err)
}

// elapsed is step.t: seconds since a step became active, or a branch was done.
func (d *decision) elapsed(at *place) float64 {
	return float64(d.now-d.record(at.name).Since) / 1000
}

// enter makes a step or branch the current one.
func (d *decision) enter(name string) {
	at := d.p.places[name]
	d.x.CurrentStep = name
	if at.kind == "" {
		d.x.ActiveSteps = []string{name}
		d.activate(name)
		return
	}
	d.x.ActiveSteps = nil
	if !d.count(name) {
		return
	}
	if at.kind == SelectionBranch {
		d.record(name).Choosing = true
		return
	}
	for _, path := range at.paths { // all at once, then their actions
		d.x.ActiveSteps = append(d.x.ActiveSteps, path[0])
	}
	for _, path := range at.paths {
		d.activate(path[0])
	}
}

// activate begins an iteration of a step: its actions start anew, in the order of the
// recipe.
func (d *decision) activate(name string) {
	if d.x.Terminal() || !d.count(name) {
		return
	}
	iteration := d.record(name).Iteration
	for _, i := range d.p.places[name].actions {
		if d.x.Terminal() { // a command could not be made
			return
		}
		action, e := d.p.actions[i], d.entry(i)
		*e = ActionEntry{
			Name: action.Name, State: ActionPending, TypeID: action.TypeID,
			Attempt: e.Attempt, FirstAttempt: e.Attempt + 1, Iteration: iteration,
		}
		if action.Interaction == InteractionPush {
			d.push(i)
		} else {
			d.await(i)
		}
	}
}

// count counts an entry of a step or branch; too many fail the job.
func (d *decision) count(name string) bool {
	r := d.record(name)
	if r.Iteration >= d.p.recipe.maxIterations() {
		d.fail(fmt.Sprintf("%s was entered %d times, which is the limit", name, r.Iteration))
		return false
	}
	if d.p.places[name].kind == "" {
		d.entered++
	}
	if d.entered > maxEntered {
		d.fail(fmt.Sprintf("the recipe does not rest: %d steps at once, the last %s", maxEntered, name))
		return false
	}
	*r = StepEntry{Name: name, Since: d.now, Iteration: r.Iteration + 1}
	d.facts = append(d.facts, Fact{Kind: FactStep, Step: name, Iteration: r.Iteration})
	return true
}

// record is the record of a step or branch, made when there is none.
func (d *decision) record(name string) *StepEntry {
	for i := range d.x.Steps {
		if d.x.Steps[i].Name == name {
			return &d.x.Steps[i]
		}
	}
	d.x.Steps = append(d.x.Steps, StepEntry{Name: name})
	return &d.x.Steps[len(d.x.Steps)-1]
}

// push sends the next attempt of the i-th action, or fails the job if its Parameters refer to
// what is not there.
func (d *decision) push(i int) {
	action, e := d.p.actions[i], d.entry(i)
	parameters, err := d.parameters(i)
	if err != nil {
		d.fail(fmt.Sprintf("action %s cannot be sent: Parameters%v", action.Name, err))
		return
	}
	e.Attempt++
	e.State, e.Error, e.Parameters = ActionDispatched, "", parameters
	e.CommandID = CommandID(d.x.CorrelationID, action.Name, e.Iteration, e.Attempt)
	e.DispatchedAt = d.now
	e.Deadline = d.now + int64(action.TimeoutSeconds)*1000
	e.ResendAt = d.resendAt(action, e.Deadline)
	e.SentAt, e.LastCall = 0, false
	if action.Cancel != nil {
		e.Cancel = *action.Cancel
	}
	d.send(i, false)
}

// parameters are those of the next command of the i-th action when they have references, nil
// when they are sent as they are written. They are kept with the action, so that the command
// is the same when it is sent again, whatever results have changed meanwhile.
func (d *decision) parameters(i int) (json.RawMessage, error) {
	t := d.p.templates[i]
	if t == nil {
		return nil, nil
	}
	at := d.p.places[d.p.actions[i].Step]
	resolved, err := t.resolve(scope{order: d.o, execution: d.x, elapsed: d.elapsed(at), cache: &d.cache})
	if err != nil {
		return nil, err
	}
	size := len(resolved)
	for j := range d.x.Actions {
		if j != i {
			size += len(d.x.Actions[j].Parameters)
		}
	}
	if size > MaxResultsBytes {
		return nil, fmt.Errorf(": with those of other commands they have %d bytes, and may have %d", size, MaxResultsBytes)
	}
	return resolved, nil
}

// resendAt is a third of the time-out from now, 0 when that is not before the deadline.
func (d *decision) resendAt(action *Action, deadline int64) int64 {
	if at := d.now + int64(action.TimeoutSeconds)*1000/3; at < deadline {
		return at
	}
	return 0
}

// send puts the command of the i-th action into the outbox.
func (d *decision) send(i int, again bool) {
	action, e := d.p.actions[i], d.entry(i)
	parameters := e.Parameters
	if parameters == nil {
		parameters = action.Parameters
	}
	kind := FactCommand
	if again {
		e.SentAt, kind = d.now, FactRepeat
	}
	d.fact(kind, e)
	var last time.Duration
	if e.LastCall {
		last = time.Duration(redelivery(action)) * time.Millisecond
	}
	d.commands = append(d.commands, Command{
		ID: e.CommandID, JobID: d.x.JobID, Scope: d.x.Scope, Action: e.Name, TypeID: action.TypeID,
		CorrelationID: d.x.CorrelationID, Attempt: e.Attempt, Iteration: e.Iteration,
		Parameters: parameters, Deadline: time.UnixMilli(e.Deadline).UTC(), Again: again, LastCall: last,
	})
}

// await takes an early event for the i-th action, or begins to wait.
func (d *decision) await(i int) {
	action, e := d.p.actions[i], d.entry(i)
	e.CommandID = CommandID(d.x.CorrelationID, action.Name, e.Iteration, 0) // never sent; readers expect one
	e.DispatchedAt = d.now
	w := d.waitingEntry(i)
	if d.takeEarly(e, w) {
		return
	}
	d.fact(FactWait, e)
	e.State = ActionWaiting
	e.Deadline = d.now + int64(action.TimeoutSeconds)*1000
	m := d.change(action.TypeID)
	m.Waiting = append(m.Waiting, w)
}

// fail ends the run; nothing more is sent, not even what this decision had begun to send.
func (d *decision) fail(why string) {
	if d.x.Terminal() { // the first reason stands
		return
	}
	d.x.Failed, d.x.Error = true, why
	d.facts = append(d.facts, Fact{Kind: FactFailed, Error: why})
	for _, c := range d.commands {
		if e := d.x.Action(c.Action); !c.Again && e.CommandID == c.ID {
			e.Cancel = Cancel{} // it never left
		}
	}
	d.commands = nil
	d.over(why)
}

// over stops timers and waiting.
func (d *decision) over(note string) {
	d.note = note
	d.x.end(time.UnixMilli(d.now))
	for i := range d.x.Actions {
		if e := d.entry(i); e.State == ActionWaiting {
			d.forget(e)
		}
	}
}
