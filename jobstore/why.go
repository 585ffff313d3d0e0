package jobstore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// Why says what a job order waits for, or why it is over.
type Why struct {
	JobOrderID isa95.JobOrderID `json:"job_order_id"`
	Scope      isa95.Scope      `json:"scope"`
	State      string           `json:"state"`
	Answer     string           `json:"answer"`  // one sentence
	Reasons    []WhyReason      `json:"reasons"` // at least one, the first to look at first
}

// WhyReason is one thing that holds a job order back, or why it is over.
type WhyReason struct {
	Kind  WhyKind      `json:"kind"`
	Text  string       `json:"text"`            // names the thing and its value
	Next  string       `json:"next"`            // a command, or a place to look at
	Topic string       `json:"topic,omitempty"` // where the command goes, or the event comes from
	Wait  *recipe.Wait `json:"wait,omitempty"`  // of a run
	Short string       `json:"-"`               // for a list: at most 80 characters
}

// WhyKind is a kind of reason: one of WhyReasons.
type WhyKind string

// The kinds of reasons.
const (
	WhyNotStarted     WhyKind = "not-started"
	WhyNoEngine       WhyKind = "no-engine"
	WhyQueued         WhyKind = "queued"
	WhyInWork         WhyKind = "in-work"
	WhyForgotten      WhyKind = "forgotten"
	WhyStationAsked   WhyKind = "station-asked"
	WhyStationRefused WhyKind = "station-refused"
	WhyStationRuns    WhyKind = "station-runs"
	WhyStandstill     WhyKind = "standstill"
	WhyCommandUnsent  WhyKind = "command-unsent"
	WhyCommand        WhyKind = "command"
	WhyEvent          WhyKind = "event"
	WhyAttemptFailed  WhyKind = "attempt-failed"
	WhyConditionFalse WhyKind = "condition"
	WhyConditionTrue  WhyKind = "condition-true"
	WhyConditionFails WhyKind = "condition-fails"
	WhyRunOver        WhyKind = "run-over"
	WhyExecutionLost  WhyKind = "execution-lost"
	WhyRecipeLost     WhyKind = "recipe-lost"
	WhyPaused         WhyKind = "paused"
	WhyCompleted      WhyKind = "completed"
	WhyStopped        WhyKind = "stopped"
	WhyRunFailed      WhyKind = "run-failed"
	WhyNotBegun       WhyKind = "not-begun"
	WhyAborted        WhyKind = "aborted"
	WhyCleared        WhyKind = "end-state"
)

// WhyRow describes a kind of reason.
type WhyRow struct {
	Kind       WhyKind
	When, Next string
	Tops       []string // top states in which a list shows it: lists do not look into the outbox and show the first reason alone
}

