package mqtt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/mqtt"
)

// handler answers with what handle says, and refuses with a body as job methods do. It keeps
// replies by source and id, as a real one must.
type handler struct {
	handle func(ctx context.Context, e cloudevent.Event) (*cloudevent.Event, error) // nil: answers {}

	mu     sync.Mutex
	seen   []cloudevent.Event // every call
	stored map[string]*cloudevent.Event
}

func (h *handler) Handle(ctx context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
	h.mu.Lock()
	h.seen = append(h.seen, e)
	reply := h.stored[e.Source+" "+e.ID]
	h.mu.Unlock()
	if reply != nil {
		return reply, nil
	}
	if h.handle != nil {
		var err error
		if reply, err = h.handle(ctx, e); err != nil {
			return nil, err
		}
	} else {
		r := e.Reply([]byte(`{"ReturnStatus":1}`), "", "urn:takt", time.Now())
		reply = &r
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stored == nil {
		h.stored = make(map[string]*cloudevent.Event)
	}
	h.stored[e.Source+" "+e.ID] = reply
	return reply, nil
}

func (h *handler) Refuse(_ context.Context, e cloudevent.Event, why *cloudevent.Error) *cloudevent.Event {
	reply := e.Refusal(why, "urn:takt", time.Now()).WithData([]byte(`{"ReturnStatus":4294967296}`), "")
	return &reply
}

// answered is a reply without data.
func answered(e cloudevent.Event) (*cloudevent.Event, error) {
	reply := e.Reply(nil, "", "urn:takt", time.Now())
	return &reply, nil
}

// blocking is a handler that says when a command is begun, and answers when it may proceed.
func blocking() (h *handler, begun, proceed chan struct{}) {
	begun, proceed = make(chan struct{}, 10), make(chan struct{})
	return &handler{handle: func(_ context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
		begun <- struct{}{}
		<-proceed
		return answered(e)
	}}, begun, proceed
}

func (h *handler) calls() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.seen)
}

// rig is a server with its connections, and a peer that sends commands and collects answers.
type rig struct {
	server    *mqtt.Server
	recv, pub *mqtt.Conn
	peer      *mqtt.Conn
	answers   inbox
	stop      func() // of the server and then its connections
}

const commands = "takt/m42/commands"

// newRig connects the server to recvURL and pubURL and the peer to b. The server's receiving
// connection keeps its session.
func newRig(t testing.TB, b *testenv.Broker, recvURL, pubURL string, o mqtt.ServerOptions, change ...func(*mqtt.Options)) *rig {
	t.Helper()
	r := &rig{answers: newInbox(), peer: newConn(t, b.URL, "peer", withSession)}
	r.serve(t, recvURL, pubURL, o, change...)
	testenv.Must(t, r.peer.Subscribe(t.Context(), r.answers.sub("mes/answers")))
	run(t, r.peer.Run)
	ready(t, r.peer)
	return r
}

func (r *rig) serve(t testing.TB, recvURL, pubURL string, o mqtt.ServerOptions, change ...func(*mqtt.Options)) {
	t.Helper()
	r.recv, r.pub = newConn(t, recvURL, "takt-recv", append([]func(*mqtt.Options){withSession}, change...)...), newConn(t, pubURL, "takt-pub")
	if o.Filters == nil {
		o.Filters = []string{"takt/+/commands", "$share/g/shared/+/commands"}
	}
	var err error
	r.server, err = mqtt.NewServer(r.recv, r.pub, o)
	testenv.Must(t, err)
	stopRecv, stopPub := run(t, r.recv.Run), run(t, r.pub.Run)
	stopServer := run(t, r.server.Run)
	r.stop = func() {
		stopServer()
		stopRecv()
		stopPub()
	}
	t.Cleanup(r.stop)
	ready(t, r.recv)
	ready(t, r.pub)
}

// send sends a command that wants an answer.
func (r *rig) send(t testing.TB, e cloudevent.Event) {
	t.Helper()
	e.Delivery.ResponseTopic = "mes/answers"
	publish(t, r.peer, mqtt.Encode(commands, e))
}

func (r *rig) answer(t testing.TB) cloudevent.Event {
	t.Helper()
	e, err := mqtt.Decode(r.answers.next(t).Message)
	if err != nil && e.Type != "" { // the answer to a command without type has none
		t.Fatal(err)
	}
	return e
}

