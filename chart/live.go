package chart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/recipe"
)

// Live is a run, to be shown in its chart.
type Live struct {
	// Execution is the run. Steps and actions that the recipe does not have are passed over.
	Execution *recipe.Execution
	// Now is the installation time at which the run is shown: times in steps and times left count from it. While the run
	// is paused, and once it is over, they stand still.
	Now time.Time
	// Waits says by the index of a transition in Recipe.Transitions why it does not fire. It may be nil.
	Waits map[int]string
}

// state answers what a run says about the parts of its chart. A nil state has no run.
type state struct {
	x     *recipe.Execution
	now   int64 // ms
	waits map[int]string
}

// The states of parts, which are classes of the style sheet.
const (
	stateActive = "active"
	stateDone   = "done"
	stateFailed = "failed"
)

func newState(live *Live) *state {
	if live == nil || live.Execution == nil {
		return nil
	}
	s := &state{x: live.Execution, now: live.Now.UnixMilli(), waits: live.Waits}
	switch {
	case s.x.Terminal() && s.x.EndedAt != 0:
		s.now = s.x.EndedAt
	case s.x.Paused && s.x.PausedAt != 0:
		s.now = s.x.PausedAt
	}
	return s
}

func (s *state) phase() string {
	switch s.x.Phase() {
	case recipe.PhaseFailed:
		return stateFailed
	case recipe.PhaseCompleted:
		return stateDone
	}
	return stateActive
}

// heading is the run in a line.
func (s *state) heading() string {
	words := "running"
	switch {
	case s.x.Failed:
		words = "failed: " + s.x.Error
	case s.x.Stopped:
		words = "stopped"
	case s.x.Completed:
		words = "completed"
	case s.x.Paused:
		words = "paused"
	}
	if s.x.StartedAt != 0 {
		words = "T " + span(s.now-s.x.StartedAt) + ", " + words
	}
	return clean(s.x.JobID + ": " + words)
}

func (s *state) entry(name string) *recipe.StepEntry {
	i := slices.IndexFunc(s.x.Steps, func(e recipe.StepEntry) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return &s.x.Steps[i]
}

// active tells whether a step is active; in a run that failed its active steps are where it failed.
func (s *state) active(name string) bool { return slices.Contains(s.x.ActiveSteps, name) }

// entered is the state of a step or branch.
func (s *state) entered(name string) string {
	switch {
	case s == nil:
		return ""
	case s.active(name) || name == s.x.CurrentStep && !s.x.Terminal():
		if s.x.Failed {
			return stateFailed
		}
		return stateActive
	case s.entry(name) != nil:
		return stateDone
	}
	return ""
}

// mark goes before the name of a step.
func (s *state) mark(name string) string {
	return map[string]string{stateActive: "● ", stateDone: "✓ ", stateFailed: "✗ "}[s.entered(name)]
}

// note is the time in an active step, and how often a step was entered if that is more than once.
func (s *state) note(name string) string {
	e := s.entry(name)
	if e == nil {
		return ""
	}
	var parts []string
	if s.active(name) {
		parts = append(parts, "T "+span(s.now-e.Since))
	}
	if e.Iteration > 1 {
		parts = append(parts, fmt.Sprint("×", e.Iteration))
	}
	return strings.Join(parts, "  ")
}

func (s *state) step(name string) (state, note, mark string) {
	if s == nil {
		return "", "", ""
	}
	return s.entered(name), s.note(name), s.mark(name)
}

// branch says what a selection branch waits for.
func (s *state) branch(name string) string {
	if s != nil && !s.x.Terminal() {
		if e := s.entry(name); e != nil && e.Choosing {
			return "no condition is true yet"
		}
	}
	return ""
}

func (s *state) wait(transition int) string {
	if s == nil || transition < 0 {
		return ""
	}
	if why := clean(s.waits[transition]); why != "" {
		return "waits: " + why
	}
	return ""
}

func (s *state) action(a *recipe.Action) string {
	if s == nil {
		return ""
	}
	if e := s.x.Action(a.Name); e != nil {
		switch e.State {
		case recipe.ActionDispatched, recipe.ActionWaiting:
			return stateActive
		case recipe.ActionCompleted:
			return stateDone
		case recipe.ActionFailed:
			return stateFailed
		}
	}
	return ""
}

// progress is where an action stands: what it waits for and how long, its result or its error.
func (s *state) progress(a *recipe.Action) string {
	if s == nil {
		return ""
	}
	e := s.x.Action(a.Name)
	if e == nil {
		return ""
	}
	switch e.State {
	case recipe.ActionCompleted:
		return strings.TrimRight("✓ "+clean(string(e.Result)), " ")
	case recipe.ActionFailed:
		return clean("✗ " + e.Error)
	case recipe.ActionDispatched, recipe.ActionWaiting:
	default:
		return ""
	}
	words := "sent"
	if e.State == recipe.ActionWaiting {
		words = "waits"
	}
	switch {
	case e.Left != 0:
		words += ", " + span(e.Left) + " left"
	case e.Deadline != 0:
		words += ", " + span(e.Deadline-s.now) + " left"
	}
	if attempts := cmp.Or(a.MaxAttempts, 1); attempts > 1 && e.State == recipe.ActionDispatched {
		words += fmt.Sprintf(", attempt %d of %d", e.Attempt-e.FirstAttempt+1, attempts)
	}
	if e.Error != "" {
		words += ", before: " + clean(e.Error)
	}
	return words
}

// span writes milliseconds, to a tenth of a second below a minute.
func span(ms int64) string {
	d := time.Duration(max(0, ms)) * time.Millisecond
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	}
	return d.Truncate(time.Second).String()
}
