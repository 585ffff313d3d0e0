package station

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
)

// command is one command as it came.
type command struct {
	ID, Type    string
	Subject     string
	Correlation string // of the run of the job order
	Scope       isa95.Scope
	Order       string // job order id
	Action      string
	Attempt     int
	Parameters  json.RawMessage // nil = none
	Cancels     string          // id of the command that it calls back, "" = none
}

// run is what tells the runs of job orders apart.
func (c *command) run() string {
	if c.Correlation != "" {
		return c.Correlation
	}
	return c.Order
}

// record is a command with what became of it, guarded by Station.mu if there is a Station; command does not change, nor does work unless it is called back.
type record struct {
	command
	work

	received        time.Time
	deliveries      int
	responseTopic   string // of the latest delivery
	correlationData []byte
	executed        bool
	canceled        chan struct{}   // closed when the command is called back
	answered        bool            // at least once
	sent            map[string]bool // events the broker has, by id; nil = none
}

// callBack stops the work of a command that is not done.
func (r *record) callBack() {
	if r.executed || r.calledBack() {
		return
	}
	r.result, r.events, r.refused = nil, nil, cloudevent.Errorf(cloudevent.KindCancellation, "canceled")
	close(r.canceled)
}

// calledBack tells whether callBack stopped the work.
func (r *record) calledBack() bool {
	select {
	case <-r.canceled:
		return true
	default:
		return false
	}
}

// silent tells whether the latest delivery gets no answer.
func (r *record) silent() bool { return r.deliveries <= r.unanswered }

// request is the command as the event to reply to.
func (r *record) request() cloudevent.Event {
	e := r.event()
	e.Delivery = cloudevent.Delivery{ResponseTopic: r.responseTopic, CorrelationData: r.correlationData}
	return e
}

// answer is what goes to the response topic.
func (r *record) answer(source string, now time.Time) cloudevent.Event {
	request := r.request()
	if r.refused != nil {
		return request.Refusal(r.refused, source, now)
	}
	return request.Reply(r.result, "", source, now)
}

// readCommand takes a message apart. mine is false for a command that other equipment answers. A *cloudevent.Error is
// what to refuse it with; e holds what could be read.
func (s *Station) readCommand(scope isa95.Scope, m mqtt.Message) (c command, e cloudevent.Event, mine bool, refusal *cloudevent.Error) {
	e, err := mqtt.Decode(m)
	if s.o.Equipment.commands[e.Type] == nil {
		return c, e, false, nil
	}
	if err != nil {
		if !errors.As(err, &refusal) {
			refusal = cloudevent.Errorf(cloudevent.KindPayloadInvalid, "%v", err)
		}
		return c, e, true, refusal
	}
	var body struct {
		JobOrderID, Action string
		Attempt            int
		Parameters         json.RawMessage
	}
	if err := json.Unmarshal(e.Data, &body); err != nil {
		return c, e, true, cloudevent.Errorf(cloudevent.KindPayloadInvalid,
			"the body must be {JobOrderID, Action, Attempt, Parameters}: %v", err)
	}
	return command{
		ID: e.ID, Type: e.Type, Subject: e.Subject, Correlation: e.CorrelationID, Scope: scope,
		Order: body.JobOrderID, Action: body.Action, Attempt: body.Attempt, Parameters: body.Parameters, Cancels: e.CausationID,
	}, e, true, nil
}
