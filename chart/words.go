package chart

import (
	"fmt"
	"strings"

	"github.com/taktworks/takt/recipe"
)

// what is the name of an action with its direction: a command goes out, an event comes in.
func what(a *recipe.Action) string {
	if a.Interaction == recipe.InteractionPull {
		return "← " + clean(a.Name)
	}
	return "→ " + clean(a.Name)
}

// timing is the time-out of an action, and its attempts if there may be several.
func timing(a *recipe.Action) string {
	if a.Interaction == recipe.InteractionPush && a.MaxAttempts > 1 {
		return fmt.Sprintf("%s ×%d", duration(a.TimeoutSeconds), a.MaxAttempts)
	}
	return duration(a.TimeoutSeconds)
}

// duration writes seconds as IEC 61131-3 does: T#1m30s.
func duration(seconds int) string {
	if seconds <= 0 {
		return "T#0s"
	}
	s := "T#"
	for _, unit := range []struct {
		seconds int
		name    string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}} {
		if n := seconds / unit.seconds; n > 0 {
			s += fmt.Sprint(n, unit.name)
			seconds -= n * unit.seconds
		}
	}
	return s
}

// describe is an action in full.
func describe(a *recipe.Action) string {
	kind := "command"
	if a.Interaction == recipe.InteractionPull {
		kind = "event"
	}
	s := fmt.Sprintf("%s: %s %s, %s", clean(a.Name), kind, clean(a.TypeID), timing(a))
	if len(a.Parameters) > 0 {
		parameters := []rune(clean(string(a.Parameters)))
		s += ", " + string(parameters[:min(len(parameters), 300)])
	}
	if a.Cancel != nil {
		s += ", called off by " + clean(a.Cancel.TypeID)
	}
	return s
}

// condition is the condition of a transition as it is shown.
func condition(w *way) string {
	if s := strings.TrimSpace(clean(w.Condition)); s != "" {
		return s
	}
	return "always"
}