// stats waits for counters: an answer is counted when the broker has acknowledged it, which may
// be after it arrived.
func (r *rig) stats(t testing.TB, ok func(s mqtt.ServerStats) bool) {
	t.Helper()
	ctx := within(t)
	for !ok(r.server.Stats()) {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%+v", r.server.Stats())
		}
	}
}

// countAcks counts what looks like a PUBACK of the client.
func countAcks(p *testenv.Proxy) *atomic.Int32 {
	var acks atomic.Int32
	p.Tap(func(fromClient bool, data []byte) {
		if fromClient {
			acks.Add(int32(bytes.Count(data, []byte{0x40, 2})))
		}
	})
	return &acks
}

func TestServer(t *testing.T) {
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		h := &handler{}
		r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: h, ResponseTopic: "takt/responses/1", Expiry: time.Minute})
		for i, correlation := range [][]byte{[]byte("0123456789abcdef"), {0, 1, 255}, bytes.Repeat([]byte("x"), 5000)} { // A13
			e := command(fmt.Sprint(i))
			e.Delivery.CorrelationData = correlation
			r.send(t, e)
			in := r.answers.next(t)
			if !bytes.Equal(in.CorrelationData, correlation) || in.ResponseTopic != "takt/responses/1" || in.QoS != 1 || in.Expiry == 0 || in.Retain {
				t.Errorf("%+v", in.Message)
			}
			reply, err := mqtt.Decode(in.Message)
			if err != nil || reply.CausationID != e.ID || reply.CorrelationID != e.CorrelationID || reply.Type != e.Type || reply.Subject != e.Subject ||
				reply.Source != "urn:takt" || string(reply.Data) != `{"ReturnStatus":1}` {
				t.Errorf("%v %+v", err, reply)
			}
		}
		// Without correlation data the reply has what its correlation id makes.
		m := mqtt.Encode("shared/m42/commands", command("4"))
		m.CorrelationData, m.ResponseTopic = nil, "mes/answers"
		publish(t, r.peer, m)
		if in := r.answers.next(t); len(in.CorrelationData) != 16 {
			t.Errorf("%x", in.CorrelationData)
		}
		// Nobody asked: handled all the same.
		testenv.Must(t, r.peer.PublishEvent(within(t), commands, command("5")))
		r.send(t, command("6"))
		if e := r.answer(t); e.CausationID != "6" || h.calls() != 6 {
			t.Errorf("%s, %d calls", e.CausationID, h.calls())
		}
		r.stats(t, func(s mqtt.ServerStats) bool { return s == mqtt.ServerStats{Received: 6, Answered: 5} })
	})
}

// What is left of a message's MessageExpiryInterval when it comes is counted from then on.
func TestServerCountsExpiryFromTheArrival(t *testing.T) {
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		h := &handler{}
		r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: h})
		e := command("1")
		e.ExpiryInterval = 3600
		began := time.Now()
		r.send(t, e)
		r.send(t, command("2"))
		r.answers.next(t)
		r.answers.next(t)
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, e := range h.seen {
			d := e.Delivery.Deadline
			if e.ID == "2" && !d.IsZero() || e.ID == "1" && (d.Before(began.Add(time.Hour-time.Since(began)-time.Second)) || d.After(time.Now().Add(time.Hour))) {
				t.Errorf("%s: deadline %v, sent %v", e.ID, d, began)
			}
		}
	})
}

