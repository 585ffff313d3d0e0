package recipe

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// CancelEntry is one cancel command of an execution: sent for an attempt of an action that was not answered. It outlives the run.
type CancelEntry struct {
	Action    string
	Attempt   int
	CommandID string // of the cancel command,
	Cancels   string // and of the command that it calls off
	TypeID    string
	SentAt    int64           // when it was decided, installation time in ms
	Deadline  int64           // until when it is repeated
	State     ActionState     // ActionDispatched, ActionCompleted, or ActionFailed: refused, or not answered in time
	Result    json.RawMessage // of the answer; nil is null
	Error     string          // why it failed; "" is null
}

// maxCancels is how many are kept in an execution, the latest.
const maxCancels = 100

// CancelID is the id of the command that calls off the command with that id: the same whenever it is made.
func CancelID(commandID string) string {
	space, err := uuid.Parse(commandID)
	if err != nil {
		return ""
	}
	return uuid.NewSHA1(space, []byte("cancel")).String()
}

// callOff notes the cancel command of an action that is dispatched, if its recipe names one.
func (x *Execution) callOff(a *ActionEntry, now int64) {
	id := CancelID(a.CommandID)
	if a.State != ActionDispatched || a.Cancel.TypeID == "" || id == "" || x.cancelOf(id) >= 0 {
		return
	}
	entry := CancelEntry{
		Action: a.Name, Attempt: a.Attempt, CommandID: id, Cancels: a.CommandID, TypeID: a.Cancel.TypeID, SentAt: now,
		Deadline: now + int64(a.Cancel.TimeoutSeconds)*1000, State: ActionDispatched,
	}
	x.Cancels = append(slices.Clip(x.Cancels), entry)
	x.Cancels = x.Cancels[max(len(x.Cancels)-maxCancels, 0):]
}

func (x *Execution) cancelOf(id string) int {
	return slices.IndexFunc(x.Cancels, func(c CancelEntry) bool { return c.CommandID == id })
}

// NewCancels are the cancel commands that x has and before, which may be nil, has not: those that leave with the commit of x. Those of a commit before this one are sent
// again by the engine.
func (x *Execution) NewCancels(before *Execution) []Command {
	var commands []Command
	for _, c := range x.Cancels {
		if before != nil && before.cancelOf(c.CommandID) >= 0 {
			continue
		}
		commands = append(commands, Command{
			ID: c.CommandID, Cancels: c.Cancels, JobID: x.JobID, Scope: x.Scope, Action: c.Action, TypeID: c.TypeID, CorrelationID: x.CorrelationID,
			Attempt: c.Attempt, Deadline: time.UnixMilli(c.Deadline).UTC(),
		})
	}
	return commands
}

// Canceled is x with the answer to a cancel command; nil: none came in time. ok is false if nothing waits for it. Nothing else of x changes, whether its run is over or not.
func (x *Execution) Canceled(commandID string, a *Answer) (changed *Execution, ok bool) {
	i := x.cancelOf(commandID)
	if i < 0 || x.Cancels[i].State != ActionDispatched {
		return x, false
	}
	changed = x.Clone()
	changed.Cancels = slices.Clone(x.Cancels)
	c := &changed.Cancels[i]
	c.State = ActionFailed
	switch {
	case a == nil:
		c.Error = fmt.Sprintf("no answer within %d s", (c.Deadline-c.SentAt)/1000)
	case a.Error != nil:
		c.Error = "was refused: " + a.Error.text()
	case a.Unreadable != "":
		c.Error = "was answered, but the answer cannot be read: " + a.Unreadable
	default:
		result, err := payload(a.Result)
		if c.State = ActionCompleted; err != nil || len(result) > maxCancelResult {
			c.Error = fmt.Sprintf("its answer of %d bytes is not kept", len(a.Result))
			break
		}
		c.Result = result
	}
	return changed, true
}

// maxCancelResult bounds what is kept of the answer to a cancel command: it is for people.
const maxCancelResult = 4096
