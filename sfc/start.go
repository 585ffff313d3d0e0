package sfc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// lastStart is what a scope ran last. The next order of the scope probably runs the same: then all is read at once.
type lastStart struct {
	workMaster isa95.WorkMasterID
	pullTypes  []string
}

// startBytes is the memory for what scopes ran last.
const startBytes = 4 << 20

func (e *Engine) rememberStart(scope isa95.Scope, workMaster isa95.WorkMasterID, pullTypes []string) {
	if last, ok := e.starts.Get(scope); ok && last.workMaster == workMaster && slices.Equal(last.pullTypes, pullTypes) {
		return
	}
	last := lastStart{workMaster: isa95.WorkMasterID(strings.Clone(string(workMaster)))}
	bytes := sharedBytes + len(scope) + len(workMaster)
	for _, t := range pullTypes {
		last.pullTypes = append(last.pullTypes, strings.Clone(t))
		bytes += 16 + len(t)
	}
	e.starts.Put(isa95.Scope(strings.Clone(string(scope))), last, bytes)
}

// start begins the recipe of a job order that may start. Everything goes into one commit: the order is Running, its
// execution exists, its first commands are in the outbox, its timer is set, and the work entry is gone. So a
// repeated entry finds an order that does not wait any more, and does nothing.
func (e *Engine) start(ctx context.Context, item *jobstore.WorkItem) error {
	return again(ctx, func() error {
		plan, err := e.plan(ctx, item)
		if err != nil {
			return err
		}
		switch {
		case plan.problem != "":
			return e.abort(ctx, item.JobOrderID, plan.problem, item)
		case plan.result == Left:
			return e.handOver(ctx, item, plan)
		case plan.program == nil:
			e.log.Debug("not started", "job", item.JobOrderID, "why", plan.why)
			e.count(OpStart, plan.result)
			return nil
		}
		return e.begin(ctx, item, plan)
	})
}

// plan is what is to be done with a job order: start program, or abort it for its problem, or nothing.
type plan struct {
	snap    *jobstore.Snapshot
	program *recipe.Program
	problem string // why our recipe cannot start
	result  Result // of doing nothing,
	why     string // and its reason
}

// plan reads what a start needs. With the right guess it is one round trip, else two or three.
func (e *Engine) plan(ctx context.Context, item *jobstore.WorkItem) (plan, error) {
	nothing := func(r Result, why string) (plan, error) { return plan{result: r, why: why}, nil }
	q := jobstore.Query{JobOrderID: item.JobOrderID, Scope: item.Scope}
	if last, ok := e.starts.Get(item.Scope); ok {
		q.WorkMaster, q.Mailboxes = last.workMaster, last.pullTypes
	}
	for {
		snap, err := e.store.Load(ctx, q)
		switch job := snapJob(snap); {
		case err != nil:
			return plan{}, err
		case job == nil:
			return nothing(NotFound, "there is no such job order")
		case job.State.Top != isa95.AllowedToStart:
			return nothing(AlreadyHandled, "the job order is "+job.State.String())
		case snap.Execution != nil && !snap.Execution.Terminal(): // a terminal one is of an earlier use of the id
			return nothing(AlreadyHandled, "its recipe is in execution")
		case job.Station.Start != "":
			return nothing(AlreadyHandled, "its station has it")
		case job.WorkMaster() == "":
			return plan{snap: snap, result: Left, why: "it names no work master"}, nil
		case job.WorkMaster() != q.WorkMaster || job.Scope != q.Scope:
			q.WorkMaster, q.Scope, q.Mailboxes = job.WorkMaster(), job.Scope, nil
			if last, ok := e.starts.Get(q.Scope); ok && last.workMaster == q.WorkMaster {
				q.Mailboxes = last.pullTypes
			}
			continue
		}
		wm := snap.WorkMaster
		if wm == nil {
			return plan{problem: fmt.Sprintf("work master %q is not known", q.WorkMaster)}, nil
		}
		if wm.DataSchema != recipe.SchemaURI {
			return plan{snap: snap, result: Left, why: fmt.Sprintf("work master %q has no recipe of ours", q.WorkMaster)}, nil
		}
		program, err := e.programs.Compile(wm.Data)
		if err != nil {
			return plan{problem: fmt.Sprintf("work master %q: %v", q.WorkMaster, err)}, nil
		}
		if why := changedSince(snap.Job, program); why != "" {
			return plan{problem: fmt.Sprintf("work master %q has changed since the order was taken: %s", q.WorkMaster, why)}, nil
		}
		if types := program.PullTypes(); !subset(types, q.Mailboxes) {
			q.Mailboxes = types
			continue
		}
		e.rememberStart(q.Scope, q.WorkMaster, program.PullTypes())
		return plan{snap: snap, program: program}, nil
	}
}

// changedSince checks the parameters of an order anew, before its first command, if it was accepted for another recipe.
func changedSince(job *jobstore.StoredOrder, program *recipe.Program) string {
	if job.JudgedBy == program.SHA() {
		return ""
	}
	return program.Refusal(job.RecipeOrder())
}

func snapJob(snap *jobstore.Snapshot) *jobstore.StoredOrder {
	if snap == nil {
		return nil
	}
	return snap.Job
}

// begin commits the start. The text of the recipe is kept with the execution: whatever becomes of the work master, the
// order goes on as it began.
func (e *Engine) begin(ctx context.Context, item *jobstore.WorkItem, p plan) error {
	now, begin, job := e.store.Now(), e.store.InstallationTime(), p.snap.Job
	state, ok := isa95.Next(job.State, isa95.Run)
	if !ok {
		return fmt.Errorf("sfc: job order %s is %s, and no Run leads out of that", item.JobOrderID, job.State)
	}
	seed := e.draw()
	order := job.RecipeOrder()
	out := p.program.Start(order, string(job.WorkMaster()), item.ID, p.snap.Mailboxes, begin)
	x := out.Docs.Execution
	x.BegunAt = now.UnixMilli()
	change := jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.Run, State: state},
		Execution:  x, Due: out.Due, Commands: seed.Tokens(out.Commands), Recipe: p.snap.WorkMaster.Data,
		Mailboxes: changedMailboxes(out), Taken: out.Taken, Item: item, Now: now, CorrelationID: x.CorrelationID, Facts: out.Facts,
	}
	if out.Phase != recipe.PhaseRunning {
		change.Work = []string{jobstore.WorkResume} // see over
	}
	if err := e.store.Commit(ctx, p.snap, change); err != nil {
		return err
	}
	e.running.put(item.JobOrderID, jobstore.Route{JobOrderID: item.JobOrderID, Scope: job.Scope, Recipe: p.program.SHA()})
	e.log.Debug("recipe started", "job", item.JobOrderID, "scope", job.Scope, "workmaster", job.WorkMaster())
	e.count(OpStart, OK)
	return nil
}
