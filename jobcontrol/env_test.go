package jobcontrol_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
)

const (
	scope  = "m42"
	source = "urn:example:mes"
)

// plant is a receiver on a real store with a prefix of its own.
type plant struct {
	*jobcontrol.Receiver
	store *jobstore.Store
	rdb   rueidis.Client
	keys  keys.Keys
	env   *testenv.RedisServer
}

// newPlant starts a Redis server for the test.
func newPlant(t testing.TB, o jobcontrol.Options) *plant {
	t.Helper()
	return plantOn(t, testenv.Redis(t), jobstore.Options{}, o)
}

// plantOn makes another plant on a server; so.URL "" is the server itself. It takes orders for any scope: see configuredOnly.
func plantOn(t testing.TB, env *testenv.RedisServer, so jobstore.Options, o jobcontrol.Options) *plant {
	t.Helper()
	if so.URL == "" {
		so.URL = env.URL
	}
	if so.Prefix == "" {
		so.Prefix = env.Prefix(t)
	}
	so.Instance = fmt.Sprintf("test-%d", serial.Add(1))
	so.Source = "urn:example:dcs"
	so.Log, o.Log, o.AnyScope = quiet, quiet, true
	if o.Source == "" {
		o.Source = so.Source
	}
	if o.TopicPrefix == "" {
		o.TopicPrefix = "app/jobs"
	}
	store, err := jobstore.Open(t.Context(), so)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return &plant{Receiver: jobcontrol.New(store, o), store: store, rdb: env.Client, keys: keys.New(so.Prefix), env: env}
}

// configuredOnly makes the receiver of p refuse orders for scopes that were never configured, as it does by default.
func (p *plant) configuredOnly() {
	p.Receiver = jobcontrol.New(p.store, jobcontrol.Options{Source: "urn:example:dcs", TopicPrefix: "app/jobs", Log: quiet})
}

var (
	serial atomic.Int64
	quiet  = slog.New(slog.DiscardHandler)
)

// command is a CloudEvent with a new id, as mqtt.Decode makes it.
func command(typeID, body string) cloudevent.Event {
	id := fmt.Sprintf("req-%d", serial.Add(1))
	return cloudevent.Event{
		ID: id, Source: source, SpecVersion: "1.0", Type: typeID, Subject: scope,
		DataContentType: cloudevent.ContentTypeJSON, CorrelationID: "corr-" + id, Data: []byte(body),
		Delivery: cloudevent.Delivery{Topic: "app/jobs/" + scope + "/commands", ResponseTopic: "mes/resp/mes-1", CorrelationData: []byte("corr-" + id), QoS: 1},
	}
}

// call is the command of a job method: for methods that take an order, body is the order, else the job order id.
func call(m isa95.Method, body string) cloudevent.Event {
	switch {
	case m.TakesJobOrder():
		return command(m.TypeID(), `{"JobOrder":`+body+`}`)
	case m == isa95.RequestJobResponseByJobOrderState:
		return command(m.TypeID(), `{"JobOrderState":`+body+`}`)
	}
	return command(m.TypeID(), fmt.Sprintf(`{"JobOrderID":%q}`, body))
}

// order is a job order that names nothing but itself.
func order(id string) string { return fmt.Sprintf(`{"JobOrderID":%q,"Priority":3}`, id) }

// answer hands an event to the receiver; an error of the receiver ends the test.
func (p *plant) answer(t testing.TB, e cloudevent.Event) cloudevent.Event {
	t.Helper()
	reply, err := p.Handle(t.Context(), e)
	if err != nil {
		t.Fatalf("%s: %v", e.Type, err)
	}
	if reply == nil {
		t.Fatalf("%s: no reply", e.Type)
	}
	return *reply
}

// do carries out a job method and wants a status.
func (p *plant) do(t testing.TB, m isa95.Method, body string, want isa95.ReturnStatus) cloudevent.Event {
	t.Helper()
	e := call(m, body)
	reply := p.answer(t, e)
	wantStatus(t, reply, want)
	wantReply(t, e, reply)
	return reply
}

// status is the ReturnStatus in a reply; 0 if there is none.
func status(t testing.TB, reply cloudevent.Event) isa95.ReturnStatus {
	t.Helper()
	if len(reply.Data) == 0 {
		return 0
	}
	var body isa95.MethodResult
	if err := isa95.Unmarshal(reply.Data, &body); err != nil {
		t.Fatalf("reply %s: %v", reply.Data, err)
	}
	return body.ReturnStatus
}

func wantStatus(t testing.TB, reply cloudevent.Event, want isa95.ReturnStatus) {
	t.Helper()
	if got := status(t, reply); got != want {
		t.Fatalf("%s: %s (%s %s), want %s", reply.Type, reply.Data, reply.ErrorKind, reply.ErrorMessage, want)
	}
	switch {
	case want == isa95.NoError && (reply.ErrorKind != "" || reply.ErrorMessage != "" || reply.ErrorContext != nil):
		t.Errorf("%s: carried out, and yet %q %q", reply.Type, reply.ErrorKind, reply.ErrorMessage)
	case want != isa95.NoError && reply.ErrorMessage == "":
		t.Errorf("%s: %s without a reason", reply.Type, reply.Data)
	case want == isa95.InvalidRequest && reply.ErrorKind == "":
		t.Errorf("%s: invalid request without a kind", reply.Type)
	}
}

