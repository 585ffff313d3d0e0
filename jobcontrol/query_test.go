package jobcontrol_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
)

func TestQueryByID(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.running(t, "JO-7")
	p.do(t, isa95.RequestJobResponseByJobOrderID, "JO-7", isa95.UnknownJobOrder) // none yet
	p.do(t, isa95.Stop, "JO-7", isa95.NoError)
	reply := p.do(t, isa95.RequestJobResponseByJobOrderID, "JO-7", isa95.NoError)
	r := p.load(t, "JO-7").Response
	want, err := isa95.Marshal(isa95.JobResponseResult{JobResponse: r, ReturnStatus: isa95.NoError})
	if err != nil {
		t.Fatal(err)
	}
	if string(reply.Data) != string(want) || !strings.HasPrefix(string(reply.Data), `{"JobResponse":{"JobResponseID":"JO-7-response","JobOrderID":"JO-7",`) ||
		!strings.HasSuffix(string(reply.Data), `},"ReturnStatus":1}`) || strings.Contains(string(reply.Data), `"_`) {
		t.Errorf("reply %s", reply.Data)
	}
	if reply.DataSchema != isa95.RequestJobResponseByJobOrderID.ResponseSchema() {
		t.Errorf("schema %s", reply.DataSchema)
	}
	p.do(t, isa95.Clear, "JO-7", isa95.NoError)
	p.do(t, isa95.RequestJobResponseByJobOrderID, "JO-7", isa95.UnknownJobOrder)
	p.do(t, isa95.Store, order("JO-7"), isa95.NoError)
	p.do(t, isa95.RequestJobResponseByJobOrderID, "JO-7", isa95.UnknownJobOrder)
}

// states is the array form of a composite state, by texts alone.
func states(texts ...string) string {
	var elements []string
	for _, text := range texts {
		elements = append(elements, fmt.Sprintf(`{"StateText":{"Text":%q}}`, text))
	}
	return "[" + strings.Join(elements, ",") + "]"
}

// The whole composite is matched, within the scope; orders that were cleared are gone (spec 2.4).
func TestQueryByState(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	for _, id := range []string{"JO-1", "JO-2", "JO-3"} {
		p.running(t, id)
	}
	p.do(t, isa95.Stop, "JO-2", isa95.NoError)
	p.do(t, isa95.Stop, "JO-1", isa95.NoError)
	p.do(t, isa95.Abort, "JO-3", isa95.NoError)
	ask := func(subject, state string, want ...string) {
		t.Helper()
		e := call(isa95.RequestJobResponseByJobOrderState, state)
		e.Subject, e.Delivery.Topic = subject, ""
		reply := p.answer(t, e)
		wantStatus(t, reply, isa95.NoError)
		var result isa95.JobResponsesResult
		if err := isa95.Unmarshal(reply.Data, &result); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range result.JobResponses {
			got = append(got, r.JobOrderID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s:\n%s", subject, state, diff)
		}
		if len(want) == 0 && string(reply.Data) != `{"ReturnStatus":1}` {
			t.Errorf("%s %s: %s", subject, state, reply.Data)
		}
	}
	ask(scope, states("Ended", "Completed"), "JO-1", "JO-2")
	ask(scope, states("Ended", "", "Completed"), "JO-1", "JO-2")
	ask(scope, states("Ended_Completed"), "JO-1", "JO-2")
	ask(scope, states("Aborted"), "JO-3")
	ask(scope, states("Ended"))
	ask(scope, states("Running"))
	ask(scope, `[{"StateNumber":5},{"StateNumber":1}]`)
	ask("m43", states("Ended", "Completed"))
	p.do(t, isa95.Clear, "JO-1", isa95.NoError)
	ask(scope, states("Ended", "Completed"), "JO-2")

	// A response that cannot be read costs itself, not the others.
	p.running(t, "JO-4")
	p.do(t, isa95.Stop, "JO-4", isa95.NoError)
	p.redis(t, "SET", p.keys.JobResponse("JO-2-response"), `{"JobState":5`)
	ask(scope, states("Ended", "Completed"), "JO-4")
}

// An answer that has more responses than any body may hold says so instead of failing.
func TestQueryTooLarge(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	p.put(t, "JO-1", isa95.State{Top: isa95.Aborted})
	for i := range 38 {
		id := fmt.Sprintf("big-%d", i)
		p.redis(t, "SET", p.keys.JobResponse(id), fmt.Sprintf(`{"JobResponseID":%q,"JobResponseData":[{"ID":"x","Value":%q}]}`, id, strings.Repeat("x", 900_000)))
		p.redis(t, "SADD", p.keys.ResponsesByState(scope, "Aborted"), id)
	}
	reply := p.answer(t, call(isa95.RequestJobResponseByJobOrderState, states("Aborted")))
	if reply.ErrorKind != cloudevent.KindResourceExhausted || string(reply.Data) != `{"ReturnStatus":4294967296}` {
		t.Errorf("%s %q, %d bytes", reply.ErrorKind, reply.ErrorMessage, len(reply.Data))
	}
	p.redis(t, "DEL", p.keys.ResponsesByState(scope, "Aborted"))
}
