package fault_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/test/rig"
)

// Fault 31: a broker without retained messages, so that no MES would ever find a result. The log, the readiness and takt doctor name it.
func TestFault31UnfitBroker(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{Mosquitto: embedded.MosquittoOptions{Config: []string{"retain_available false"}}, NoStation: true})
	p := w.BeginServe("a", "--http", "127.0.0.1:0")
	p.Await("the broker is unfit for Takt")
	if n := errorLines(p, "retained messages"); n != 1 {
		t.Errorf("%d lines of level ERROR name it", n)
	}
	notReady(t, p, "retained messages: not available")
	if r := w.Takt("doctor"); r.Code == 0 || !strings.Contains(r.Stdout, "retained messages") {
		t.Errorf("takt doctor: exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	stillUp(t, p)
}

// Fault 31: a broker that keeps no sessions, so that what comes while an instance is away is lost. The log and the readiness name it, unless it is so on purpose.
func TestFault31BrokerKeepsNoSessions(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{NoStation: true})
	url := keepsNoSessions(t, w.Broker.URL)
	p := w.BeginServe("a", "--mqtt", url, "--http", "127.0.0.1:0")
	p.Await("the broker is unfit for Takt")
	if n := errorLines(p, "sessions: not kept"); n != 1 {
		t.Errorf("%d lines of level ERROR name it", n)
	}
	notReady(t, p, "sessions: not kept")
	stillUp(t, p)

	meant := w.Serve("b", "--mqtt", url, "--http", "127.0.0.1:0", "--session-expiry", "0")
	if code, text := readiness(t, meant); code != http.StatusOK {
		t.Errorf("/readyz with --session-expiry 0: %d\n%s", code, text)
	}
}

// Fault 31: a second installation, which is another store, on the same topics. It ends with an error; the first one does every order.
func TestFault31TwoInstallations(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Serve("a")
	prefix := w.Redis.Prefix(t)
	second := w.BeginServe("b", "--prefix", prefix)
	second.Await("give this installation another --topic-prefix")
	if code := second.Exit(); code == 0 {
		t.Error("the second installation ended with exit status 0")
	}
	if r := rig.Run(t, append(w.Args("doctor"), "--prefix", prefix)...); r.Code != 1 || !strings.Contains(r.Stdout, "are those of another store") {
		t.Errorf("takt doctor of the second: exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if r := w.Takt("doctor"); !strings.Contains(r.Stdout, "are those of this store") {
		t.Errorf("takt doctor of the first: exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	m := w.MES()
	m.Order(rig.Orders("JO", 40))
	m.UntilDone(40)
	w.Serve("c") // of the first store
}

func notReady(t *testing.T, p *rig.Process, why string) {
	t.Helper()
	if code, text := readiness(t, p); code != http.StatusServiceUnavailable || !strings.Contains(text, why) {
		t.Errorf("/readyz: %d\n%s", code, text)
	}
}

// readiness asks an instance with --http for /readyz.
func readiness(t *testing.T, p *rig.Process) (code int, text string) {
	t.Helper()
	return ask(t, p, "/readyz")
}

// ask gets a page of an instance with --http.
func ask(t *testing.T, p *rig.Process, path string) (code int, text string) {
	t.Helper()
	p.Await("metrics and health are served")
	at := regexp.MustCompile(`health are served" address=(\S+)`).FindStringSubmatch(p.Stderr())
	r, err := http.Get("http://" + at[1] + path)
	testenv.Must(t, err)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	testenv.Must(t, err)
	return r.StatusCode, string(body)
}

// keepsNoSessions is a way to a broker that grants a session of 0 s to each client: CONNACK says so.
func keepsNoSessions(t *testing.T, broker string) (url string) {
	t.Helper()
	return "mqtt://" + relay(t, func(client *relayed) {
		server, err := client.dial(strings.TrimPrefix(broker, "mqtt://"))
		if err != nil {
			return
		}
		client.running.Go(func() { _, _ = io.Copy(server, client); server.Close() })
		var head [2]byte // CONNACK and its length, which is below 128
		if _, err := io.ReadFull(server, head[:]); err != nil {
			return
		}
		rest := make([]byte, head[1]) // flags, reason, length of the properties, properties
		if _, err := io.ReadFull(server, rest); err != nil {
			return
		}
		const sessionExpiry = 0x11
		added := []byte{sessionExpiry, 0, 0, 0, 0}
		ack := append([]byte{head[0], head[1] + byte(len(added)), rest[0], rest[1], rest[2] + byte(len(added))}, rest[3:]...)
		if _, err := client.Write(append(ack, added...)); err == nil {
			_, _ = io.Copy(client, server)
		}
	})
}

// relayed is a connection to a relay.
type relayed struct {
	net.Conn
	*connections
}

// connections are those of a relay, and what runs for them.
type connections struct {
	running sync.WaitGroup
	mu      sync.Mutex
	open    []io.Closer
}

// keep has c closed with the relay.
func (r *connections) keep(c io.Closer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = append(r.open, c)
}

// dial opens a connection that ends with the relay.
func (r *connections) dial(addr string) (net.Conn, error) {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		r.keep(c)
	}
	return c, err
}

// relay gives connections to a port to carry, and closes each when carry returns, and all when the test ends.
func relay(t *testing.T, carry func(client *relayed)) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	r := &connections{open: []io.Closer{listener}}
	t.Cleanup(func() {
		r.mu.Lock()
		for _, c := range r.open {
			c.Close()
		}
		r.mu.Unlock()
		r.running.Wait()
	})
	r.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			r.keep(client)
			r.running.Go(func() {
				defer client.Close()
				carry(&relayed{client, r})
			})
		}
	})
	return listener.Addr().String()
}

