package mes_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/mqtt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
var patience = testenv.Patience

const scope = isa95.Scope("cell-07")

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

var (
	within = testenv.Within
	run    = testenv.Run
)

func take[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	return testenv.Take(t, what, from)
}

// newMES makes and runs a client. It repeats no command that is not answered yet, unless change says otherwise: what tests count is what was sent.
func newMES(t testing.TB, url, id string, change ...func(*mes.Options)) *mes.Client {
	t.Helper()
	o := mes.Options{MQTT: mqtt.Options{URL: url, ClientID: id}, RepeatAfter: patience, Log: quiet()}
	for _, f := range change {
		f(&o)
	}
	c, err := mes.New(o)
	testenv.Must(t, err)
	run(t, c.Run)
	testenv.Must(t, c.Ready(within(t)))
	return c
}

// fakeTakt speaks Takt's side of the wire without a store: it answers commands as it is told, and keeps retained topics.
type fakeTakt struct {
	t    testing.TB
	recv *mqtt.Conn // commands come here
	conn *mqtt.Conn

	mu       sync.Mutex
	received []cloudevent.Event
	answer   func(e cloudevent.Event) *cloudevent.Event // nil = deal with orders below
	seq      int64
	epoch    string
	wire     bool       // the epoch stands beside the index, as a user property
	jobs     []*fakeJob // in the index, in order

	earlier    bool            // a version that names no states of orders
	commandIDs map[string]bool // of Store
	made       []string        // orders stored
}

type fakeJob struct {
	id        string
	state     isa95.State
	hasResult bool
	response  *isa95.JobResponse // nil = none
	keep      bool               // Clear is answered, but the next index still lists it
}

func newFakeTakt(t testing.TB, url string) *fakeTakt {
	t.Helper()
	k := &fakeTakt{t: t, commandIDs: map[string]bool{}}
	conn := func(id string) *mqtt.Conn {
		c, err := mqtt.New(mqtt.Options{URL: url, ClientID: id, Log: quiet()})
		testenv.Must(t, err)
		return c
	}
	recv, pub := conn("fake-takt"), conn("fake-takt-pub")
	k.recv, k.conn = recv, pub
	server, err := mqtt.NewServer(recv, pub, mqtt.ServerOptions{
		Filters: []string{"takt/+/commands", "takt/commands"}, Handler: k, Log: quiet(), Drain: time.Second,
	})
	testenv.Must(t, err)
	run(t, recv.Run)
	run(t, pub.Run)
	run(t, server.Run)
	k.ready()
	return k
}

// ready waits until commands reach it and it can publish: the broker keeps none for it.
func (k *fakeTakt) ready() {
	k.t.Helper()
	for _, c := range []*mqtt.Conn{k.recv, k.conn} {
		testenv.Must(k.t, c.Ready(within(k.t)))
	}
}

func (k *fakeTakt) Handle(_ context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.received = append(k.received, e)
	if k.answer != nil {
		return k.answer(e), nil
	}
	if m, _ := isa95.MethodByTypeID(e.Type); m == isa95.Store || m == isa95.StoreAndStart {
		return k.store(e), nil
	}
	var call isa95.JobOrderIDCall
	if err := isa95.Unmarshal(e.Data, &call); err != nil || call.JobOrderID == nil {
		return reply(e, `{"ReturnStatus":4294967296}`), nil
	}
	i := slices.IndexFunc(k.jobs, func(j *fakeJob) bool { return j.id == *call.JobOrderID })
	if i < 0 {
		return k.withState(reply(e, `{"ReturnStatus":2}`), isa95.Initial), nil
	}
	j := k.jobs[i]
	switch m, _ := isa95.MethodByTypeID(e.Type); {
	case m == isa95.RequestJobResponseByJobOrderID && j.response == nil:
		return k.withState(reply(e, `{"ReturnStatus":2}`), j.state), nil
	case m == isa95.RequestJobResponseByJobOrderID:
		data, _ := isa95.Marshal(isa95.JobResponseResult{JobResponse: j.response, ReturnStatus: isa95.NoError})
		return reply(e, string(data)), nil
	case m == isa95.Clear && j.state.Clearable():
		if !j.keep {
			k.jobs = slices.Delete(k.jobs, i, i+1)
			k.retain("result/"+j.id, nil)
		}
		k.publishIndex()
		return reply(e, `{"ReturnStatus":1}`), nil
	}
	return reply(e, `{"ReturnStatus":8}`), nil
}