// WhyReasons lists every reason that a job order can wait, have failed or be over for, in the order of its life.
func WhyReasons() []WhyRow {
	return []WhyRow{
		{WhyNotStarted, "NotAllowedToStart: Start has not come", "`takt job start`", []string{isa95.NotAllowedToStart}},
		{WhyNoEngine, "its start, or the end of its run, waits in `sfc:work`, and no process with the role engine gives a sign of life", "`takt serve`", []string{isa95.AllowedToStart}},
		{WhyQueued, "it waits in `sfc:work` behind other entries", "wait, or more processes of `takt serve`", []string{isa95.AllowedToStart}},
		{WhyInWork, "a process has its entry of `sfc:work` in hand; after several tries the log of that process says why", "the log of that process, `takt doctor`", []string{isa95.AllowedToStart}},
		{WhyForgotten, "no entry of `sfc:work` leads to it: the stream was trimmed", "nothing: the sweep of `takt serve` brings it back within 30 s", []string{isa95.AllowedToStart}},
		{WhyStationAsked, "its work master has no recipe of Takt; its station was asked to start it and has not said Run", "the station", []string{isa95.AllowedToStart}},
		{WhyStationRefused, "its station refuses the Start", "the station, or `takt job cancel`", []string{isa95.AllowedToStart}},
		{WhyStationRuns, "its station runs it without a recipe, until it says End or Abort", "the station", []string{isa95.Running}},
		{WhyStandstill, "no process can take the answers of equipment, so time-outs and `step.t` stand still", "`takt serve`, `takt doctor`", []string{isa95.Running}},
		{WhyCommandUnsent, "a command has stood in the outbox for more than 2 s: the broker has not taken it", "`takt doctor`, the log of `takt serve`", nil},
		{WhyCommand, "a command is not answered", "the equipment", []string{isa95.Running}},
		{WhyEvent, "an event has not come", "the equipment", []string{isa95.Running}},
		{WhyAttemptFailed, "an attempt failed while the order is paused: the next one comes with Resume", "`takt job resume`", nil},
		{WhyConditionFalse, "a step or branch is done, and the condition of a transition is false", "time if it is over `step.t`, else `takt job stop` or `takt job abort`", []string{isa95.Running}},
		{WhyConditionTrue, "the condition of a transition is true, and fires when it is looked at", "nothing, or `takt job resume`", []string{isa95.Running}},
		{WhyConditionFails, "the condition of a transition fails: so will the order, when it is looked at", "the recipe", []string{isa95.Running}},
		{WhyRunOver, "its run is over, and the order ends with the next entry of `sfc:work`", "nothing", []string{isa95.Running}},
		{WhyExecutionLost, "its run was begun, and its execution document is gone", "`takt job abort`, unless the sweep of `takt serve` was faster; `takt check`", []string{isa95.Running, isa95.Interrupted}},
		{WhyRecipeLost, "the text of the recipe that it runs is gone or cannot be compiled: the next event aborts it", "`takt check`", []string{isa95.Running}},
		{WhyPaused, "Interrupted: Resume has not come", "`takt job resume`", []string{isa95.Interrupted}},
		{WhyCompleted, "Ended: it is done, and waits for Clear", "`takt job clear`", []string{isa95.Ended}},
		{WhyStopped, "Ended by Stop, with results in part", "`takt job clear`", []string{isa95.Ended}},
		{WhyRunFailed, "Aborted: the run failed; the reason names the action, the attempt and what the equipment said, or the condition", "the equipment or the recipe, then `takt job clear`", []string{isa95.Aborted}},
		{WhyNotBegun, "Aborted: its recipe could not start", "the work master or the order, then `takt job clear`", []string{isa95.Aborted}},
		{WhyAborted, "Aborted by a command Abort", "`takt job clear`", []string{isa95.Aborted}},
		{WhyCleared, "EndState: canceled or cleared; its documents expire", "the id can be used again", nil},
	}
}

// Why judges. The topics of the answer begin with topicPrefix.
func (c *Situation) Why(topicPrefix string) Why {
	o := c.Job
	j := judgement{Situation: c, prefix: topics.Prefix(topicPrefix), id: string(c.JobOrderID)}
	switch o.State.Top {
	case isa95.NotAllowedToStart:
		j.notStarted()
	case isa95.AllowedToStart:
		j.start()
	case isa95.Running:
		j.running()
	case isa95.Interrupted:
		j.interrupted()
	case isa95.Ended:
		j.ended()
	case isa95.Aborted:
		j.aborted()
	default:
		j.add(WhyCleared, "cleared", "the id can be used again: takt job store FILE --scope "+string(o.Scope), "it was canceled or cleared, and its documents expire in %v", c.Expires.Round(time.Second))
	}
	w := Why{JobOrderID: c.JobOrderID, Scope: o.Scope, State: o.State.String(), Reasons: j.reasons}
	w.Answer = fmt.Sprintf("%s at %s is %s: %s", w.JobOrderID, w.Scope, w.State, j.reasons[0].Text)
	if more := len(j.reasons) - 1; more > 0 {
		w.Answer += fmt.Sprintf(" (and %d more)", more)
	}
	return w
}

// sending is how long a command may stand in the outbox before that is worth a word.
const sending = 2 * time.Second

// shortRunes is the most that a list shows of a reason.
const shortRunes = 80

// judgement collects reasons.
type judgement struct {
	*Situation
	prefix  topics.Prefix
	id      string
	reasons []WhyReason
}

func (j *judgement) add(kind WhyKind, short, next, format string, args ...any) *WhyReason {
	if runes := []rune(short); len(runes) > shortRunes {
		short = string(runes[:shortRunes-1]) + "…"
	}
	j.reasons = append(j.reasons, WhyReason{Kind: kind, Short: short, Next: next, Text: fmt.Sprintf(format, args...)})
	return &j.reasons[len(j.reasons)-1]
}

// method is the command line that calls one.
func (j *judgement) method(name string) string {
	return fmt.Sprintf("takt job %s %s --scope %s", name, j.id, j.Job.Scope)
}

func (j *judgement) topic(kind string) string { return j.prefix.Equipment(string(j.Job.Scope), kind) }

func (j *judgement) notStarted() {
	r := j.add(WhyNotStarted, "Start", j.method("start"), "it is stored, and Start has not come")
	if at := j.Job.JobOrder.StartTime; at != "" {
		r.Text += "; its StartTime " + at + " is for the MES, which sends Start"
	}
}

