package jobstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// streams reports entries that nobody finishes, and dead letters.
func (c *checker) streams(ctx context.Context) error {
	s := c.store
	for _, stream := range []string{s.keys.SfcWork(), s.keys.SfcOutbox(), s.keys.EventReceiver()} {
		next := nextSenders
		if stream == s.keys.SfcWork() {
			next = nextWait
		}
		oldest := true
		for after := "-"; ; {
			entries, _, err := read(ctx, c, stream, s.rdb.B().Xrange().Key(stream).Start(after).End("+").Count(1000).Build(), asEntries)
			if err != nil {
				return err
			}
			for _, e := range entries {
				c.busy[e.FieldValues["job_id"]] = true
				if age := c.store.Now().Sub(entryTime(e.ID)); oldest && age > c.opt.Grace {
					c.violationOf(e.ID, stream, next, "entry %s is %v old and not finished: %v", e.ID, age.Round(time.Second), e.FieldValues)
				}
				oldest = false
			}
			if len(entries) < 1000 {
				break
			}
			after = "(" + entries[len(entries)-1].ID
		}
		dead, _, err := read(ctx, c, s.keys.DeadLetter(stream), s.rdb.B().Xlen().Key(s.keys.DeadLetter(stream)).Build(), asInt)
		if err != nil {
			return err
		}
		if dead > 0 {
			c.violationOf("dead letters", s.keys.DeadLetter(stream), "read it with XRANGE, mend the cause, then DEL it", "%d dead letters", dead)
		}
	}
	given, _, err := read(ctx, c, s.keys.IntakeDead(), s.rdb.B().Xlen().Key(s.keys.IntakeDead()).Build(), asInt)
	if err != nil {
		return err
	}
	if given > 0 {
		c.violationOf("dead letters", s.keys.IntakeDead(), "read it with XRANGE, mend the cause, send again what is still needed, then DEL it", "%d messages could not be handled", given)
	}
	letters, _, err := read(ctx, c, s.keys.PublisherDeadLetter(), s.rdb.B().Xlen().Key(s.keys.PublisherDeadLetter()).Build(), asInt)
	if letters > 0 {
		c.violationOf("dead letters", s.keys.PublisherDeadLetter(), "read it with XRANGE, mend the cause, then DEL it", "%d changes could not be published", letters)
	}
	return err
}

func entryTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, _ := strconv.ParseInt(ms, 10, 64) // ids are made by the server
	return time.UnixMilli(n)
}

// recipes compares executions with their orders: nothing runs for an order that does not, nothing that runs is forgotten.
func (c *checker) recipes(ctx context.Context) error {
	s := c.store
	active, known, err := read(ctx, c, s.keys.SfcActiveJobs(), s.rdb.B().Smembers().Key(s.keys.SfcActiveJobs()).Build(), asStrings)
	if err != nil {
		return err
	}
	running := make(map[string]bool, len(active))
	for _, id := range active {
		running[id] = true
		switch x, o := c.executions[id], c.jobs[id]; {
		case c.unreadable(s.keys.SfcExecution(id)), x != nil && c.unreadable(s.keys.JobOrder(id)): // reported
		case x == nil:
			c.violation(s.keys.SfcActiveJobs(), nextReport, "names %s, which has no execution document", id)
		case x.Terminal():
			c.violation(s.keys.SfcActiveJobs(), nextReport, "names %s, whose recipe is over", id)
		case o == nil:
			c.violation(s.keys.SfcExecution(id), nextReport, "runs, but there is no such order")
		case o.State.Top != isa95.Running && o.State.Top != isa95.Interrupted:
			c.violation(s.keys.SfcExecution(id), nextReport, "runs, but the order is %s", o.State)
		}
	}
	for id, x := range c.executions {
		if known && !x.Terminal() && !running[id] {
			c.violation(s.keys.SfcExecution(id), nextReport, "runs, but is not in %s", s.keys.SfcActiveJobs())
		}
		c.commandIDs(id, x)
	}
	for id, o := range c.jobs {
		if o.State.Top == isa95.AllowedToStart && o.Station.Start == "" && !c.busy[id] {
			c.violation(s.keys.JobOrder(id), nextWait+"; it enqueues such orders again", "is %s and nothing will start it", o.State)
		}
	}
	return nil
}

// commandIDs: one id per action, iteration and attempt.
func (c *checker) commandIDs(id string, x *recipe.Execution) {
	for _, a := range x.Actions {
		if a.CommandID != "" && a.State == recipe.ActionDispatched && a.CommandID != recipe.CommandID(x.CorrelationID, a.Name, a.Iteration, a.Attempt) {
			c.violation(c.store.keys.SfcExecution(id), nextReport, "action %s has command id %s, not that of its iteration and attempt", a.Name, a.CommandID)
		}
	}
}

// timers: every recipe that waits for a time has its timer, and no other job has one.
func (c *checker) timers(ctx context.Context) error {
	s := c.store
	timers, ok, err := read(ctx, c, s.keys.SfcTimers(), s.rdb.B().Zrange().Key(s.keys.SfcTimers()).Min("0").Max("-1").Withscores().Build(), asScores)
	if !ok {
		return err
	}
	ahead, err := s.clockOffset(ctx)
	if err != nil {
		return c.failed(s.keys.SfcClock(), err)
	}
	now := s.Now().Add(-ahead)
	set := make(map[string]bool, len(timers))
	for _, t := range timers {
		set[t.Member] = true
		_, station := StationTimer(isa95.JobOrderID(t.Member))
		if x := c.executions[t.Member]; !station && !c.unreadable(s.keys.SfcExecution(t.Member)) && (x == nil || x.Terminal()) {
			c.violation(s.keys.SfcTimers(), nextReport, "names %s, which has no running recipe", t.Member)
		}
		if late := now.Sub(time.UnixMilli(int64(t.Score))); late > c.opt.Grace {
			c.violationOf(fmt.Sprintf("the timer of %s is due at %v", t.Member, t.Score), s.keys.SfcTimers(), nextWait, "the timer of %s is %v late", t.Member, late.Round(time.Second))
		}
	}
	for id, x := range c.executions {
		if due := x.Due(); !due.IsZero() && !set[id] {
			c.violation(s.keys.SfcExecution(id), nextReport, "waits for %v and has no timer", due)
		}
	}
	return nil
}
