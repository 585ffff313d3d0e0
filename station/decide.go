package station

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
)

// work is what the equipment does about one command.
type work struct {
	takes      time.Duration
	result     json.RawMessage   // never nil unless refused
	refused    *cloudevent.Error // instead of a result
	unanswered int               // so many deliveries get no answer
	events     []dueEvent
}

// dueEvent is an event that follows a command.
type dueEvent struct {
	id, typeID, subject string
	after               time.Duration
	body                json.RawMessage // nil = none
	repeat              time.Duration
	until               []string
}

// decide says what the equipment does about a command, which must be of a type it knows. It depends on the file and on
// order, action, attempt, type and parameters alone, so a command that is decided twice is decided alike; only the ids of
// events come from the command's id.
func (e *Equipment) decide(c *command) work {
	words := []string{"command", string(c.Scope), c.Order, c.Action, strconv.Itoa(c.Attempt), c.Type}
	b := e.commands[c.Type].fitting(c, e.seed, words)
	s := &scene{
		order: c.Order, scope: string(c.Scope), action: c.Action, attempt: c.Attempt, parameters: c.Parameters,
		dice: newDice(e.seed, words...),
	}
	var w work
	if b.takes != nil {
		w.takes = b.takes.pick(s.dice)
	}
	if b.unanswered != nil {
		w.unanswered = *b.unanswered
	}
	if b.refuse != nil {
		w.refused = b.refuse
	} else if w.result = b.result.fill(s); w.result == nil {
		w.result = json.RawMessage("{}")
	}
	s.result = w.result
	for i, p := range b.events {
		w.events = append(w.events, dueEvent{
			id: eventID(c.ID, i), typeID: p.typeID, subject: subject(c.Scope, p.asset),
			after: p.after.pick(s.dice), body: p.body.fill(s), repeat: p.repeat, until: p.until,
		})
	}
	return w
}

// fitting is the behaviour for c: that of the type, with the members replaced that the first fitting case has.
func (t *skill) fitting(c *command, seed int64, words []string) behaviour {
	b := t.behaviour
	for i := range t.cases {
		one := &t.cases[i]
		if !one.fits(c) || one.chance < 1 && newDice(seed, append(words, "case", strconv.Itoa(i))...).Float64() >= one.chance {
			continue
		}
		if one.takes != nil {
			b.takes = one.takes
		}
		if one.unanswered != nil {
			b.unanswered = one.unanswered
		}
		if one.result != nil {
			b.result, b.refuse = one.result, nil
		}
		if one.refuse != nil {
			b.refuse, b.events = one.refuse, nil
		}
		if one.events != nil {
			b.events = one.events
		}
		break
	}
	return b
}

func (one *oneCase) fits(c *command) bool {
	if !one.attempts.contain(c.Attempt) {
		return false
	}
	for _, pattern := range one.orders {
		if beginning, star := strings.CutSuffix(pattern, "*"); pattern == c.Order || star && strings.HasPrefix(c.Order, beginning) {
			return true
		}
	}
	return len(one.orders) == 0
}

func subject(scope isa95.Scope, asset string) string {
	if asset == "" {
		return string(scope)
	}
	return string(scope) + "/" + asset
}

// eventNamespace is the namespace of the ids of events that follow commands.
var eventNamespace = uuid.MustParse("5b0ff3a2-6a0b-5e0b-9a6e-2f6b7a1c9d10")

// eventID is the id of the i-th event of a command: the same however often it is decided.
func eventID(commandID string, i int) string {
	return uuid.NewSHA1(eventNamespace, []byte(commandID+"/"+strconv.Itoa(i))).String()
}