func (j *judgement) start() {
	switch s := j.Job.Station; {
	case s.Refused != "":
		r := j.add(WhyStationRefused, "its station, which refuses", "settle it at "+string(j.Job.Scope)+", or "+j.method("cancel"), "its station refuses the command Start %s: %s", s.Start, s.Refused)
		r.Topic = j.topic("commands")
	case s.Start != "":
		r := j.add(WhyStationAsked, "Run of its station", "look at the station: it gets the command until it answers, and says Run on "+j.topic("events"), "no recipe of Takt runs it, and its station has not said Run since it was sent Start %s", s.Start)
		r.Topic = j.topic("commands")
	default:
		j.work("its start")
	}
}

// work says where the entry of the work stream is that carries the order on.
func (j *judgement) work(what string) {
	switch q := j.Queue; {
	case len(j.Engines) == 0:
		j.add(WhyNoEngine, "takt serve", "takt serve (on the machine that shall do it; takt doctor checks store and broker)", "%s waits in sfc:work, and no process of takt serve with the role engine gives a sign of life", what)
	case q.Worker != "":
		j.add(WhyInWork, what, "if that lasts, the log of "+q.Worker+" says why; takt doctor", "%s is in the hands of %s, handed out %s, the last time %v ago", what, q.Worker, count(int(q.Deliveries), "time", "times"), q.Idle.Round(time.Millisecond))
	case q.Entry != "":
		j.add(WhyQueued, what, "wait; if that lasts, start more processes: takt serve", "%s waits in sfc:work as entry %s behind %s; %s them", what, q.Entry, count(q.Before, "other", "others"), count(len(j.Engines), "process takes", "processes take"))
	case q.Before >= queueSeen:
		j.add(WhyQueued, what, "wait; if that lasts, start more processes: takt serve", "%s waits in sfc:work behind more than %d others; %s them", what, queueSeen, count(len(j.Engines), "process takes", "processes take"))
	default:
		j.add(WhyForgotten, what, "nothing: the sweep of takt serve brings it back within 30 s", "no entry of sfc:work leads to it, though %s is due", what)
	}
}

func (j *judgement) running() {
	x, s := j.Execution, j.Job.Station
	switch {
	case x == nil && s.Start != "":
		r := j.add(WhyStationRuns, "End of its station", "look at the station: it says End or Abort on "+j.topic("events")+"; or "+j.method("abort"), "its station runs it without a recipe since %s, and has not said End", s.Started)
		r.Topic = j.topic("events")
	case x == nil:
		j.add(WhyExecutionLost, "the sweep", j.method("abort")+", unless the sweep of takt serve was faster; takt check lists what else is gone", "its execution document is gone")
	case x.Terminal():
		j.add(WhyRunOver, "the end of its run", "nothing, unless it lasts", "its run is over (%s at step %s), and the order is not yet", x.Phase(), x.CurrentStep)
		j.work("its end")
	default:
		j.run()
	}
}

func (j *judgement) interrupted() {
	x := j.Execution
	switch {
	case x == nil && j.Job.Station.Start != "":
		r := j.add(WhyPaused, "Resume", j.method("resume"), "it is paused, and its station, which runs it without a recipe, was told so")
		r.Topic = j.topic("commands")
	case x == nil:
		j.add(WhyExecutionLost, "the sweep", j.method("abort")+", unless the sweep of takt serve was faster; takt check lists what else is gone", "its execution document is gone")
	default:
		j.add(WhyPaused, "Resume", j.method("resume"), "it is paused at step %s for %v; time-outs stand still, and nothing is sent", x.CurrentStep, j.Installation.Sub(time.UnixMilli(x.PausedAt)).Round(time.Millisecond))
		j.run()
	}
}

// run says what the recipe in execution waits for.
func (j *judgement) run() {
	x := j.Execution
	if j.Standstill > 0 {
		next := "takt doctor: can the broker and Redis be reached from " + strings.Join(j.Engines, ", ") + "?"
		if len(j.Engines) == 0 {
			next = "takt serve (on the machine that shall do it; takt doctor checks store and broker)"
		}
		j.add(WhyStandstill, "takt serve", next, "no process could take answers of equipment for %v, so time-outs and step.t stand still", j.Standstill.Round(time.Millisecond))
	}
	if j.Program == nil {
		j.add(WhyRecipeLost, "its recipe", "takt check; then store the order anew", "the recipe that it runs (SHA-256 %.12s) cannot be read: %s; the next event aborts it", x.Recipe, j.NoProgram)
		return
	}
	for _, w := range j.Program.Waits(j.Job.RecipeOrder(), x, j.Installation) {
		if w.Kind != recipe.WaitPaused {
			j.wait(w).Wait = &w
		}
	}
	if len(j.reasons) == 0 { // written by a commit that a process was about to follow with another
		j.add(WhyConditionTrue, x.CurrentStep, "nothing, unless it lasts: takt check", "step %s goes on with its next event", x.CurrentStep)
	}
}

