package jobcontrol

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/rfc3339"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// request is what one CloudEvent asks for, read and checked as far as that goes without the store. Exactly one of
// method and config is set.
type request struct {
	event   cloudevent.Event
	method  isa95.Method
	config  isa95.ConfigKind
	scope   isa95.Scope
	program bool // an event of a program's own type, instead of method and config

	id       isa95.JobOrderID       // methods and the query by id
	order    *isa95.JobOrder        // Store, StoreAndStart, Update
	text     []byte                 // order in JSON, once it is needed
	state    isa95.State            // the query by state
	response *isa95.JobResponse     // ReceiveJobResponse
	apply    jobstore.Configuration // config

	unknown  isa95.UnknownMembers // what becomes of members that are not known
	warnings []string             // what the sender of a work master ought to know, though it is taken
}

// read finds out what e asks for. The error says why that cannot be told, or must not be done; method and config are
// set in any case if the type is known.
func (r *Receiver) read(e cloudevent.Event) (request, error) {
	req := request{event: e, unknown: r.opt.UnknownMembers}
	var known bool
	if req.method, known = isa95.MethodByTypeID(e.Type); !known {
		req.config, known = isa95.ConfigByTypeID(e.Type)
	}
	if !known {
		return req, cloudevent.Errorf(cloudevent.KindUnknownPayloadType, "type %.200q is neither a job method nor a configuration", e.Type)
	}
	if err := checkCall(e); err != nil {
		return req, err
	}
	if err := r.readScope(&req); err != nil {
		return req, err
	}
	switch {
	case req.config != "":
		return req, req.readConfiguration()
	case req.method == isa95.RequestJobResponseByJobOrderState:
		return req, req.readState()
	case req.method.TakesJobOrder():
		return req, req.readOrder()
	}
	return req, req.readID()
}

// checkCall refuses a call that could not be told from its repetition.
func checkCall(e cloudevent.Event) error {
	switch {
	case e.ID == "" || e.Source == "":
		return cloudevent.Errorf(cloudevent.KindMissingUserProperty, "id and source are needed to know a repeated command")
	case e.Delivery.Retained:
		return cloudevent.Errorf(cloudevent.KindPropertyInvalid, "the command is retained, so it would be carried out again and again; send it without the retain flag")
	}
	return nil
}

// readScope takes the scope from the subject; a topic may say the same, not another.
func (r *Receiver) readScope(req *request) error {
	topic := topicScope(r.opt.TopicPrefix, req.event.Delivery.Topic)
	if req.event.Subject == "" {
		return cloudevent.Errorf(cloudevent.KindMissingUserProperty, "subject is missing; it names the scope, for example %q", orElse(topic, "m42"))
	}
	var err error
	if req.scope, err = isa95.ParseScope(req.event.Scope()); err != nil {
		return err
	}
	if topic != "" && topic != string(req.scope) {
		return cloudevent.Errorf(cloudevent.KindPropertyInvalid, "the subject names the scope %q and the topic %q", req.scope, topic)
	}
	return nil
}

func (req *request) readOrder() error {
	var call isa95.JobOrderCall
	if err := isa95.Receive(req.event.Data, &call, req.unknown); err != nil {
		return err
	}
	switch {
	case call.JobOrder == nil:
		return missing("JobOrder")
	case call.JobOrder.JobOrderID == "" && req.method == isa95.Update:
		return missing("JobOrder.JobOrderID")
	case call.JobOrder.JobOrderID == "":
		return refusal(errNotAcceptable, "JobOrder.JobOrderID is missing") // 16, not invalid request: spec 2.4
	}
	req.order = call.JobOrder
	return req.checkOrder()
}

// checkOrder checks names and parameters of the job order, and takes its id.
func (req *request) checkOrder() error {
	if err := checkParameters(req.order); err != nil {
		return err
	}
	for _, ref := range req.order.WorkMasterID {
		if ref.ID == "" {
			continue
		}
		if _, err := isa95.ParseWorkMasterID(ref.ID); err != nil {
			return err
		}
	}
	var err error
	if req.id, err = isa95.ParseJobOrderID(req.order.JobOrderID); err != nil || req.method == isa95.Update {
		return err
	}
	return isa95.CheckNewName("JobOrderID", req.order.JobOrderID)
}

