package jobcontrol_test

import (
	"errors"
	"testing"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/mqtt"
)

// FuzzHandle gives the receiver any message: it is answered, the answer can be sent and read again, it says why it is no
// success, and a repeat of a success gets the same answer.
func FuzzHandle(f *testing.F) {
	for _, m := range isa95.Methods() {
		f.Add(m.TypeID(), "m42", "app/jobs/m42/commands", "", []byte(`{"JobOrder":{"JobOrderID":"JO-7"},"JobOrderID":"JO-7","JobOrderState":[{"StateText":{"Text":"Aborted"}}]}`))
	}
	for _, k := range isa95.ConfigKinds() {
		f.Add(k.TypeID(), "m42/x", "app/jobs/commands", "DELETE", []byte(`{"ID":"X","MaterialClassID":"X","MaterialDefinitionID":"X","max_downloadable_job_orders":9,"data":{},"dataschema":"https://aschamberger.github.io/schemas/microdcs/sfc-recipe/v1.0.0/"}`))
	}
	p := newPlant(f, jobcontrol.Options{})
	f.Fuzz(func(t *testing.T, typeID, subject, topic, method string, body []byte) {
		e := command(typeID, string(body))
		e.Subject, e.Method, e.Delivery.Topic = subject, method, topic
		answer := func() cloudevent.Event {
			var refusal *cloudevent.Error
			if errors.As(e.Check(), &refusal) {
				return *p.Refuse(t.Context(), e, refusal)
			}
			return p.answer(t, e)
		}
		reply := answer()
		if reply.ErrorKind == cloudevent.KindServiceUnavailable || reply.ErrorKind == cloudevent.KindInternalLogicError {
			t.Fatalf("%s %q", reply.ErrorKind, reply.ErrorMessage)
		}
		if got := status(t, reply); (got == isa95.NoError) != (reply.ErrorMessage == "") {
			t.Fatalf("%v %s %q", got, reply.ErrorKind, reply.ErrorMessage)
		}
		if reply.Check() != nil {
			return // it repeats what cannot be sent, and so never came
		}
		if back, err := mqtt.Decode(mqtt.Encode(reply.Delivery.Topic, reply)); err != nil || string(back.Data) != string(reply.Data) || back.CausationID != e.ID {
			t.Fatalf("read back: %v %v", back, err)
		}
		if m, ok := isa95.MethodByTypeID(typeID); reply.ErrorKind == "" && reply.ErrorMessage == "" && !(ok && m.IsQuery()) {
			if again := answer(); again.ID != reply.ID {
				t.Fatalf("the repeat got %s %s", again.Data, again.ErrorMessage)
			}
		}
	})
}