func (j *judgement) wait(w recipe.Wait) *WhyReason {
	what := fmt.Sprintf("%s (%s)", w.Action, w.TypeID)
	equipment := "look at the equipment of " + string(j.Job.Scope)
	switch {
	case w.Kind == recipe.WaitTransition:
		return j.transition(w)
	case w.Error != "":
		return j.add(WhyAttemptFailed, "Resume", j.method("resume"), "%s, at attempt %d of %d; what follows comes with Resume", w.Error, w.Attempt, w.Attempts)
	case w.Kind == recipe.WaitEvent:
		what := w.TypeID
		if w.Asset != "" {
			what += " of " + w.Asset
		}
		r := j.add(WhyEvent, "event "+what, equipment+": it sends "+w.TypeID+" on "+j.topic("events"), "step %s waits for event %s (action %s) for %s%s", w.Step, what, w.Action, seconds(w.Age), j.left(w.Left))
		if n := j.before(w); n > 0 {
			r.Text += fmt.Sprintf("; %s for the same event", count(n, "order that began earlier waits", "orders that began earlier wait"))
		}
		r.Topic = j.topic("events")
		return r
	case j.Unsent[w.CommandID] && w.Age > sending.Seconds():
		r := j.add(WhyCommandUnsent, "the broker, for "+w.Action, "takt doctor: is the broker there? The log of takt serve has what it says", "the broker has not taken the command of %s in step %s, attempt %d of %d, for %s: it stands in sfc:outbox", what, w.Step, w.Attempt, w.Attempts, seconds(w.Age))
		r.Topic = j.topic("commands")
		return r
	}
	gets := ": it gets command "
	if j.Execution.Paused {
		gets = ": it may answer now; after Resume it gets command "
	}
	r := j.add(WhyCommand, fmt.Sprintf("answer to %s, %s", w.Action, seconds(w.Age)), equipment+gets+w.CommandID+" on "+j.topic("commands")+" and answers on the response topic",
		"step %s waits for the answer to %s, attempt %d of %d, for %s%s", w.Step, what, w.Attempt, w.Attempts, seconds(w.Age), j.left(w.Left))
	if w.Again != nil {
		r.Text += fmt.Sprintf("; the command is sent again in %s", seconds(max(*w.Again, 0)))
	}
	r.Topic = j.topic("commands")
	return r
}

// before is how many runs that began before this one wait for the same event.
func (j *judgement) before(w recipe.Wait) (n int) {
	box := j.Mailboxes[w.TypeID]
	if box == nil {
		return 0
	}
	for _, other := range box.Waiting {
		if other.JobID != j.id && other.Since < j.Execution.StartedAt && other.Asset == w.Asset {
			n++
		}
	}
	return n
}

func (j *judgement) transition(w recipe.Wait) *WhyReason {
	from := fmt.Sprintf("step %s is done", w.Step)
	if w.Choosing {
		from = fmt.Sprintf("branch %s looks for a path", w.Step)
	}
	arc := fmt.Sprintf("%s > %s", w.Step, w.Target)
	switch {
	case w.Error != "":
		return j.add(WhyConditionFails, arc, "mend the recipe; the order fails when the condition is looked at", "%s, and the condition of %s, %s, fails: %s", from, arc, w.Condition, w.Error)
	case w.Holds:
		next := "nothing, unless it lasts: is takt serve behind? takt doctor"
		if j.Execution.Paused {
			next = j.method("resume")
		}
		return j.add(WhyConditionTrue, arc, next, "%s, and the condition of %s, %s, is true: it fires when it is looked at", from, arc, w.Condition)
	}
	var causes, values []string
	for _, c := range w.Causes {
		text := fmt.Sprintf("%s is %v", c.Text, c.Holds)
		for _, o := range c.Operands {
			values = append(values, operand(o))
			if o.Text != c.Text {
				text += ", " + operand(o)
			} else if string(o.Value) == "null" {
				text = operand(o)
			}
		}
		causes = append(causes, text)
	}
	condition := w.Condition + "; "
	if len(w.Causes) == 1 && plainText(w.Causes[0].Text) == plainText(w.Condition) {
		condition = "" // the cause is the whole of it
	}
	if len(causes) == 0 {
		condition = w.Condition
	}
	short := arc + ": " + strings.Join(values, ", ")
	if len(values) == 0 {
		short = arc + ": " + w.Condition
	}
	next := j.method("stop") + ": no event changes these values; a transition with otherwise would lead on"
	again := ""
	switch {
	case len(w.Causes) == 0:
		next = "nothing: it is there for people"
	case w.Again != nil:
		next = "wait, or " + j.method("stop")
		again = fmt.Sprintf("; it is looked at again in %s", seconds(max(*w.Again, 0)))
	}
	return j.add(WhyConditionFalse, short, next, "%s for %s, and %s does not fire: %s%s", from, seconds(w.Age), arc, condition+strings.Join(causes, "; "), again)
}

