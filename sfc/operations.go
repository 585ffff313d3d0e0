package sfc

import (
	"slices"

	"github.com/taktworks/takt/recipe"
)

// Operation names what was done, for counting and for the log.
//
// The first four are the scripts of the Persistence page. Here each is a part of a decision
// made in Go, and one commit carries out all parts of a decision together: the action that was settled, the
// steps that followed up to a fixed point, and the end of the job. So none can be done without those that belong to it,
// none is lost between two, and each is done once: the commit compares the whole documents.
type Operation string

const (
	OpActionState   Operation = "cas_action_state"   // an action was dispatched, began to wait, completed or failed
	OpAdvanceStep   Operation = "cas_advance_step"   // current_step became another step, or a branch
	OpBranchAdvance Operation = "cas_branch_advance" // active_steps changed within a branch
	OpFinish        Operation = "cas_finish"         // completed or failed, once

	OpStart    Operation = "start"    // a work entry started a recipe
	OpDispatch Operation = "dispatch" // a command went to the broker
	OpMailbox  Operation = "mailbox"  // an event came early and was kept
	OpWork     Operation = "work"     // a work entry that is no work
	OpAbort    Operation = "abort"    // a job order was aborted because its recipe cannot run
	OpTimer    Operation = "timer"    // a timer that nothing needs was removed
	OpSweep    Operation = "sweep"    // the sweeper enqueued or ended what was forgotten
)

// Result says how an operation went. The first three are the replies of the scripts of the Persistence page.
type Result string

const (
	OK             Result = "OK"              // done, and committed
	AlreadyHandled Result = "ALREADY_HANDLED" // nothing to do: done before, or overtaken
	NotFound       Result = "NOT_FOUND"       // no such command, job order, recipe in execution or action

	Invalid Result = "INVALID" // what came cannot be used
	Forged  Result = "FORGED"  // an answer without the token of its command, or from a process of Takt
	Dropped Result = "DROPPED" // a command that nobody needs any more was not sent
	Left    Result = "LEFT"    // an order that no recipe runs: its station has it
	Ignored Result = "IGNORED" // an event that nobody waits for and that is not kept
)

// Counted is one thing to count: Options.Count.
type Counted struct {
	Operation Operation
	Result    Result
}

func (e *Engine) count(o Operation, r Result) { e.opt.Count(Counted{o, r}) }

// operations tells which of the four parts lead from one execution document to the next.
func operations(before, after *recipe.Execution) []Operation {
	var parts []Operation
	for i := range after.Actions {
		was := before.Action(after.Actions[i].Name)
		if is := &after.Actions[i]; was == nil || was.State != is.State || was.Attempt != is.Attempt || was.Iteration != is.Iteration {
			parts = append(parts, OpActionState)
			break
		}
	}
	switch {
	case before.CurrentStep != after.CurrentStep:
		parts = append(parts, OpAdvanceStep)
	case !slices.Equal(before.ActiveSteps, after.ActiveSteps):
		parts = append(parts, OpBranchAdvance)
	}
	if after.Terminal() && !before.Terminal() {
		parts = append(parts, OpFinish)
	}
	return parts
}
