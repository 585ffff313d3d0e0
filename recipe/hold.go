package recipe

import "time"

// What an MES does to a running recipe (spec B.9). None of these needs the recipe, so
// that jobcontrol can call them in the commit of the job order. Each returns a changed
// copy; a terminal execution is returned as it is.

// Abort ends the run as failed, for reason. Commands in flight stay recorded as
// dispatched; their answers are stale from now on.
func (x *Execution) Abort(reason string, now time.Time) *Execution {
	if x.Terminal() {
		return x
	}
	c := x.Clone()
	c.Failed, c.Error = true, reason
	c.end(now)
	return c
}

// Stop ends the run as completed, with the results there are.
func (x *Execution) Stop(now time.Time) *Execution {
	if x.Terminal() {
		return x
	}
	c := x.Clone()
	c.Completed, c.Stopped = true, true
	c.end(now)
	return c
}

// end stops all timers.
func (x *Execution) end(now time.Time) {
	x.EndedAt = now.UnixMilli()
	x.Paused, x.PausedAt, x.WakeAt = false, 0, 0
	for i := range x.Actions {
		a := &x.Actions[i]
		x.callOff(a, x.EndedAt)
		a.Deadline, a.ResendAt, a.Left, a.Cancel = 0, 0, 0, Cancel{}
	}
}

// Pause makes all timers stand still. Until Resume, answers and events are recorded, no
// command is sent and no transition fires.
func (x *Execution) Pause(now time.Time) *Execution {
	if x.Terminal() || x.Paused {
		return x
	}
	c := x.Clone()
	c.Paused, c.PausedAt, c.WakeAt = true, now.UnixMilli(), 0
	for i := range c.Actions {
		a := &c.Actions[i]
		if a.Deadline != 0 {
			a.Left = max(a.Deadline-c.PausedAt, 1) // 0 would be no time-out at all
		}
		a.Deadline, a.ResendAt = 0, 0
	}
	return c
}

// Resume sets the timers to what was left of them. Commands that are unanswered are due
// to be sent again at once, under the same id, and conditions are due to be looked at:
// by Program.Evaluate, or else by the next Program.Tick.
func (x *Execution) Resume(now time.Time) *Execution {
	if x.Terminal() || !x.Paused {
		return x
	}
	c := x.Clone()
	ms := now.UnixMilli()
	pause := max(ms-c.PausedAt, 0)
	c.Paused, c.PausedAt, c.WakeAt = false, 0, ms
	for i := range c.Steps {
		c.Steps[i].Since += pause // step.t stood still
	}
	for i := range c.Actions {
		a := &c.Actions[i]
		if a.Left != 0 {
			a.Deadline = ms + a.Left
		}
		if a.State == ActionDispatched {
			a.ResendAt = ms
		}
		a.Left = 0
	}
	return c
}