// plainText is an expression without blanks, and with one kind of quotes.
func plainText(expression string) string {
	return strings.NewReplacer(" ", "", "'", `"`).Replace(expression)
}

func operand(o recipe.Operand) string {
	if string(o.Value) == "null" {
		return o.Text + " is missing"
	}
	const most = 100
	value := string(o.Value)
	if len(value) > most {
		value = strings.ToValidUTF8(value[:most], "") + "…"
	}
	return o.Text + " = " + value
}

func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

// left says when a time-out is over.
func (j *judgement) left(s *float64) string {
	switch {
	case s == nil:
		return ""
	case j.Execution.Paused:
		return fmt.Sprintf("; it has %s left once the order goes on", seconds(max(*s, 0)))
	case *s < 0:
		return fmt.Sprintf("; its time is over since %s, and that is looked at next", seconds(-*s))
	}
	return fmt.Sprintf("; it times out in %s", seconds(*s))
}

func (j *judgement) ended() {
	const cleared = " (the MES does so once it has the result)"
	at := "at an unknown time"
	if j.Response != nil && j.Response.EndTime != "" {
		at = "at " + j.Response.EndTime
	}
	if x := j.Execution; x != nil && x.Stopped {
		j.add(WhyStopped, "Clear", j.method("clear")+cleared, "Stop ended it at step %s, %s, with the results so far; it waits for Clear", x.CurrentStep, at)
		return
	}
	j.add(WhyCompleted, "Clear", j.method("clear")+cleared, "it was done %s, and waits for Clear", at)
}

// aborted names the first cause.
func (j *judgement) aborted() {
	again := "then " + j.method("clear") + ", and store it anew"
	cause := responseError(j.Response)
	x := j.Execution
	switch {
	case x == nil && cause == "" || x != nil && !x.Failed:
		j.add(WhyAborted, "Clear; aborted", j.method("clear"), "a command Abort of the MES or of its station ended it before a recipe of Takt ran")
	case x == nil:
		j.add(WhyNotBegun, "Clear; not begun: "+cause, "mend that, "+again, "its recipe could not start: %s", cause)
	case strings.HasPrefix(x.Error, AbortedBy):
		j.add(WhyAborted, "Clear; "+x.Error, j.method("clear"), "it was %s with a command Abort at step %s", x.Error, x.CurrentStep)
	default:
		next := "mend that, " + again
		where := "step " + x.CurrentStep
		if inside := slices.DeleteFunc(slices.Clone(x.ActiveSteps), func(s string) bool { return s == x.CurrentStep }); len(inside) > 0 {
			where = "step " + strings.Join(inside, ", ") + " of branch " + x.CurrentStep
		}
		text := fmt.Sprintf("its run failed at %s: %s", where, x.Error)
		i := slices.IndexFunc(x.Actions, func(a recipe.ActionEntry) bool {
			return a.State == recipe.ActionFailed && strings.HasPrefix(x.Error, a.Error)
		})
		if i >= 0 {
			a := x.Actions[i]
			if a.Attempt < a.FirstAttempt {
				text += fmt.Sprintf("; it waited for the event %s in iteration %d", a.TypeID, a.Iteration)
			} else {
				text += fmt.Sprintf("; its command was %s, attempt %d in iteration %d", a.TypeID, a.Attempt-a.FirstAttempt+1, a.Iteration)
			}
			next = "look at the equipment of " + string(j.Job.Scope) + ", " + again
		}
		j.add(WhyRunFailed, "Clear; "+x.Error, next, "%s", text)
	}
}

// responseError is what the response gives as the cause.
func responseError(r *isa95.JobResponse) (text string) {
	if r == nil {
		return ""
	}
	for _, p := range r.JobResponseData {
		if p.ID == ErrorParameter && json.Unmarshal(p.Value, &text) != nil {
			text = string(p.Value)
		}
	}
	return text
}