// One bad message is answered and stops nothing.
func TestServerRefuses(t *testing.T) {
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		h := &handler{handle: func(_ context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
			switch e.ID {
			case "panic":
				panic("oh")
			case "refused":
				return nil, fmt.Errorf("wrapped: %w", cloudevent.Errorf(cloudevent.KindStateInvalid, "no"))
			}
			return nil, nil
		}}
		r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: h})
		bad := func(change func(*mqtt.Message)) mqtt.Message {
			e := command("bad")
			e.Delivery.ResponseTopic = "mes/answers"
			m := mqtt.Encode(commands, e)
			change(&m)
			return m
		}
		property := func(name, value string) func(*mqtt.Message) {
			return func(m *mqtt.Message) { m.User = append(m.User, mqtt.UserProperty{Name: name, Value: value}) }
		}
		id := func(id string) func(*mqtt.Message) { return property("id", id) }
		for _, c := range []struct {
			m    mqtt.Message
			kind cloudevent.ErrorKind
		}{
			{bad(func(m *mqtt.Message) { m.User = nil }), cloudevent.KindMissingUserProperty},
			{bad(property("data", "x")), cloudevent.KindUserPropertyInvalid},
			{bad(property("custommetadata", "x")), cloudevent.KindUserPropertyInvalid},
			{bad(property("transportmetadata", "x")), cloudevent.KindUserPropertyInvalid},
			{bad(property("datacontenttype", "application/octet-stream")), cloudevent.KindUnsupportedContentType},
			{bad(func(m *mqtt.Message) { m.Payload = make([]byte, mqtt.MaxPayload+1) }), cloudevent.KindPayloadInvalid},
			{bad(func(m *mqtt.Message) { m.Payload, m.UTF8 = []byte{0xff}, false }), cloudevent.KindPayloadInvalid},
			{bad(id("panic")), cloudevent.KindInternalLogicError},
			{bad(id("refused")), cloudevent.KindStateInvalid},
		} {
			publish(t, r.peer, c.m)
			e := r.answer(t)
			if e.ErrorKind != c.kind || e.ErrorMessage == "" || string(e.Data) != `{"ReturnStatus":4294967296}` {
				t.Errorf("want %s: %+v", c.kind, e)
			}
		}
		// Without a response topic: counted, and nothing else happens.
		publish(t, r.peer, bad(func(m *mqtt.Message) { m.User, m.ResponseTopic = nil, "" }))
		publish(t, r.peer, bad(id("good"))) // no reply either, but handled
		r.stats(t, func(s mqtt.ServerStats) bool {
			return s == mqtt.ServerStats{Received: 11, Refused: 10, Unanswered: 1, Panics: 1, Answered: 9}
		})
	})
}

// A handler that gives no replies gets what cannot be read, with the reason and what could be read: no other part would act on it. An error keeps the message.
func TestServerSilentGetsWhatCannotBeRead(t *testing.T) {
	broker := testenv.Mosquitto(t)
	got := make(chan cloudevent.Event, 16)
	var tries atomic.Int32
	h := &handler{handle: func(_ context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
		if tries.Add(1) == 1 {
			return nil, errors.New("the store is away")
		}
		got <- e
		return nil, nil
	}}
	r := newRig(t, broker, broker.URL, broker.URL, mqtt.ServerOptions{Handler: h, Silent: func(cloudevent.Event) bool { return true }})
	for _, c := range []struct {
		spoil func(*mqtt.Message)
		says  string
	}{
		{func(m *mqtt.Message) { m.Payload, m.UTF8 = []byte("{\"a\":\"\xff\"}"), false }, "not UTF-8"},
		{func(m *mqtt.Message) { m.ContentType = "text/xml"; setProperty(m, "datacontenttype", "text/xml") }, "text/xml"},
		{func(*mqtt.Message) {}, ""},
	} {
		e := command(c.says)
		if c.says == "" {
			e.ID = "readable"
		}
		e.CausationID = "the-command"
		m := mqtt.Encode(commands, e)
		m.ResponseTopic = "mes/answers"
		c.spoil(&m)
		publish(t, r.peer, m)
		select {
		case in := <-got:
			why := in.Delivery.Unreadable
			if in.CausationID != "the-command" || in.ID != e.ID || (why != nil) != (c.says != "") || why != nil && !strings.Contains(why.Message, c.says) {
				t.Errorf("%q: %+v, %v", c.says, in, why)
			}
		case <-within(t).Done():
			t.Fatalf("%q did not reach the handler", c.says)
		}
	}
	r.stats(t, func(s mqtt.ServerStats) bool { return s == mqtt.ServerStats{Received: 3, Refused: 2, Unanswered: 2} })
}

// setProperty sets a user property, or adds it.
func setProperty(m *mqtt.Message, name, value string) {
	for i := range m.User {
		if m.User[i].Name == name {
			m.User[i].Value = value
			return
		}
	}
	m.User = append(m.User, mqtt.UserProperty{Name: name, Value: value})
}

// A handler that cannot even refuse costs the answer, nothing else.
func TestServerRefusePanics(t *testing.T) {
	b := testenv.Mosquitto(t)
	r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: broken{}})
	r.send(t, command("1"))
	r.send(t, command("2"))
	eventually(t, "both taken", func() bool { return r.server.Stats().Panics == 4 })
}

