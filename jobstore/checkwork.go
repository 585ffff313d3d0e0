package jobstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/invariant"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// streams reports entries that nobody finishes, and dead letters.
func (c *checker) streams() {
	k := c.store.keys
	for stream, next := range map[string]string{k.SfcWork(): nextWait, k.SfcOutbox(): nextSenders, k.EventReceiver(): nextSenders} {
		oldest := true
		for e := range c.Entries(stream) {
			c.busy[e.FieldValues["job_id"]] = true
			if age := c.store.Now().Sub(entryTime(e.ID)); oldest && age > c.opt.Grace {
				c.AddAt(e.ID, stream, next, "entry %s is %v old and not finished: %v", e.ID, age.Round(time.Second), e.FieldValues)
			}
			oldest = false
		}
		c.letters(k.DeadLetter(stream), "", "%d dead letters")
	}
	c.letters(k.IntakeDead(), " send again what is still needed,", "%d messages could not be handled")
	c.letters(k.PublisherDeadLetter(), "", "%d changes could not be published")
}

// letters reports what is in a stream of dead letters; also is one more step before it is deleted.
func (c *checker) letters(key, also, problem string) {
	if n, _ := invariant.Read(c.Pass, key, invariant.Length); n > 0 {
		c.AddAt("dead letters", key, "read it with XRANGE, mend the cause,"+also+" then DEL it", problem, n)
	}
}

func entryTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, _ := strconv.ParseInt(ms, 10, 64) // ids are made by the server
	return time.UnixMilli(n)
}

// recipes compares executions with their orders: nothing runs for an order that does not, nothing that runs is forgotten.
func (c *checker) recipes() {
	s := c.store
	active, known := invariant.Read(c.Pass, s.keys.SfcActiveJobs(), invariant.Set)
	running := make(map[string]bool, len(active))
	for _, id := range active {
		running[id] = true
		switch x, o := c.executions[id], c.jobs[id]; {
		case c.Unreadable(s.keys.SfcExecution(id)), x != nil && c.Unreadable(s.keys.JobOrder(id)): // reported
		case x == nil:
			c.Add(s.keys.SfcActiveJobs(), nextReport, "names %s, which has no execution document", id)
		case x.Terminal():
			c.Add(s.keys.SfcActiveJobs(), nextReport, "names %s, whose recipe is over", id)
		case o == nil:
			c.Add(s.keys.SfcExecution(id), nextReport, "runs, but there is no such order")
		case o.State.Top != isa95.Running && o.State.Top != isa95.Interrupted:
			c.Add(s.keys.SfcExecution(id), nextReport, "runs, but the order is %s", o.State)
		}
	}
	for id, x := range c.executions {
		if known && !x.Terminal() && !running[id] {
			c.Add(s.keys.SfcExecution(id), nextReport, "runs, but is not in %s", s.keys.SfcActiveJobs())
		}
		c.commandIDs(id, x)
	}
	for id, o := range c.jobs {
		if o.State.Top == isa95.AllowedToStart && o.Station.Start == "" && !c.busy[id] {
			c.Add(s.keys.JobOrder(id), nextWait+"; it enqueues such orders again", "is %s and nothing will start it", o.State)
		}
	}
}

// commandIDs: one id per action, iteration and attempt.
func (c *checker) commandIDs(id string, x *recipe.Execution) {
	for _, a := range x.Actions {
		if a.CommandID != "" && a.State == recipe.ActionDispatched && a.CommandID != recipe.CommandID(x.CorrelationID, a.Name, a.Iteration, a.Attempt) {
			c.Add(c.store.keys.SfcExecution(id), nextReport, "action %s has command id %s, not that of its iteration and attempt", a.Name, a.CommandID)
		}
	}
}

// timers: every recipe that waits for a time has its timer, and no other job has one.
func (c *checker) timers() {
	s := c.store
	timers, ok := invariant.Read(c.Pass, s.keys.SfcTimers(), invariant.Scores)
	if !ok {
		return
	}
	ahead, err := s.clockOffset(c.Ctx)
	if err != nil {
		c.OK(s.keys.SfcClock(), err)
		return
	}
	now := s.Now().Add(-ahead)
	for id, score := range timers {
		_, station := StationTimer(isa95.JobOrderID(id))
		if x := c.executions[id]; !station && !c.Unreadable(s.keys.SfcExecution(id)) && (x == nil || x.Terminal()) {
			c.Add(s.keys.SfcTimers(), nextReport, "names %s, which has no running recipe", id)
		}
		if late := now.Sub(time.UnixMilli(int64(score))); late > c.opt.Grace {
			c.AddAt(fmt.Sprintf("the timer of %s is due at %v", id, score), s.keys.SfcTimers(), nextWait, "the timer of %s is %v late", id, late.Round(time.Second))
		}
	}
	for id, x := range c.executions {
		if _, set := timers[id]; !set && !x.Due().IsZero() {
			c.Add(s.keys.SfcExecution(id), nextReport, "waits for %v and has no timer", x.Due())
		}
	}
}
