package sfc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// errBroken: a recipe in execution cannot go on, for its text is gone, or this version cannot compile it.
var errBroken = errors.New("the recipe in execution")

// load reads a job order, its execution, and the mailboxes of all events of its recipe, which is the program that it
// returns. With the right sha of a recipe that was compiled here before it is one round trip; it reads again with
// what it missed, once when sha was wrong or not compiled here, and once more when both. program is nil if nothing
// is in execution. Besides the errors of jobstore.Load there is errBroken; snap is then usable for an Abort.
func (e *Engine) load(ctx context.Context, q jobstore.Query, sha string) (snap *jobstore.Snapshot, program *recipe.Program, err error) {
	also := q.Mailboxes
	for {
		program, q.Mailboxes, q.Recipe = e.programs.Known(sha), also, ""
		switch {
		case program != nil:
			q.Mailboxes = union(also, program.PullTypes())
		case sha != "":
			q.Recipe = sha
		}
		snap, err = e.store.Load(ctx, q)
		if err != nil {
			return nil, nil, err
		}
		x := snap.Execution
		if snap.Job == nil || x == nil || x.Terminal() {
			if snap.Job != nil {
				snap.Scope = snap.Job.Scope
			}
			e.running.drop(q.JobOrderID)
			return snap, nil, nil
		}
		if x.Recipe != sha {
			sha = x.Recipe
			program = e.programs.Known(sha)
		} else if program == nil {
			if program, err = e.compileStored(sha, snap.RecipeText); err != nil {
				return snap, nil, err
			}
		}
		sameScope := q.Scope == snap.Job.Scope
		if program != nil && subset(program.PullTypes(), q.Mailboxes) && (sameScope || len(q.Mailboxes) == 0) {
			snap.Scope = snap.Job.Scope
			e.running.put(q.JobOrderID, jobstore.Route{JobOrderID: q.JobOrderID, Scope: snap.Scope, Recipe: sha})
			return snap, program, nil
		}
		q.Scope = snap.Job.Scope
	}
}

// recall returns a job order in execution, and its program, without reading them, for a decision that ends in a commit: that proves that both are still so.
// nil: something of it is not known here, or an action waits for an event, whose mailbox would have to be read.
func (e *Engine) recall(id isa95.JobOrderID) (*jobstore.Snapshot, *recipe.Program) {
	snap := e.store.Recall(id)
	if snap == nil || len(snap.Execution.WaitingTypes()) > 0 {
		return nil, nil
	}
	if program := e.programs.Known(snap.Execution.Recipe); program != nil {
		return snap, program
	}
	return nil, nil
}

// errRecalled: the decision needs a mailbox, or ends without a commit that would prove what was recalled.
var errRecalled = errors.New("sfc: decided on what was recalled")

func (e *Engine) compileStored(sha string, text []byte) (*recipe.Program, error) {
	err := errors.New("its text is no longer stored")
	if text != nil {
		var program *recipe.Program
		if program, err = e.programs.Compile(text); err == nil {
			return program, nil
		}
	}
	return nil, fmt.Errorf("%w (SHA-256 %.12s) cannot go on: %w", errBroken, sha, err)
}

// known is where to find a recipe in execution, as far as this instance knows: a guess for load.
func (e *Engine) known(id isa95.JobOrderID) (q jobstore.Query, sha string) {
	route, _ := e.running.get(id)
	return jobstore.Query{JobOrderID: id, Scope: route.Scope, Running: true}, route.Recipe
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

func subset(part, whole []string) bool {
	return !slices.ContainsFunc(part, func(s string) bool { return !slices.Contains(whole, s) })
}