// results counts those that were published, by how their orders ended.
func (m *machine) results() map[string]int {
	m.t.Helper()
	ended := map[string]int{}
	for _, message := range m.on(m.w.TopicPrefix + "/+/result/+") {
		var r isa95.JobResponse
		if len(message.Payload) == 0 {
			continue // cleared
		}
		testenv.Must(m.t, json.Unmarshal(message.Payload, &r))
		state, err := isa95.ParseState(r.JobState)
		testenv.Must(m.t, err)
		ended[state.String()]++
	}
	return ended
}

// machine is equipment that answers when the test says so. It keeps a session.
type machine struct {
	ear
	t *testing.T
	w *rig.World
}

func newMachine(t *testing.T, w *rig.World) *machine {
	t.Helper()
	m := &machine{t: t, w: w}
	var subs []mqtt.Subscription
	for _, filter := range []string{"/equipment/+/commands", "/+/result/+"} {
		subs = append(subs, mqtt.Subscription{Filter: w.TopicPrefix + filter, QoS: 1, Handle: m.take})
	}
	m.Conn = rig.Connect(t, mqtt.Options{URL: w.Broker.URL, ClientID: "machine", SessionExpiry: time.Hour}, subs...)
	return m
}

// commands waits until n have come, repeats included.
func (m *machine) commands(n int) []cloudevent.Event {
	m.t.Helper()
	filter := m.w.TopicPrefix + "/equipment/+/commands"
	m.w.Until(fmt.Sprintf("the machine has %d commands", n), func() bool { return len(m.on(filter)) >= n })
	var all []cloudevent.Event
	for _, c := range m.on(filter) {
		e, err := mqtt.Decode(c)
		testenv.Must(m.t, err)
		all = append(all, e)
	}
	return all
}

func (m *machine) answer(c cloudevent.Event) {
	m.t.Helper()
	reply := c.Reply([]byte(`{"ok":true}`), "", "urn:machine", time.Now())
	testenv.Must(m.t, m.Publish(testenv.Within(m.t), mqtt.Encode(c.Delivery.ResponseTopic, reply)))
}

// event sends one of equipment for the order of a command.
func (m *machine) event(typ string, c cloudevent.Event) {
	m.t.Helper()
	e := cloudevent.New(typ, "urn:machine", string(rig.Scope), time.Now()).WithData([]byte(`{"ok":true}`), "")
	e.CorrelationID = c.CorrelationID
	testenv.Must(m.t, m.Publish(testenv.Within(m.t), mqtt.Encode(m.w.TopicPrefix+"/equipment/"+string(rig.Scope)+"/events", e)))
}