// store takes an order that runs from now on, but does not tell it in an index. A repeated command is answered again.
func (k *fakeTakt) store(e cloudevent.Event) *cloudevent.Event {
	var call isa95.JobOrderCall
	if err := isa95.Unmarshal(e.Data, &call); err != nil || call.JobOrder == nil {
		return reply(e, `{"ReturnStatus":4294967296}`)
	}
	if k.commandIDs[e.ID] {
		return reply(e, `{"ReturnStatus":1}`)
	}
	if i := slices.IndexFunc(k.jobs, func(j *fakeJob) bool { return j.id == call.JobOrder.JobOrderID }); i >= 0 {
		return k.withState(reply(e, `{"ReturnStatus":16}`), k.jobs[i].state)
	}
	k.commandIDs[e.ID] = true
	k.made = append(k.made, call.JobOrder.JobOrderID)
	k.jobs = append(k.jobs, &fakeJob{id: call.JobOrder.JobOrderID, state: isa95.State{Top: isa95.Running}})
	return reply(e, `{"ReturnStatus":1}`)
}

func (k *fakeTakt) withState(e *cloudevent.Event, s isa95.State) *cloudevent.Event {
	if k.earlier {
		return e
	}
	e.ErrorContext = map[string]string{isa95.ContextJobOrderState: s.String()}
	return e
}

func (k *fakeTakt) Refuse(_ context.Context, e cloudevent.Event, why *cloudevent.Error) *cloudevent.Event {
	answer := e.Refusal(why, "urn:fake:takt", time.Now())
	return &answer
}

func reply(e cloudevent.Event, body string) *cloudevent.Event {
	m, _ := isa95.MethodByTypeID(e.Type)
	answer := e.Reply([]byte(body), m.ResponseSchema(), "urn:fake:takt", time.Now())
	return &answer
}

// retain publishes below the scope; nil deletes.
func (k *fakeTakt) retain(topic string, payload []byte) {
	if err := k.conn.Retain(within(k.t), "takt/"+string(scope)+"/"+topic, payload, 0); err != nil {
		k.t.Errorf("retain %s: %v", topic, err)
	}
}

// publishIndex takes the next seq. k.mu is held.
func (k *fakeTakt) publishIndex() {
	k.seq++
	k.sendIndex()
}

// sendIndex publishes the index as it is.
func (k *fakeTakt) sendIndex() {
	index := isa95.StateIndex{Seq: k.seq, Scope: string(scope), PublishedAt: "2026-11-21T09:14:05Z", Jobs: []isa95.StateIndexEntry{}}
	for _, j := range k.jobs {
		index.Jobs = append(index.Jobs, isa95.StateIndexEntry{JobOrderID: j.id, State: j.state.Elements(), HasResult: j.hasResult})
	}
	data, err := isa95.Marshal(index)
	if err != nil {
		k.t.Error(err)
	}
	m := mqtt.Message{Topic: "takt/" + string(scope) + "/state-index", QoS: 1, Retain: true, Payload: data}
	switch {
	case k.epoch != "" && k.wire:
		m.User = []mqtt.UserProperty{{Name: "epoch", Value: k.epoch}}
	case k.epoch != "":
		m.Payload = fmt.Appendf(nil, `{"epoch":%q,%s`, k.epoch, data[1:])
	}
	if err := k.conn.Publish(within(k.t), m); err != nil {
		k.t.Error(err)
	}
}

// with alters what there is.
func (k *fakeTakt) with(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

// change alters what there is and publishes an index.
func (k *fakeTakt) change(f func()) {
	k.with(func() { f(); k.publishIndex() })
}

var ended = isa95.State{Top: isa95.Ended, Sub: isa95.Completed}

// end adds an order that is over with a result, and its topic. value tells results of one id apart.
func (k *fakeTakt) end(id, value string) *fakeJob {
	j := &fakeJob{id: id, state: ended, hasResult: true, response: response(id, value)}
	k.jobs = append(k.jobs, j)
	k.publishResult(j)
	return j
}

func (k *fakeTakt) publishResult(j *fakeJob) {
	data, err := isa95.Marshal(j.response)
	if err != nil {
		k.t.Error(err)
	}
	k.retain("result/"+j.id, data)
}

func response(id, value string) *isa95.JobResponse {
	return &isa95.JobResponse{
		JobResponseID: id + "-response", JobOrderID: id, JobState: ended.Elements(),
		JobResponseData: []isa95.Parameter{{ID: "torque_nm", Value: []byte(value)}},
	}
}

// commands lists what came of a method, by the order ids.
func (k *fakeTakt) commands(m isa95.Method) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ids []string
	for _, e := range k.received {
		if e.Type == m.TypeID() {
			var call isa95.JobOrderIDCall
			_ = isa95.Unmarshal(e.Data, &call)
			ids = append(ids, *call.JobOrderID)
		}
	}
	return ids
}

var mosquitto = testenv.Mosquitto
