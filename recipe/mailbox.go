package recipe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/jsonscan"
)

// maxEarly is how many early events a mailbox keeps; the oldest make room.
const maxEarly = 256

// Mailbox is the document sfc:mailbox:{scope}:{type_id}: where actions that await an
// event and events that came early meet (spec B.6).
type Mailbox struct {
	Waiting []Waiting   `json:"waiting"` // in the order in which they began to wait
	Events  []PullEvent `json:"events"`  // early ones, in the order of arrival
}

// Waiting is a pull_event action that awaits an event. Since is the start of its job in
// Unix ms: the oldest job is served first.
type Waiting struct {
	JobID         string `json:"job_id"`
	Action        string `json:"action"`
	Asset         string `json:"asset,omitempty"`
	CorrelationID string `json:"correlation_id"`
	Since         int64  `json:"since"`
	Recipe        string `json:"recipe,omitempty"` // SHA of the recipe of the job
}

// MailboxRetention is how long an early event is kept for an action that does not wait yet, by default.
const MailboxRetention = time.Minute

// MailboxHold is how long after its Until an early event is kept for runs that had begun
// when it came: one of their actions may come to wait for it.
const MailboxHold = 24 * time.Hour

// maxHeld is how many events past their Until a mailbox keeps; the oldest make room.
const maxHeld = 32

// PullEvent is an event from equipment. At is when it came, and Until how long it is kept for
// an action that does not wait yet, both in installation time, ms. A run that had begun by
// At may take it later too. JobID is the job that owns CorrelationID, "" when none
// does: such an event is for that job alone.
type PullEvent struct {
	ID            string          `json:"id"`
	Source        string          `json:"source"`
	Subject       string          `json:"subject"`
	CorrelationID string          `json:"correlation_id,omitempty"`
	JobID         string          `json:"job_id,omitempty"`
	Data          json.RawMessage `json:"data,omitempty"`
	At            int64           `json:"at,omitempty"`
	Until         int64           `json:"until"`
}

// DecodeMailbox reads a document that Encode wrote.
func DecodeMailbox(data []byte) (*Mailbox, error) {
	m := &Mailbox{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("recipe: mailbox: %w", err)
	}
	return m, nil
}

// Encode writes the document. Data that is not JSON is written as null; Keep lets none in.
func (m *Mailbox) Encode() []byte {
	c := Mailbox{Waiting: notNil(slices.Clone(m.Waiting)), Events: notNil(slices.Clone(m.Events))}
	for i := range c.Events {
		if c.Events[i].Data != nil && !json.Valid(c.Events[i].Data) {
			c.Events[i].Data = nil
		}
	}
	text, _ := jsonscan.Marshal(c) // strings, numbers and valid JSON always encode
	return text
}

// Empty tells whether the document can be deleted.
func (m *Mailbox) Empty() bool { return len(m.Waiting) == 0 && len(m.Events) == 0 }

// Clone copies m so that changing one leaves the other alone. Data is shared.
func (m *Mailbox) Clone() *Mailbox {
	return &Mailbox{Waiting: slices.Clone(m.Waiting), Events: slices.Clone(m.Events)}
}

// Match finds the waiting action that ev is for. belongs is the active job that owns the
// correlation id of ev, "" if none does. In this order:
//   - the job with that correlation id; an event of a job that does not wait (yet) is for
//     nobody else;
//   - with a subject "{scope}/{asset}", an action that names this asset, else one that
//     names none;
//   - with another subject, any action.
//
// Among several it is the one of the oldest job. ok is false if ev came early.
func (m *Mailbox) Match(ev PullEvent, scope, belongs string) (w Waiting, ok bool) {
	if ev.CorrelationID != "" {
		if w, ok = m.oldest(func(w *Waiting) bool { return w.CorrelationID == ev.CorrelationID }); ok || belongs != "" {
			return w, ok
		}
	}
	asset := ev.asset(scope)
	if asset == "" {
		return m.oldest(func(*Waiting) bool { return true })
	}
	if w, ok = m.oldest(func(w *Waiting) bool { return w.Asset == asset }); ok {
		return w, true
	}
	return m.oldest(func(w *Waiting) bool { return w.Asset == "" })
}