// pressThenSeen has a command, and then an event of equipment.
func pressThenSeen(timeout int) isa95.WorkMaster {
	return isa95.WorkMaster{ID: "WM-PRESS", DataSchema: recipe.SchemaURI, Data: json.RawMessage(fmt.Sprintf(`{
  "Steps": [{"Name": "Press", "Initial": true}, {"Name": "Look", "Initial": false}],
  "Transitions": [{"Source": "Press", "Target": "Look", "Condition": "always", "Priority": 0}],
  "Actions": [
    {"Name": "press", "Step": "Press", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.acme.test.press.v1", "TimeoutSeconds": %d},
    {"Name": "look", "Step": "Look", "Qualifier": "N", "Interaction": "pull_event", "TypeId": "com.acme.test.seen.v1", "TimeoutSeconds": 3600}
  ]
}`, timeout))}
}

func pressOrder(id string) *isa95.JobOrder {
	return &isa95.JobOrder{JobOrderID: id, WorkMasterID: []isa95.WorkMasterRef{{ID: "WM-PRESS"}}}
}

// sortBy forwards connections whose CONNECT has a client id that ends as a key of ways to the proxy of that key.
func sortBy(t *testing.T, ways map[string]*testenv.Proxy) (addr string) {
	t.Helper()
	return relay(t, func(client *relayed) {
		in := bufio.NewReader(client)
		head, err := in.Peek(2)
		if err != nil {
			return
		}
		if head, err = in.Peek(2 + int(head[1]&0x7f)); err != nil { // a CONNECT of Takt without credentials has less than 128 bytes
			return
		}
		for ending, way := range ways {
			if !strings.Contains(string(head), ending) {
				continue
			}
			server, err := client.dial(way.Addr)
			if err != nil {
				return
			}
			client.running.Go(func() { _, _ = io.Copy(client, server); client.Close() })
			_, _ = io.Copy(server, in)
			server.Close()
			return
		}
	})
}

// Answers have a connection of their own. While commands cannot be taken, answers are: an order ends, and one whose machine is silent is timed
// out. While answers cannot be taken, installation time stands still, though commands are.
func TestAnswersHaveTheirOwnConnection(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{NoStation: true})
	commands, answers, publish := testenv.CountingProxy(t, w.Broker.URL), testenv.CountingProxy(t, w.Broker.URL), testenv.CountingProxy(t, w.Broker.URL)
	way := sortBy(t, map[string]*testenv.Proxy{"-recv": commands, "-answers": answers, "-pub": publish})
	w.Serve("a", "--mqtt", "mqtt://"+way)
	m := rig.NewMES(t, w.Broker.URL, w.TopicPrefix, filepath.Join(w.Dir, "mes-memory.json"), rig.Scope)
	ctx := testenv.Within(t)
	if _, err := m.Client.Apply(ctx, rig.Scope, isa95.ConfigWorkMaster, pressThenSeen(15)); err != nil {
		t.Fatal(err)
	}
	machine := newMachine(t, w)
	for _, id := range []string{"ANSWERED", "SILENT"} {
		if _, err := m.Client.StoreAndStart(ctx, rig.Scope, pressOrder(id)); err != nil {
			t.Fatal(err)
		}
	}
	c := machine.commands(2)[0]
	commands.Refuse(true)
	commands.Cut()
	machine.answer(c)
	machine.event("com.acme.test.seen.v1", c)
	w.Until("one order ends and one is timed out", func() bool {
		ended := machine.results()
		return ended["Ended_Completed"] == 1 && ended["Aborted"] == 1
	})
	commands.Refuse(false)

	answers.Refuse(true)
	answers.Cut()
	ledger := func(field string) int64 {
		return w.Redis.Number(t, "HGET", w.Keys.SfcClock(), field)
	}
	began, stood := ledger("last"), time.Now()
	w.Until("the ledger of time is not carried on", func() bool {
		if last := ledger("last"); last != began {
			began, stood = last, time.Now()
		}
		return time.Since(stood) > 3*time.Second
	})
	if _, err := m.Client.StoreAndStart(ctx, rig.Scope, pressOrder("TAKEN")); err != nil {
		t.Errorf("a command while answers cannot be taken: %v", err)
	}
	answers.Refuse(false)
	w.Until("installation time lacks the break", func() bool { return ledger("offset") > 2500 })
}
