package sampling

import (
	"fmt"
	"time"

	"github.com/taktworks/takt/chart"
)

// Trouble is one thing that is not as it should be.
type Trouble struct {
	Text  string
	About string // a word of this package: samples, engines, streams, recipes, tasks, workflows, letters, order; "" = none of them
}

// What is no trouble yet. docs/operations/alerts.md has alerts on the same figures.
const (
	backlogMay = time.Minute
	lateMay    = 30 * time.Second
	waitingMay = 24 * time.Hour
	staleAfter = 3 * time.Minute // without a sample, no process samples
)

// backlogNames say what the entries of a stream are.
var backlogNames = map[string]string{
	"work": "work of the recipe engine", "commands": "commands to equipment", "events": "status events", "changes": "changes that the retained topics do not show",
}

// Judge says what is not fine by the last sample, nil = there is none. known is false if there is none, or it is too old to tell: then that is the trouble.
func Judge(last *Sample, now time.Time) (all []Trouble, known bool) {
	say := func(about, format string, args ...any) {
		all = append(all, Trouble{fmt.Sprintf(format, args...), about})
	}
	switch {
	case last == nil:
		say("samples", "No process of takt serve has made a sample yet: none runs, or it is just starting.")
		return all, false
	case now.Sub(last.Time) > staleAfter:
		say("samples", "The last sample is %s old: no process of takt serve runs.", chart.Took(now.Sub(last.Time)))
		return all, false
	}
	if last.Engines == 0 {
		say("engines", "No process with the role engine is up: no recipe goes on.")
	}
	for _, name := range streams {
		if b := last.Backlog[name]; b.Oldest > backlogMay {
			say("streams", "The oldest of %s has waited for %s.", backlogNames[name], chart.Took(b.Oldest))
		}
	}
	for _, late := range []struct {
		what, about string
		by          time.Duration
	}{
		{"Time-outs of recipes are", "recipes", last.TimerLate}, {"Delayed tasks are", "tasks", last.Tasks.Late},
		{"Schedules of tasks are", "tasks", last.Tasks.Schedule}, {"Timers of workflows are", "workflows", last.Workflows.TimerLate},
	} {
		if late.by > lateMay {
			say(late.about, "%s late by %s.", late.what, chart.Took(late.by))
		}
	}
	if last.Waiting > waitingMay {
		say("order", "Job order %s has been in its state for %s.", last.Oldest, chart.Took(last.Waiting))
	}
	if last.Tasks.Unserved {
		say("tasks", "Tasks wait in a queue for which no worker has slots.")
	}
	for _, dead := range []struct {
		what, about string
		n           int64
	}{{"job orders", "letters", last.Dead.Orders}, {"tasks", "tasks", last.Dead.Tasks}, {"workflows", "workflows", last.Dead.Workflows}} {
		if dead.n > 0 {
			say(dead.about, "Dead letters of %s: %d. They wait for a decision.", dead.what, dead.n)
		}
	}
	for _, part := range []string{"tasks", "workflows"} {
		if why := last.Unread[part]; why != "" {
			say("", "Figures of %s cannot be read: %s", part, why)
		}
	}
	return all, true
}