// asset is what follows the scope in the subject.
func (ev *PullEvent) asset(scope string) string {
	asset, ok := strings.CutPrefix(ev.Subject, scope+"/")
	if !ok {
		return ""
	}
	return asset
}

func (m *Mailbox) oldest(fits func(*Waiting) bool) (Waiting, bool) {
	best := -1
	for i := range m.Waiting {
		if fits(&m.Waiting[i]) && (best < 0 || m.Waiting[i].Since < m.Waiting[best].Since) {
			best = i
		}
	}
	if best < 0 {
		return Waiting{}, false
	}
	return m.Waiting[best], true
}

// early finds the event that w would have been given, had it waited: one of its own
// correlation id, else one of its asset, else one that fits anybody; of several the first
// to arrive. Events past their time count only if they came after the run of w began. -1:
// there is none.
func (m *Mailbox) early(w Waiting, scope string, now int64) int {
	best, rank := -1, 0
	for i := range m.Events {
		ev := &m.Events[i]
		if ev.Until <= now && ev.At < w.Since {
			continue
		}
		asset := ev.asset(scope)
		r := 0
		switch {
		case ev.CorrelationID != "" && ev.CorrelationID == w.CorrelationID:
			r = 3
		case ev.JobID != "": // of another job
		case asset != "" && asset == w.Asset:
			r = 2
		case asset == "" || w.Asset == "":
			r = 1
		}
		if r > rank {
			best, rank = i, r
		}
	}
	return best
}

// Keep puts an event that came early into m, for belongs (see Match) if that is not "".
// If m has the event already (source and id), its time begins anew once it is over. Keep
// reports false, and changes nothing, if m has the event and its time is not over, or if its
// payload is not JSON, too deep or too long. Call it on a Clone.
func (m *Mailbox) Keep(ev PullEvent, belongs string) bool {
	if i := slices.IndexFunc(m.Events, func(e PullEvent) bool { return e.ID == ev.ID && e.Source == ev.Source }); i >= 0 {
		if m.Events[i].Until > ev.At {
			return false
		}
		m.Events[i].Until = ev.Until
		return true
	}
	data, err := payload(ev.Data)
	if err != nil {
		return false
	}
	ev.Data, ev.JobID = data, belongs
	if len(m.Events) >= maxEarly {
		m.Events = slices.Clone(m.Events[len(m.Events)-maxEarly+1:])
	}
	m.Events = append(m.Events, ev)
	return true
}

// Forget removes what job waits for in m, for a job that was aborted or stopped, and
// tells whether there was any. Call it on a Clone.
func (m *Mailbox) Forget(job string) bool {
	before := len(m.Waiting)
	m.Waiting = slices.DeleteFunc(m.Waiting, func(w Waiting) bool { return w.JobID == job })
	return len(m.Waiting) != before
}

// expired says which events no run can take any more, or only one of many: those past
// their time by MailboxHold, and of the others past their time all but the last maxHeld.
func (m *Mailbox) expired(now int64) func(PullEvent) bool {
	held := 0
	for i := range m.Events {
		if m.Events[i].Until <= now {
			held++
		}
	}
	return func(e PullEvent) bool {
		if e.Until > now {
			return false
		}
		held--
		return e.Until+MailboxHold.Milliseconds() <= now || held >= maxHeld
	}
}

// hasExpired tells whether expire would remove anything.
func (m *Mailbox) hasExpired(now int64) bool { return slices.ContainsFunc(m.Events, m.expired(now)) }

// expire removes the events that are of no use any more. Call it on a Clone.
func (m *Mailbox) expire(now int64) { m.Events = slices.DeleteFunc(m.Events, m.expired(now)) }
