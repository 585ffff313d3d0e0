package jobcontrol_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
)

// A repeated command gets the reply that was given, whatever has become of the order since, and changes nothing; the repeat may
// come by another way (row 53, D10).
func TestRepeatedCommandD10(t *testing.T) {
	var last jobcontrol.Observation
	p := newPlant(t, jobcontrol.Options{MessageExpiry: time.Minute, Observe: func(o jobcontrol.Observation) { last = o }})
	store := call(isa95.Store, order("JO-7"))
	first := p.answer(t, store)
	wantStatus(t, first, isa95.NoError)
	p.do(t, isa95.Abort, "JO-7", isa95.NoError)
	stored := p.snapshot(t)

	again := p.answer(t, store)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the reply is another:\n%s", diff)
	}
	if !last.Repeated || last.Status != isa95.NoError || last.Kind != "" {
		t.Errorf("observed %+v", last)
	}
	moved := store
	moved.Delivery.ResponseTopic, moved.Delivery.CorrelationData, moved.Delivery.Duplicate, moved.CorrelationID = "mes/resp/mes-2", []byte{1}, true, "01"
	elsewhere := p.answer(t, moved)
	wantReply(t, moved, elsewhere)
	if elsewhere.ID != first.ID || string(elsewhere.Data) != string(first.Data) {
		t.Errorf("reply %s %s, want that of %s", elsewhere.ID, elsewhere.Data, first.ID)
	}
	late := store
	late.Time, late.ExpiryInterval = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), 60
	if reply := p.answer(t, late); reply.ID != first.ID {
		t.Errorf("a repeat that has expired is answered %s: the requester would take it for not carried out", reply.Data)
	}
	if diff := cmp.Diff(stored, p.snapshot(t)); diff != "" {
		t.Errorf("a repeat changed the store:\n%s", diff)
	}
}

// An id that is used for something else is told so: the requester would take the old reply for the new one.
func TestIDUsedTwice(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	store := call(isa95.Store, order("JO-7"))
	wantStatus(t, p.answer(t, store), isa95.NoError)
	for name, f := range map[string]func(e *cloudevent.Event){
		"another order":  func(e *cloudevent.Event) { e.Data = []byte(`{"JobOrder":` + order("JO-8") + `}`) },
		"another method": func(e *cloudevent.Event) { e.Type, e.Data = isa95.Abort.TypeID(), []byte(`{"JobOrderID":"JO-7"}`) },
		"configuration":  func(e *cloudevent.Event) { e.Type, e.Data = isa95.ConfigEquipment.TypeID(), []byte(`{"ID":"EQ-1"}`) },
	} {
		e := store
		f(&e)
		reply := p.answer(t, e)
		wantStatus(t, reply, isa95.InvalidRequest)
		if reply.ErrorKind != cloudevent.KindUserPropertyInvalid {
			t.Errorf("%s: %s", name, reply.ErrorKind)
		}
	}
	e := store
	e.Source = "urn:example:other" // the same id of another source is another command
	wantStatus(t, p.answer(t, e), isa95.UnableToAccept)
}

// at is e for another scope.
func at(scope string, e cloudevent.Event) cloudevent.Event {
	e.Subject, e.Delivery.Topic = scope, "app/jobs/"+scope+"/commands"
	return e
}

// An id belongs to the scope and the source of the command. Another station cannot use it up by naming a source that is not its own.
func TestIDsBelongToScopeAndSource(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	n := 0
	store := func() cloudevent.Event {
		n++
		return call(isa95.Store, order(fmt.Sprintf("JO-%d", n)))
	}

	t.Run("two scopes", func(t *testing.T) {
		a, b := at("m43", store()), store()
		b.ID = a.ID
		first := p.answer(t, a)
		wantStatus(t, first, isa95.NoError)
		second := p.answer(t, b)
		wantStatus(t, second, isa95.NoError)
		if again := p.answer(t, a); again.ID != first.ID {
			t.Errorf("the first gets %s %s, want its reply", again.ID, again.Data)
		}
		if again := p.answer(t, b); again.ID != second.ID {
			t.Errorf("the second gets %s %s, want its reply", again.ID, again.Data)
		}
	})
	t.Run("colons", func(t *testing.T) {
		a, b := store(), store()
		a.Source, a.ID, b.Source, b.ID = "urn:a:b", "c", "urn:a", "b:c"
		wantStatus(t, p.answer(t, a), isa95.NoError)
		wantStatus(t, p.answer(t, b), isa95.NoError)
	})
	p.wantSound(t)
}

// Ids of job orders are one name space over all scopes: the refusal says so, and names no other scope.
func TestOrderIDOfAnotherScope(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	wantStatus(t, p.answer(t, at("m43", call(isa95.Store, order("JO-7")))), isa95.NoError)
	reply := p.do(t, isa95.Store, order("JO-7"), isa95.UnableToAccept)
	if !strings.Contains(reply.ErrorMessage, "in use at 1 other station") || !strings.Contains(reply.ErrorMessage, "one name space") {
		t.Error(reply.ErrorMessage)
	}
}

