package sfc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// answers gathers the answers of one job that come while another of them is being committed: the next decision takes all of
// them, with one commit. Each for itself they would conflict over the one execution document.
type answers struct {
	mu      sync.Mutex
	waiting map[isa95.JobOrderID][]*given // an entry for each job of which one answer is being handled
}

// given is one answer that is handled by its caller together with others.
type given struct {
	cause  string // id of the CloudEvent
	answer recipe.Answer
	turn   chan turn // of capacity 1, once it waits
}

// turn is what a waiting caller is told.
type turn struct {
	lead  bool  // handle all that wait
	alone bool  // together it failed: try alone
	err   error // it was handled
}

// settleAnswer settles an answer, together with others of its job that wait.
func (e *Engine) settleAnswer(ctx context.Context, route jobstore.Route, g *given) error {
	id := route.JobOrderID
	if !e.answers.join(id, g) {
		var t turn
		select {
		case t = <-g.turn:
		case <-ctx.Done():
			e.answers.leave(id, g)
			return ctx.Err()
		}
		switch {
		case t.alone:
			return e.settleAnswers(ctx, route, []*given{g})
		case !t.lead:
			return t.err
		}
	}
	batch := e.answers.take(id)
	err := e.settleTogether(ctx, route, batch)
	alone := err != nil && len(batch) > 1 && !errors.Is(err, jobstore.ErrConflict) && !jobstore.Away(err)
	for _, other := range batch {
		if other != g {
			other.turn <- turn{alone: alone, err: err}
		}
	}
	e.answers.next(id)
	if alone {
		return e.settleAnswers(ctx, route, []*given{g})
	}
	return err
}

// settleTogether is settleAnswers; a panic becomes an error, because others wait.
func (e *Engine) settleTogether(ctx context.Context, route jobstore.Route, batch []*given) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("handling answers panicked", "job", route.JobOrderID, "answers", len(batch), "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("sfc: panic: %v", p)
		}
	}()
	return e.settleAnswers(ctx, route, batch)
}

// settleAnswers settles answers with one decision and one commit.
func (e *Engine) settleAnswers(ctx context.Context, route jobstore.Route, batch []*given) error {
	all := make([]recipe.Answer, len(batch))
	for i, g := range batch {
		all[i] = g.answer
	}
	ev := event{
		query: jobstore.Query{JobOrderID: route.JobOrderID, Scope: route.Scope, Running: true}, recipe: route.Recipe,
		cause: batch[len(batch)-1].cause,
	}
	ev.decide = func(s situation) (out recipe.Outcome) {
		out, ev.each = s.program.Answers(s.order, s.docs, all, s.now)
		for i, o := range ev.each { // the last that counted is the cause of what follows
			if !o.Stale {
				ev.cause = batch[i].cause
			}
		}
		return out
	}
	if err := e.settle(ctx, &ev); err != nil {
		return err
	}
	for _, a := range all { // no other answer is awaited; a repeated one finds the route in Redis
		e.routes.drop(a.CommandID)
	}
	return nil
}

// join says whether the caller leads; else it waits for its turn.
func (a *answers) join(id isa95.JobOrderID, g *given) (leads bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	waiting, busy := a.waiting[id]
	if busy {
		g.turn = make(chan turn, 1)
	}
	a.waiting[id] = append(waiting, g)
	return !busy
}

// take gives the leader all that wait, itself included.
func (a *answers) take(id isa95.JobOrderID) []*given {
	a.mu.Lock()
	defer a.mu.Unlock()
	batch := a.waiting[id]
	a.waiting[id] = nil // still busy
	return batch
}

// next lets the first that waits lead.
func (a *answers) next(id isa95.JobOrderID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pass(id)
}

func (a *answers) pass(id isa95.JobOrderID) {
	if waiting := a.waiting[id]; len(waiting) > 0 {
		waiting[0].turn <- turn{lead: true}
		return
	}
	delete(a.waiting, id)
}

// leave is called by one that waits no longer. If it was to lead, the next one does.
func (a *answers) leave(id isa95.JobOrderID, g *given) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at := slices.Index(a.waiting[id], g); at >= 0 {
		a.waiting[id] = slices.Delete(a.waiting[id], at, at+1)
	}
	select {
	case t := <-g.turn:
		if t.lead {
			a.pass(id)
		}
	default:
	}
}