type broken struct{}

func (broken) Handle(context.Context, cloudevent.Event) (*cloudevent.Event, error) { panic("oh") }
func (broken) Refuse(context.Context, cloudevent.Event, *cloudevent.Error) *cloudevent.Event {
	panic("oh no")
}

// A response topic nobody can be answered on: the handler sees it and decides what follows, it is counted, and the
// server goes on. A wildcard there stopped the original.
func TestServerBadResponseTopic(t *testing.T) {
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		h := &handler{}
		r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: h})
		bad := []string{"$SYS/answers", commands, "takt/x/commands", "shared/x/commands"}
		for i, topic := range bad {
			e := command(fmt.Sprint(i))
			e.Delivery.ResponseTopic = topic
			publish(t, r.peer, mqtt.Encode(commands, e))
		}
		received := int64(len(bad)) + 1
		for _, topic := range []string{"a/#", "a/+/b", strings.Repeat("a/", 1000)} {
			e := command(topic)
			e.Delivery.ResponseTopic = topic
			if rawPublish(t, b.Addr, mqtt.Encode(commands, e)) { // mosquitto does not let it through
				received++
			}
		}
		r.send(t, command("last"))
		r.answer(t)
		h.mu.Lock()
		for i, topic := range bad {
			if !slices.ContainsFunc(h.seen, func(e cloudevent.Event) bool {
				return e.ID == fmt.Sprint(i) && e.Delivery.ResponseTopic == topic
			}) {
				t.Errorf("the handler did not see the response topic %s", topic)
			}
		}
		h.mu.Unlock()
		r.stats(t, func(s mqtt.ServerStats) bool {
			// mochi takes wildcards out, so that there is none wanted
			return s.Received == received && s.Answered == 1 && s.BadResponseTopic >= int64(len(bad))
		})
		if r.pub.Facts().Losses != 0 {
			t.Error("it cost the connection")
		}
	})
}

// Old retained messages do not come with a subscription, shared or not; a live one carries its flag.
func TestServerRetained(t *testing.T) {
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		pub := connected(t, b.URL, "early")
		retained := func(topic, id string) {
			m := mqtt.Encode(topic, command(id))
			m.Retain = true
			publish(t, pub, m)
		}
		retained(commands, "early")
		routed := make(chan struct{}) // mochi acknowledges before it looks for subscribers
		err := pub.Subscribe(t.Context(), mqtt.Subscription{Filter: "shared/m42/commands", QoS: 1, Handle: func(_ context.Context, in *mqtt.Inbound) {
			_ = in.Ack()
			close(routed)
		}})
		testenv.Must(t, err)
		retained("shared/m42/commands", "early, shared")
		<-routed
		h := &handler{}
		r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: h})
		retained(commands, "live")
		eventually(t, "the live one", func() bool { return h.calls() >= 1 })
		r.send(t, command("last"))
		r.answer(t)
		var got []string
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, e := range h.seen {
			got = append(got, fmt.Sprint(e.ID, " ", e.Delivery.Retained))
		}
		if diff := cmp.Diff([]string{"live true", "last false"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// Messages of one lane are handled in order, and a lane that hangs stalls no other.
// Acknowledgements keep the order of arrival all the same [MQTT-4.6.0-2].
func TestServerLanes(t *testing.T) {
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		var mu sync.Mutex
		order := map[string][]string{}
		block := make(chan struct{})
		h := &handler{handle: func(_ context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
			if e.Subject == "slow" {
				<-block
			}
			mu.Lock()
			order[e.Subject] = append(order[e.Subject], e.ID)
			mu.Unlock()
			return answered(e)
		}}
		proxy := testenv.CountingProxy(t, b.URL)
		acks := countAcks(proxy)
		lane := func(m mqtt.Message) string {
			for _, u := range m.User {
				if u.Name == "subject" {
					return u.Value
				}
			}
			return ""
		}
		r := newRig(t, b, proxy.URL, b.URL, mqtt.ServerOptions{Handler: h, Lane: lane})
		want := map[string][]string{}
		for i := range 60 {
			e := command(fmt.Sprint(i))
			e.Subject = []string{"slow", "a", "b"}[i%3]
			want[e.Subject] = append(want[e.Subject], e.ID)
			r.send(t, e)
		}
		for range 40 {
			if e := r.answer(t); e.Subject == "slow" {
				t.Fatal("the slow lane answered")
			}
		}
		if n := acks.Load(); n != 0 {
			t.Errorf("%d acknowledgements overtook the first message", n)
		}
		close(block)
		for range 20 {
			r.answer(t)
		}
		eventually(t, "all acknowledged", func() bool { return acks.Load() >= 60 })
		if diff := cmp.Diff(want, order); diff != "" {
			t.Error(diff)
		}
	})
}