// Refusals and queries are decided anew, since they changed nothing.
func TestRefusalsAreDecidedAnew(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	start := call(isa95.Start, "JO-7")
	wantStatus(t, p.answer(t, start), isa95.UnknownJobOrder)
	query := call(isa95.RequestJobResponseByJobOrderID, "JO-7")
	wantStatus(t, p.answer(t, query), isa95.UnknownJobOrder)
	p.do(t, isa95.Store, order("JO-7"), isa95.NoError)
	wantStatus(t, p.answer(t, start), isa95.NoError)
	p.do(t, isa95.Abort, "JO-7", isa95.NoError)
	wantStatus(t, p.answer(t, query), isa95.NoError)
	wantStatus(t, p.answer(t, start), isa95.NoError) // the stored reply
}

// One command that comes fifty times at once has one effect, and one reply.
func TestRepeatedAtOnce(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	for _, e := range []cloudevent.Event{
		call(isa95.Store, order("JO-7")), call(isa95.Start, "JO-7"), call(isa95.Update, order("JO-7")), call(isa95.Abort, "JO-7"), call(isa95.Clear, "JO-7"),
		config(isa95.ConfigWorkMaster, "PUT", `{"ID":"WM-1"}`),
	} {
		var all sync.WaitGroup
		replies := make(chan cloudevent.Event, 50)
		for range 50 {
			all.Go(func() { replies <- p.answer(t, e) })
		}
		all.Wait()
		close(replies)
		first := <-replies
		wantStatus(t, first, isa95.NoError)
		for reply := range replies {
			if diff := cmp.Diff(first, reply); diff != "" {
				t.Fatalf("%s: replies differ:\n%s", e.Type, diff)
			}
		}
	}
	for what, got := range map[string]int{
		"changes": len(p.entries(t, p.keys.ChangesAll())) - 1, // Abort has a ResultUpdate too
		"events":  len(p.events(t)),
	} {
		if got != 5 {
			t.Errorf("%d %s, want 5", got, what)
		}
	}
	if work := p.entries(t, p.keys.SfcWork()); len(work) != 1 {
		t.Errorf("work %v, want one entry", work)
	}
}

// Cancel and Abort exclude each other: of 200 pairs that come at once, exactly one of each succeeds, and the job order is in the
// state of that one.
func TestCancelAgainstAbortD2ES26(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{})
	other := plantOn(t, p.env, storeOptionsOf(p), jobcontrol.Options{}) // another instance
	for i := range 200 {
		id := fmt.Sprintf("JO-%d", i)
		p.do(t, isa95.Store, order(id), isa95.NoError)
		var both sync.WaitGroup
		var cancelled, aborted isa95.ReturnStatus
		both.Go(func() { cancelled = status(t, p.answer(t, call(isa95.Cancel, id))) })
		both.Go(func() { aborted = status(t, other.answer(t, call(isa95.Abort, id))) })
		both.Wait()
		state := p.state(t, id)
		switch {
		case cancelled == isa95.NoError && aborted == isa95.InvalidStatus && state == "EndState":
		case cancelled == isa95.InvalidStatus && aborted == isa95.NoError && state == "Aborted":
		default:
			t.Fatalf("%s: Cancel %v, Abort %v, %s", id, cancelled, aborted, state)
		}
	}
	if got := len(p.events(t)); got != 400 {
		t.Errorf("%d events, want 400", got)
	}
	p.wantSound(t)
}

func storeOptionsOf(p *plant) jobstore.Options { return jobstore.Options{Prefix: p.keys.Prefix()} }

// The process dies, or the connection breaks, between the commit and the reply: the command was carried out and nobody knows. The
// repeat gets the stored reply, at another instance too.
func TestReplyLostD10(t *testing.T) {
	env := testenv.Redis(t)
	proxy := testenv.CountingProxy(t, env.URL)
	so := storeOptions()
	so.URL = proxy.URL
	p := plantOn(t, env, so, jobcontrol.Options{})
	q := plantOn(t, env, storeOptionsOf(p), jobcontrol.Options{})
	p.do(t, isa95.Store, order("JO-warm"), isa95.NoError)

	for i := range 20 {
		e := call(isa95.Store, order(fmt.Sprintf("JO-%d", i)))
		proxy.LoseReplies(1 + i%3) // of the load, of the attempts to connect again, of the commit
		mine := p.answer(t, e)
		proxy.LoseReplies(0)
		wantStatus(t, mine, isa95.NoError)
		if diff := cmp.Diff(mine, q.answer(t, e)); diff != "" {
			t.Fatalf("the other instance replies differently:\n%s", diff)
		}
	}
	if got := len(p.events(t)); got != 21 {
		t.Errorf("%d events, want 21", got)
	}
	p.wantSound(t)
}
