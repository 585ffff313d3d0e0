package jobcontrol

import (
	"errors"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// verdict is what a reply says of what was asked.
type verdict struct {
	status  isa95.ReturnStatus   // 0 = nothing was decided
	kind    cloudevent.ErrorKind // "" for what the rules of the standard decide: bits 0, 1, 3 and 4
	message string               // for people; "" with NoError
	context map[string]string    // what the sender can act on
}

// verdictOf is the one place where errors become MethodReturnStatus bits (OPC 10031-4 v2.00, B.2) and error kinds. m is
// "" for configuration.
//
// Bits 1, 3 and 4 are results of a method like bit 0, so they come with a message and no kind: a kind says that the
// event could not be carried out as it was sent (bit 32), or that Takt failed.
func verdictOf(m isa95.Method, err error) verdict {
	if err == nil {
		return verdict{status: isa95.NoError}
	}
	var document *jobstore.DocumentError
	var newer *jobstore.SchemaError
	var event *cloudevent.Error
	var name *isa95.NameError
	var state *isa95.StateError
	var body *isa95.DecodeError
	var unknown *isa95.UnknownMembersError
	var program *programError
	switch {
	case errors.As(err, &newer):
		return stuck(m, "a stored document is of a newer version of Takt and stays as it is; see takt check")
	case errors.As(err, &document): // before what is wrong in it
		return stuck(m, "a stored document cannot be read; see takt check")
	case errors.Is(err, errUnknownJobOrder):
		return verdict{status: isa95.UnknownJobOrder, message: err.Error(), context: stateOf(err)}
	case errors.Is(err, errRecipeRuns):
		return verdict{status: isa95.InvalidStatus, kind: cloudevent.KindStateInvalid, message: err.Error()}
	case errors.Is(err, errNoTransition):
		return verdict{status: isa95.InvalidStatus, message: err.Error()}
	case errors.Is(err, errNotAcceptable):
		return verdict{status: isa95.UnableToAccept, message: err.Error(), context: stateOf(err)}
	case errors.As(err, &event):
		return verdict{status: invalid(event.Kind), kind: event.Kind, message: event.Message, context: event.Context}
	case errors.As(err, &name):
		return verdict{isa95.InvalidRequest, cloudevent.KindPropertyInvalid, err.Error(),
			map[string]string{"name": name.Kind, "value": name.Value, "rule": name.Rule}}
	case errors.As(err, &state):
		return verdict{status: isa95.InvalidRequest, kind: cloudevent.KindPropertyInvalid, message: err.Error()}
	case errors.As(err, &body):
		return verdict{isa95.InvalidRequest, cloudevent.KindPayloadInvalid, err.Error(),
			map[string]string{"pointer": body.Pointer, "value": body.Value, "rule": body.Rule}}
	case errors.As(err, &unknown):
		first := unknown.Members[0]
		return verdict{isa95.InvalidRequest, cloudevent.KindPropertyInvalid, err.Error(),
			map[string]string{"pointer": first.Pointer, "name": first.Name, "nearest": first.Nearest}}
	case errors.As(err, &program):
		return verdict{kind: cloudevent.KindInternalLogicError, message: "the program failed; see its log"}
	case undecided(err):
		return verdict{kind: cloudevent.KindServiceUnavailable, message: err.Error()}
	}
	return stuck(m, "what is stored cannot be used; see the log, and takt check")
}

// stateOf is the state of the job order that a refusal speaks of; nil if it names none.
func stateOf(err error) map[string]string {
	var exists *existsError
	if !errors.As(err, &exists) {
		return nil
	}
	return map[string]string{isa95.ContextJobOrderState: exists.state.String()}
}

// stuck is for what an operator has to look at: what is stored cannot be read, or Redis refuses to do it. The order stays as it
// is, and its id is in use.
func stuck(m isa95.Method, message string) verdict {
	v := verdict{status: isa95.InvalidStatus, kind: cloudevent.KindInternalLogicError, message: message}
	if m == isa95.Store || m == isa95.StoreAndStart || m == "" {
		v.status = isa95.UnableToAccept
	}
	return v
}

// verdict is verdictOf for req. Types that are not ours have no ReturnStatus.
func (req *request) verdict(err error) verdict {
	v := verdictOf(req.method, err)
	if err != nil && req.method == "" && req.config == "" {
		v.status = 0
	}
	return v
}

// invalid is the bit of an error kind: none for those that say nothing about what was asked.
func invalid(kind cloudevent.ErrorKind) isa95.ReturnStatus {
	switch kind {
	case cloudevent.KindServiceUnavailable, cloudevent.KindInternalLogicError:
		return 0
	}
	return isa95.InvalidRequest
}

// reply is the answer to req with only a ReturnStatus in its body.
func (r *Receiver) reply(req *request, v verdict, now time.Time) cloudevent.Event {
	var body []byte
	if v.status != 0 {
		body, _ = isa95.Marshal(isa95.MethodResult{ReturnStatus: v.status}) // a number always encodes
	}
	reply := r.replyWith(req, body, now)
	reply.ErrorKind, reply.ErrorMessage, reply.ErrorContext = v.kind, shorten(v.message), v.context
	return reply
}

// replyWith is the answer to req with a body of its own. The schema is that of the method's result; there is none for
// configuration.
func (r *Receiver) replyWith(req *request, body []byte, now time.Time) cloudevent.Event {
	reply := req.event.Reply(body, req.method.ResponseSchema(), r.opt.Source, now)
	if len(body) == 0 {
		reply.DataSchema, reply.DataContentType = "", ""
	}
	reply.ExpiryInterval = int64(max(r.opt.MessageExpiry, 0) / time.Second)
	return reply
}

func (r *Receiver) refuse(req *request, v verdict) cloudevent.Event {
	return r.reply(req, v, r.store.Now())
}

// maxMessage is the longest mdcserrormessage in bytes, so that one that is cut says so.
const maxMessage = cloudevent.MaxValue - len(" ...")

func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	cut := maxMessage
	for cut > 0 && message[cut]&0xC0 == 0x80 { // not within a rune
		cut--
	}
	return message[:cut] + " ..."
}