// wantReply checks the envelope of a reply (spec 3.5).
func wantReply(t testing.TB, e, reply cloudevent.Event) {
	t.Helper()
	for name, pair := range map[string][2]string{
		"type": {reply.Type, e.Type}, "subject": {reply.Subject, e.Subject}, "correlationid": {reply.CorrelationID, e.CorrelationID},
		"causationid": {reply.CausationID, e.ID}, "topic": {reply.Delivery.Topic, e.Delivery.ResponseTopic}, "source": {reply.Source, "urn:example:dcs"},
		"correlation data": {string(reply.Delivery.CorrelationData), string(e.Delivery.CorrelationData)},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %s is %q, want %q", e.Type, name, pair[0], pair[1])
		}
	}
	if reply.ID == "" || reply.ID == e.ID {
		t.Errorf("%s: reply has the id %q", e.Type, reply.ID)
	}
	if err := reply.Check(); err != nil {
		t.Errorf("%s: %v", e.Type, err)
	}
}

// state is that of a stored job order, "" if it is not stored.
func (p *plant) state(t testing.TB, id string) string {
	t.Helper()
	snap, err := p.store.Load(t.Context(), jobstore.Query{JobOrderID: isa95.JobOrderID(id)})
	if err != nil {
		t.Fatal(err)
	}
	if snap.Job == nil {
		return ""
	}
	return snap.Job.State.String()
}

// put brings a job order into a state by commits of the store, as an engine would: also into those that no method leads
// to. Its work and events are taken away afterwards.
func (p *plant) put(t testing.TB, id string, state isa95.State) {
	t.Helper()
	ctx := t.Context()
	o := &isa95.JobOrder{JobOrderID: id}
	store := func(to isa95.State) {
		snap, err := p.store.Load(ctx, jobstore.Query{JobOrderID: isa95.JobOrderID(id), Scope: scope})
		if err != nil {
			t.Fatal(err)
		}
		change := jobstore.Change{Transition: &jobstore.Transition{Method: "test", Order: o, State: to}, Now: p.store.Now()}
		if to.Clearable() {
			change.Response = jobstore.NewResponse(&jobstore.StoredOrder{JobOrder: o}, nil, to, p.store.Now())
		}
		if err := p.store.Commit(ctx, snap, change); err != nil {
			t.Fatal(err)
		}
	}
	if state.IsEnd() {
		store(isa95.State{Top: isa95.Aborted})
	}
	store(state)
	p.redis(t, "DEL", p.keys.SfcWork(), p.keys.EventReceiver(), p.keys.Changes(scope), p.keys.ChangesAll())
}

// redis sends one command and wants no error.
func (p *plant) redis(t testing.TB, words ...string) rueidis.RedisResult {
	t.Helper()
	return p.env.Must(t, words...)
}

// entries are the fields of a stream, oldest first.
func (p *plant) entries(t testing.TB, stream string) []map[string]string {
	t.Helper()
	list, err := p.redis(t, "XRANGE", stream, "-", "+").AsXRange()
	if err != nil {
		t.Fatal(err)
	}
	fields := make([]map[string]string, len(list))
	for i, e := range list {
		fields[i] = e.FieldValues
	}
	return fields
}

// events are the status events in the outboxes.
func (p *plant) events(t testing.TB) []cloudevent.Event {
	t.Helper()
	var events []cloudevent.Event
	for _, stream := range []string{p.keys.EventReceiver()} {
		for _, fields := range p.entries(t, stream) {
			var e cloudevent.Event
			if err := json.Unmarshal([]byte(fields["event"]), &e); err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
	}
	return events
}

// snapshot is everything stored below the prefix, as text, for comparing.
func (p *plant) snapshot(t testing.TB) map[string]string {
	t.Helper()
	names, err := p.redis(t, "KEYS", p.keys.Prefix()+":*").AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, key := range names {
		dump, err := p.redis(t, "DUMP", key).ToString()
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(key, p.keys.Prefix()+":")] = dump
	}
	return all
}

// wantSound fails if the store breaks one of its invariants.
func (p *plant) wantSound(t testing.TB) {
	t.Helper()
	violations, err := p.store.Check(t.Context(), jobstore.CheckOptions{Grace: time.Hour, AnyScope: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		t.Error(v)
	}
}

// soon bounds what must not hang.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	t.Cleanup(cancel)
	return ctx
}

// storeOptions are the defaults.
func storeOptions() jobstore.Options { return jobstore.Options{} }

// yes is the answer to a command of one bit.
func yes(t testing.TB, p *plant, words ...string) bool {
	t.Helper()
	ok, err := p.redis(t, words...).AsBool()
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func isNil(err error) bool      { return rueidis.IsRedisNil(err) }
func isConflict(err error) bool { return errors.Is(err, jobstore.ErrConflict) }
