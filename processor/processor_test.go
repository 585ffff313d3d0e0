package processor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/mqtt"
)

var quiet = func() *slog.Logger {
	if testenv.Logs() {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}()

// plant is a processor on a store and a broker of their own.
type plant struct {
	*Processor
	srv   *testenv.RedisServer
	bed   *testenv.Bed
	store *jobstore.Store
}

func newPlant(t *testing.T, srv *testenv.RedisServer, o jobstore.Options) *plant {
	t.Helper()
	bed := testenv.NewBed(t, srv)
	o.URL, o.Prefix, o.Instance, o.Log = "redis://"+srv.Addr, strings.TrimSuffix(bed.Prefix(), ":"), "pod-1", quiet
	store, err := jobstore.Open(t.Context(), o)
	testenv.Must(t, err)
	t.Cleanup(store.Close)
	p, err := New(Options{Name: "goods", Store: store, MQTT: mqtt.Options{URL: "mqtt://127.0.0.1:1"}, AnyScope: true, Hold: time.Minute, Log: quiet})
	testenv.Must(t, err)
	return &plant{p, srv, bed, store}
}

// asked is an event that asks for an answer.
func asked(typ, body string) cloudevent.Event {
	e := cloudevent.New(typ, "urn:erp", "press-7", time.Now())
	e.Data = []byte(body)
	e.Delivery = cloudevent.Delivery{Topic: "takt/processors/goods/press-7", ResponseTopic: "mes/replies"}
	return e
}

func (p *plant) send(t *testing.T, e cloudevent.Event) cloudevent.Event {
	t.Helper()
	reply, err := p.Deliver(t.Context(), e)
	testenv.Must(t, err)
	return *reply
}

type arrival struct {
	Lot    string
	Pieces int
}

const arrived = "com.example.MaterialArrived"

func order(id string) *isa95.JobOrder { return &isa95.JobOrder{JobOrderID: id} }

// What a handler writes, the mark of the event and the reply are one commit; the event is handled once, and a repeated one gets the same reply.
func TestOneCommit(t *testing.T) {
	p := newPlant(t, testenv.Redis(t), jobstore.Options{})
	calls := 0
	Handle(p.Processor, arrived, func(ctx context.Context, tx *Tx, in arrival) (map[string]int, error) {
		calls++
		stock := 0
		if _, err := tx.Get(ctx, "stock", &stock); err != nil {
			return nil, err
		}
		if err := tx.Put("stock", stock+in.Pieces, 0); err != nil {
			return nil, err
		}
		if err := tx.Configure(ctx, jobstore.Configuration{Kind: isa95.ConfigMaterialClass, Scope: "press-7", ID: in.Lot}); err != nil {
			return nil, err
		}
		if err := tx.Call(ctx, Call{Method: isa95.StoreAndStart, Scope: "press-7", JobOrder: order("JO-" + in.Lot)}); err != nil {
			return nil, err
		}
		return map[string]int{"stock": stock + in.Pieces}, tx.Emit("com.example.StockChanged", "press-7", map[string]int{"pieces": stock + in.Pieces})
	})
	e := asked(arrived, `{"Lot":"L1","Pieces":5}`)
	first := p.send(t, e)
	if string(first.Data) != `{"stock":5}` || first.Err() != nil || first.CausationID != e.ID || first.Type != arrived {
		t.Errorf("reply %s of type %s, error %v, cause %s", first.Data, first.Type, first.Err(), first.CausationID)
	}
	e.Delivery.Duplicate = true
	if again := p.send(t, e); string(again.Data) != string(first.Data) || again.ID != first.ID || calls != 1 {
		t.Errorf("the repeated event: reply %s (%s, want %s), handled %d times", again.Data, again.ID, first.ID, calls)
	}
	outbox := p.srv.Must(t, "XRANGE", p.bed.Prefix()+"event:receiver:list", "-", "+")
	entries, err := outbox.AsXRange()
	if err != nil || len(entries) != 2 { // the status event of the job order, too
		t.Fatalf("%d entries in the outbox of events: %v", len(entries), err)
	}
	var emitted cloudevent.Event
	if err := emitted.UnmarshalJSON([]byte(entries[1].FieldValues["event"])); err != nil || string(emitted.Data) != `{"pieces":5}` || emitted.CausationID != e.ID || emitted.Subject != "press-7" {
		t.Errorf("emitted %s, caused by %s, about %s: %v", emitted.Data, emitted.CausationID, emitted.Subject, err)
	}
	snap, err := p.store.Load(t.Context(), jobstore.Query{JobOrderID: "JO-L1"})
	if err != nil || snap.Job == nil || snap.Job.State.Top != isa95.AllowedToStart {
		t.Errorf("the job order: %+v, %v", snap.Job, err)
	}
	if ids, err := p.store.Resources(t.Context(), "press-7", isa95.ConfigMaterialClass); !slices.Equal(ids, []string{"L1"}) {
		t.Errorf("the material class: %v, %v", ids, err)
	}
}

// An event that is refused, or whose handler fails or panics, is answered with the reason and writes nothing.
func TestRefusals(t *testing.T) {
	p := newPlant(t, testenv.Redis(t), jobstore.Options{})
	wrote := func(tx *Tx) error { return tx.Put("wrote", true, 0) }
	Handle(p.Processor, arrived, func(ctx context.Context, tx *Tx, in arrival) (any, error) {
		if err := wrote(tx); err != nil {
			return nil, err
		}
		switch in.Lot {
		case "own":
			return nil, cloudevent.Errorf(cloudevent.KindResourceExhausted, "no room for %d pieces", in.Pieces)
		case "bug":
			panic(in.Lot)
		case "order":
			return nil, tx.Call(ctx, Call{Method: isa95.Start, Scope: "press-7", JobOrderID: "JO-1"})
		case "twice":
			return nil, errors.Join(tx.Call(ctx, Call{Method: isa95.Store, Scope: "press-7", JobOrder: order("JO-1")}), tx.Call(ctx, Call{Method: isa95.Start, Scope: "press-7", JobOrderID: "JO-1"}))
		case "query":
			return nil, tx.Call(ctx, Call{Method: isa95.RequestJobResponseByJobOrderID, Scope: "press-7"})
		case "name":
			return nil, tx.Put("a\nb", 1, 0)
		case "large":
			return nil, tx.Put("a", strings.Repeat("x", jobstore.MaxProgramValue), 0)
		case "event":
			return nil, tx.Emit("", "press-7", nil)
		}
		return nil, errors.New("the scale is broken")
	})
	body := func(lot string) func(*cloudevent.Event) {
		return func(e *cloudevent.Event) { e.Data = []byte(`{"Lot":"` + lot + `","Pieces":5}`) }
	}
	for name, c := range map[string]struct {
		change  func(*cloudevent.Event)
		kind    cloudevent.ErrorKind
		message string
	}{
		"type":            {func(e *cloudevent.Event) { e.Type = "other" }, cloudevent.KindUnknownPayloadType, `type "other" is none that goods handles`},
		"body":            {func(e *cloudevent.Event) { e.Data = []byte(`{"Pieces":"five"}`) }, cloudevent.KindPayloadInvalid, "Pieces"},
		"scope of topic":  {func(e *cloudevent.Event) { e.Delivery.Topic = "takt/processors/goods/press-8" }, cloudevent.KindPropertyInvalid, `the scope "press-7" and the topic "press-8"`},
		"no subject":      {func(e *cloudevent.Event) { e.Subject = "" }, cloudevent.KindMissingUserProperty, "subject is missing"},
		"retained":        {func(e *cloudevent.Event) { e.Delivery.Retained = true }, cloudevent.KindPropertyInvalid, "retained"},
		"expired":         {func(e *cloudevent.Event) { e.ExpiryTime = "2020-01-01T00:00:00Z" }, cloudevent.KindTimeout, "expired"},
		"by the handler":  {body("own"), cloudevent.KindResourceExhausted, "no room for 5 pieces"},
		"by the rules":    {body("order"), cloudevent.KindStateInvalid, `unknown job order: "JO-1" at station "press-7"`},
		"error":           {body(""), cloudevent.KindInternalLogicError, "the program failed; see its log"},
		"panic":           {body("bug"), cloudevent.KindInternalLogicError, "the program failed; see its log"},
		"order twice":     {body("twice"), cloudevent.KindInternalLogicError, "the program failed; see its log"},
		"no such method":  {body("query"), cloudevent.KindInternalLogicError, "the program failed; see its log"},
		"name of a value": {body("name"), cloudevent.KindInternalLogicError, "the program failed; see its log"},
		"large value":     {body("large"), cloudevent.KindInternalLogicError, "the program failed; see its log"},
		"bad event":       {body("event"), cloudevent.KindMissingUserProperty, "type"},
	} {
		t.Run(name, func(t *testing.T) {
			e := asked(arrived, `{}`)
			c.change(&e)
			reply := p.send(t, e)
			if why := reply.Err(); why == nil || why.Kind != c.kind || !strings.Contains(why.Error(), c.message) || reply.Data != nil {
				t.Errorf("answered %s, %v; want %s with %q", reply.Data, why, c.kind, c.message)
			}
			for key := range p.bed.Dump() {
				t.Errorf("%s was written", key)
			}
		})
	}
}

// A handler is called again when what it read has changed before the commit.
func TestConflict(t *testing.T) {
	srv := testenv.Redis(t)
	p := newPlant(t, srv, jobstore.Options{})
	calls := 0
	Handle(p.Processor, arrived, func(ctx context.Context, tx *Tx, in arrival) (int, error) {
		calls++
		stock := 0
		_, err := tx.Get(ctx, "stock", &stock)
		if calls == 1 { // another replica is faster
			srv.Must(t, "SET", p.bed.Prefix()+"program:goods:stock", "7")
		}
		return stock, errors.Join(err, tx.Put("stock", stock+in.Pieces, time.Hour))
	})
	if reply := p.send(t, asked(arrived, `{"Pieces":5}`)); string(reply.Data) != "7" || calls != 2 {
		t.Errorf("%s after %d calls", reply.Data, calls)
	}
	if stock, _ := srv.Must(t, "GET", p.bed.Prefix()+"program:goods:stock").ToString(); stock != "12" {
		t.Errorf("stock %s", stock)
	}
}

// A handler has the time that it needs, however short Options.Hold is; and an event that two replicas handle at once is answered the same by both.
func TestTwoReplicasAtOnce(t *testing.T) {
	p := newPlant(t, testenv.Redis(t), jobstore.Options{})
	p.receiver = jobcontrol.New(p.store, jobcontrol.Options{AnyScope: true, HoldWhenAway: time.Nanosecond, Log: quiet})
	e := asked(arrived, `{"Lot":"L1"}`)
	calls := 0
	var inner cloudevent.Event
	Handle(p.Processor, arrived, func(ctx context.Context, tx *Tx, in arrival) (string, error) {
		if calls++; calls == 1 { // another replica is faster
			inner = p.send(t, e)
		}
		if err := ctx.Err(); err != nil {
			return "", err
		}
		return in.Lot, tx.Call(ctx, Call{Method: isa95.Store, Scope: "press-7", JobOrder: order("JO-1")})
	})
	if outer := p.send(t, e); outer.Err() != nil || string(outer.Data) != `"L1"` || string(inner.Data) != `"L1"` || outer.ID != inner.ID || calls != 2 {
		t.Errorf("answered %s (%v) and %s after %d calls", outer.Data, outer.Err(), inner.Data, calls)
	}
}

// Job orders that one commit stores count against the limit of the scope.
func TestLimitOfOneCommit(t *testing.T) {
	p := newPlant(t, testenv.Redis(t), jobstore.Options{})
	err := p.Do(t.Context(), func(tx *Tx) error {
		return tx.Configure(t.Context(), jobstore.Configuration{Kind: isa95.ConfigJobAcceptance, Scope: "press-7", Limit: 2})
	})
	testenv.Must(t, err)
	var refused *RefusedError
	err = p.Do(t.Context(), func(tx *Tx) error {
		for _, id := range []string{"JO-1", "JO-2"} {
			if err := tx.Call(t.Context(), Call{Method: isa95.Store, Scope: "press-7", JobOrder: order(id)}); err != nil {
				return err
			}
		}
		if err := tx.Call(t.Context(), Call{Method: isa95.Store, Scope: "press-7", JobOrder: order("JO-3")}); !errors.As(err, &refused) {
			t.Errorf("the third is not refused: %v", err)
		}
		return nil
	})
	if n := p.srv.Number(t, "ZCARD", p.bed.Prefix()+"joborder:list:press-7"); err != nil || n != 2 || refused.Status != isa95.UnableToAccept {
		t.Errorf("%d job orders, refused with %v: %v", n, refused, err)
	}
}

// An event that asks for no answer is handled again until its handler takes it, and is a dead letter after ten failures while others are handled, or after ten times as long.
func TestHandlerFails(t *testing.T) {
	p := newPlant(t, testenv.Redis(t), jobstore.Options{Patience: time.Millisecond})
	Handle(p.Processor, arrived, func(_ context.Context, tx *Tx, in arrival) (any, error) {
		if in.Pieces < 0 {
			return nil, errors.New("the scale is broken")
		}
		return nil, tx.Put("stock", in.Pieces, 0)
	})
	bad, good := asked(arrived, `{"Pieces":-1}`), asked(arrived, `{"Pieces":1}`)
	bad.Delivery.ResponseTopic, good.Delivery.ResponseTopic = "", ""
	for try := 1; try < 10; try++ {
		if _, err := p.Deliver(t.Context(), bad); err == nil || err.Error() != "the scale is broken" {
			t.Fatalf("try %d: %v", try, err)
		}
	}
	alone := bad
	alone.ID = "alone"
	for err := errors.New(""); err != nil; { // over ten times the patience
		_, err = p.Deliver(t.Context(), alone)
	}
	for range 2 {
		if reply := p.send(t, good); reply.Delivery.Topic != "" || reply.Err() != nil {
			t.Errorf("answered on %q: %v", reply.Delivery.Topic, reply.Err())
		}
	}
	for err := errors.New(""); err != nil; { // until the patience is over
		_, err = p.Deliver(t.Context(), bad)
	}
	if n := p.srv.Number(t, "XLEN", p.bed.Prefix()+"intake:dead"); n != 2 {
		t.Errorf("%d dead letters", n)
	}
}

// Over a real broker: replicas run the hook once and before any event, and share the events; what cannot be read is answered.
func TestReplicas(t *testing.T) {
	srv, broker := testenv.Redis(t), testenv.StartMosquitto(t, embedded.MosquittoOptions{})
	bed := testenv.NewBed(t, srv)
	var mu sync.Mutex
	handled, hooks := map[string]int{}, 0
	ctx, stop := context.WithCancel(t.Context())
	var replicas sync.WaitGroup
	defer replicas.Wait()
	defer stop()
	for _, instance := range []string{"pod-1", "pod-2"} {
		store, err := jobstore.Open(ctx, jobstore.Options{URL: "redis://" + srv.Addr, Prefix: strings.TrimSuffix(bed.Prefix(), ":"), Instance: instance, Log: quiet})
		testenv.Must(t, err)
		defer store.Close()
		p, err := New(Options{Name: "goods", Store: store, MQTT: mqtt.Options{URL: broker.URL}, Log: quiet})
		testenv.Must(t, err)
		p.PostStart("station", func(ctx context.Context, tx *Tx) error {
			mu.Lock()
			hooks++
			mu.Unlock()
			return tx.Configure(ctx, jobstore.Configuration{Kind: isa95.ConfigEquipment, Scope: "press-7", ID: "EQ-1"})
		})
		p.HandleJSON(arrived, func(ctx context.Context, tx *Tx, data json.RawMessage) (json.RawMessage, error) {
			mu.Lock()
			defer mu.Unlock()
			if hooks != 1 {
				t.Error("an event is handled before the hook")
			}
			handled[instance]++
			return data, nil
		})
		replicas.Go(func() {
			if err := p.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		testenv.Must(t, p.Ready(t.Context()))
	}
	client, err := mes.New(mes.Options{MQTT: mqtt.Options{URL: broker.URL, ClientID: "erp", Log: quiet}})
	testenv.Must(t, err)
	replicas.Go(func() { _ = client.Run(ctx) })
	testenv.Must(t, client.Ready(t.Context()))
	for _, topic := range slices.Repeat([]string{"takt/processors/goods/press-7", "takt/processors/goods"}, 10) {
		e := asked(arrived, `{"Lot":"L1"}`)
		e.Delivery = cloudevent.Delivery{}
		if reply, err := client.Request(t.Context(), topic, e); err != nil || string(reply.Data) != `{"Lot":"L1"}` {
			t.Fatalf("on %s: %s, %v, %v", topic, reply.Data, reply.Err(), err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if hooks != 1 || handled["pod-1"] == 0 || handled["pod-2"] == 0 || handled["pod-1"]+handled["pod-2"] != 20 {
		t.Errorf("%d hooks, handled %v", hooks, handled)
	}
}

// The variables are those of takt; which one is missing is said.
func TestFromEnvironment(t *testing.T) {
	for _, test := range []struct{ redis, mqtt, want string }{
		{"", "mqtt://b", "TAKT_REDIS is empty"}, {"redis://a", "", "TAKT_MQTT is empty"}, {"redis://a", "mqtt://b", ""},
	} {
		t.Setenv("TAKT_REDIS", test.redis)
		t.Setenv("TAKT_MQTT", test.mqtt)
		t.Setenv("TAKT_PREFIX", "plant")
		t.Setenv("TAKT_INSTANCE", "pod-1")
		store, o, err := FromEnvironment("goods")
		if got := fmt.Sprint(err); test.want != "" && !strings.Contains(got, test.want) {
			t.Errorf("%q, %q: %s", test.redis, test.mqtt, got)
		}
		if test.want == "" && (err != nil || store.URL != "redis://a" || store.Prefix != "plant" || store.Instance != "pod-1" || o.MQTT.URL != "mqtt://b" || o.Name != "goods" || o.TopicPrefix != "takt") {
			t.Errorf("%+v, %+v, %v", store, o, err)
		}
	}
}

// Bad options name field, value and rule.
func TestOptions(t *testing.T) {
	p := newPlant(t, testenv.Redis(t), jobstore.Options{})
	for want, change := range map[string]func(*Options){
		`Name is "a/b": must be`: func(o *Options) { o.Name = "a/b" },
		"Store is nil":           func(o *Options) { o.Store = nil },
		"Slots is -1":            func(o *Options) { o.Slots = -1 },
		"URL":                    func(o *Options) { o.MQTT.URL = "" },
	} {
		o := Options{Name: "goods", Store: p.store, MQTT: mqtt.Options{URL: "mqtt://127.0.0.1:1"}}
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no handler") {
		t.Errorf("Run without handlers: %v", err)
	}
}