// A reply larger than the broker takes is replaced by one that says so; a response topic the
// broker does not let us write to is counted.
func TestServerReplyRefused(t *testing.T) {
	dir := t.TempDir()
	acl := dir + "/acl"
	writeFile(t, acl, "topic readwrite #\ntopic deny secret/#\n")
	b := testenv.StartMosquitto(t, embedded.MosquittoOptions{Config: []string{"max_packet_size 3000", "acl_file " + acl}})
	h := &handler{handle: func(_ context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
		reply := e.Reply(bytes.Repeat([]byte(" "), len(e.ID)*1000), "", "urn:takt", time.Now())
		return &reply, nil
	}}
	r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: h})
	r.send(t, command("long"))
	if e := r.answer(t); e.ErrorKind != cloudevent.KindResourceExhausted {
		t.Errorf("%+v", e)
	}
	for _, id := range []string{"x", "z"} { // the second is not even tried: mosquitto 2.0.11 closes the connection for it
		e := command(id)
		e.Delivery.ResponseTopic = "secret/answers"
		publish(t, r.peer, mqtt.Encode(commands, e))
	}
	r.send(t, command("y"))
	if e := r.answer(t); e.CausationID != "y" {
		t.Error(e.CausationID)
	}
	r.stats(t, func(s mqtt.ServerStats) bool {
		return s.ReplyFailed == 1 && s.BadResponseTopic == 1 && s.Answered == 2 && s.Refused == 1
	})
}

// A command typed by hand: mosquitto_pub alone is enough. And what it misses is named.
func TestServerByHand(t *testing.T) {
	tool, err := exec.LookPath("mosquitto_pub")
	if err != nil {
		t.Fatal("mosquitto_pub is missing: install it with apt-get install mosquitto-clients")
	}
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		r := newRig(t, b, b.URL, b.URL, mqtt.ServerOptions{Handler: &handler{}})
		_, port, _ := strings.Cut(b.Addr, ":")
		send := func(args ...string) cloudevent.Event {
			args = append([]string{"-V", "5", "-h", "127.0.0.1", "-p", port, "-q", "1", "-t", commands, "-m", `{"JobOrderID":"JO-7"}`,
				"-D", "PUBLISH", "response-topic", "mes/answers"}, args...)
			if out, err := exec.CommandContext(within(t), tool, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return r.answer(t)
		}
		user := func(name, value string) []string { return []string{"-D", "PUBLISH", "user-property", name, value} }
		all := append(append(user("type", "test.Start.v2"), user("id", "1")...), user("source", "hand")...)
		if e := send(all...); e.ErrorKind != "" || e.CausationID != "1" || e.Type != "test.Start.v2" {
			t.Errorf("%+v", e)
		}
		for missing, args := range map[string][]string{"id": append(user("type", "t"), user("source", "hand")...), "source": append(user("type", "t"), user("id", "2")...)} {
			if e := send(args...); e.ErrorKind != cloudevent.KindMissingUserProperty || !strings.Contains(e.ErrorMessage, missing) {
				t.Errorf("%s: %+v", missing, e)
			}
		}
	})
}

func TestNewServer(t *testing.T) {
	c := newConn(t, "mqtt://127.0.0.1:1", "c")
	for name, o := range map[string]mqtt.ServerOptions{
		"Handler":       {Filters: []string{"a"}},
		"Filters":       {Handler: &handler{}},
		"filter":        {Handler: &handler{}, Filters: []string{"a/#/b"}},
		"Lanes":         {Handler: &handler{}, Filters: []string{"a"}, Lanes: -1},
		"ResponseTopic": {Handler: &handler{}, Filters: []string{"a"}, ResponseTopic: "a/+"},
	} {
		if _, err := mqtt.NewServer(c, c, o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