// checkParameters refuses two parameters of one ID in a list: a recipe would take one of the values and ignore the other.
func checkParameters(order *isa95.JobOrder) error {
	if err := idsDiffer(order.JobOrderParameters, "/JobOrder/JobOrderParameters"); err != nil {
		return err
	}
	for i, ref := range order.WorkMasterID {
		if err := idsDiffer(ref.Parameters, fmt.Sprintf("/JobOrder/WorkMasterID/%d/Parameters", i)); err != nil {
			return err
		}
	}
	return nil
}

func idsDiffer(parameters []isa95.Parameter, pointer string) error {
	first := make(map[string]int, len(parameters))
	for i, p := range parameters {
		if before, twice := first[p.ID]; twice && p.ID != "" {
			return &isa95.DecodeError{Pointer: fmt.Sprintf("%s/%d/ID", pointer, i), Value: strconv.QuoteToGraphic(shorten(p.ID)),
				Rule: fmt.Sprintf("is the ID of element %d, too; send each parameter once", before), Err: isa95.ErrTwice}
		}
		first[p.ID] = i
	}
	return nil
}

func (req *request) readID() error {
	var call isa95.JobOrderIDCall
	if err := isa95.Receive(req.event.Data, &call, isa95.IgnoreUnknown); err != nil { // an Abort is never refused for a word
		return err
	}
	switch {
	case call.JobOrderID == nil:
		return missing("JobOrderID")
	case *call.JobOrderID == "":
		return refusal(errUnknownJobOrder, "JobOrderID is empty") // spec 2.4
	}
	var err error
	req.id, err = isa95.ParseJobOrderID(*call.JobOrderID)
	return err
}

func (req *request) readState() error {
	var call isa95.JobResponseByStateCall
	if err := isa95.Receive(req.event.Data, &call, isa95.IgnoreUnknown); err != nil {
		return err
	}
	if len(call.JobOrderState) == 0 {
		return missing("JobOrderState")
	}
	var err error
	req.state, err = isa95.ParseState(call.JobOrderState)
	return err
}

// expired says whether the event is over: by what it says of itself at now, or since it was held here beyond the time that the broker gave it. Without a time,
// the interval that it names itself has no beginning.
func expired(e cloudevent.Event, now time.Time) error {
	if d := e.Delivery.Deadline; !d.IsZero() && !time.Now().Before(d) { // a monotonic clock: both are of this process
		return tooLate(d)
	}
	end := time.Time{}
	if e.ExpiryInterval > 0 && e.Time != "" {
		t, err := rfc3339.Parse(e.Time)
		if err != nil {
			return noTime("time, from which expiryinterval counts,", e.Time)
		}
		end = t.Add(time.Duration(e.ExpiryInterval) * time.Second)
	}
	if e.ExpiryTime != "" {
		t, err := rfc3339.Parse(e.ExpiryTime)
		if err != nil {
			return noTime("expirytime", e.ExpiryTime)
		}
		end = t
	}
	if end.IsZero() || now.Before(end) {
		return nil
	}
	return tooLate(end)
}

// noTime: whether the command is over cannot be told, so it is not carried out.
func noTime(name, value string) error {
	return cloudevent.Errorf(cloudevent.KindUserPropertyInvalid, "%s is %.64q: want an RFC 3339 time with its zone, such as 2026-11-23T14:00:00Z", name, value)
}

func tooLate(end time.Time) error {
	return cloudevent.Errorf(cloudevent.KindTimeout, "the command expired at %s", end.UTC().Format(time.RFC3339Nano))
}

func missing(what string) error {
	err := cloudevent.Errorf(cloudevent.KindMissingProperty, "%s is missing", what)
	err.Context = map[string]string{"name": what}
	return err
}

func orElse(text, otherwise string) string {
	if strings.TrimSpace(text) == "" {
		return otherwise
	}
	return text
}
