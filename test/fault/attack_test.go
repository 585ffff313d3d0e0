package fault_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/test/rig"
)

// secured is a world whose broker is mosquitto with the files of deploy/mosquitto, but for their paths and users.
type secured struct {
	*rig.World
	t    *testing.T
	ca   string
	addr string
}

const (
	plantPrefix   = "plant/takt"
	brokerSecret  = "a-word-for-all"
	attackedScope = isa95.Scope("test-cell")
)

func newSecured(t *testing.T) *secured {
	t.Helper()
	dir := t.TempDir()
	selfSigned(t, dir)
	acl := rig.Run(t, "acl", "--topic-prefix", plantPrefix, "--mes", "mes-a=cell-a", "--mes", "mes-b=test-cell",
		"--equipment", "plc-a=cell-a", "--equipment", "plc-b=test-cell", "--observer", "dashboard", "--operator", "operator")
	if acl.Code != 0 {
		t.Fatal(acl.Stderr)
	}
	rig.Write(t, filepath.Join(dir, "acl"), acl.Stdout)
	rig.Write(t, filepath.Join(dir, "passwords"), "")
	for _, user := range []string{"takt", "mes-a", "mes-b", "plc-a", "plc-b", "dashboard", "operator"} {
		if out, err := exec.CommandContext(testenv.Within(t), "mosquitto_passwd", "-b", filepath.Join(dir, "passwords"), user, brokerSecret).CombinedOutput(); err != nil {
			t.Fatalf("mosquitto_passwd: %v: %s", err, out)
		}
	}
	text, err := os.ReadFile("../../deploy/mosquitto/mosquitto.conf")
	testenv.Must(t, err)
	var o embedded.MosquittoOptions
	lines := &o.Config
	for line := range strings.Lines(strings.ReplaceAll(string(text), "/etc/mosquitto/takt/", dir+"/")) {
		line = strings.TrimSpace(line)
		switch word, _, _ := strings.Cut(line, " "); word {
		case "", "#", "persistence", "persistence_location", "autosave_interval":
		case "listener":
			lines = &o.Listen
		default:
			*lines = append(*lines, line)
		}
	}
	w := rig.New(t, rig.Options{NoStation: true, Mosquitto: o})
	s := &secured{World: w, t: t, ca: filepath.Join(dir, "ca.crt"), addr: w.Broker.Addr}
	w.Broker.URL = s.url("takt")
	return s
}

func (s *secured) url(user string) string {
	return fmt.Sprintf("mqtts://%s:%s@%s", user, brokerSecret, s.addr)
}

// options of a connection of a user.
func (s *secured) options(user, client string) mqtt.Options {
	return mqtt.Options{
		URL: s.url(user), ClientID: client, CAFile: s.ca, PrivateTopic: topics.Prefix(plantPrefix).Private(client),
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// connect runs a connection until the test ends. Everything that comes on filters is kept.
func (s *secured) connect(user, client string, filters ...string) *ear {
	s.t.Helper()
	e := &ear{}
	var subs []mqtt.Subscription
	for _, f := range filters {
		subs = append(subs, mqtt.Subscription{Filter: f, QoS: 1, Handle: e.take})
	}
	e.Conn = rig.Connect(s.t, s.options(user, client), subs...)
	return e
}

// ear is a connection that remembers what it heard.
type ear struct {
	*mqtt.Conn
	mu    sync.Mutex
	heard []mqtt.Message
}

func (e *ear) take(_ context.Context, in *mqtt.Inbound) {
	e.mu.Lock()
	e.heard = append(e.heard, in.Message)
	e.mu.Unlock()
	_ = in.Ack()
}

// on is what it heard on the topics of a filter.
func (e *ear) on(filter string) []mqtt.Message {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []mqtt.Message
	for _, m := range e.heard {
		if mqtt.Matches(filter, m.Topic) {
			all = append(all, m)
		}
	}
	return all
}

// client is an MES.
func (s *secured) client(user string) *mes.Client {
	s.t.Helper()
	c, err := mes.New(mes.Options{MQTT: s.options(user, user), TopicPrefix: plantPrefix, RepeatAfter: time.Second, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	testenv.Must(s.t, err)
	testenv.Run(s.t, c.Run)
	if err := c.Ready(testenv.Within(s.t)); err != nil {
		s.t.Fatalf("%s: %v", user, err)
	}
	return c
}

// denied publishes and wants the broker to refuse it.
func (s *secured) denied(user string, m mqtt.Message) {
	s.t.Helper()
	m.QoS = 1
	err := s.connect(user, user+"-"+cloudevent.NewID()).Publish(testenv.Within(s.t), m)
	var refused *mqtt.PublishError
	if !errors.As(err, &refused) || refused.Code != 0x87 {
		s.t.Errorf("%s publishes on %s: %v, want not authorized", user, m.Topic, err)
	}
}

func (s *secured) execution(job string) string {
	s.t.Helper()
	text, err := s.Redis.Must(s.t, "GET", s.Keys.SfcExecution(job)).ToString()
	testenv.Must(s.t, err)
	return text
}

// twoSteps has a machine step that the attackers want to be over, and one that must not begin before it is.
const twoSteps = `{
  "Steps": [{"Name": "Press", "Initial": true}, {"Name": "Release", "Initial": false}],
  "Transitions": [{"Source": "Press", "Target": "Release", "Condition": "always", "Priority": 0}],
  "Actions": [
    {"Name": "press", "Step": "Press", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.acme.test.press.v1", "TimeoutSeconds": 3600},
    {"Name": "release", "Step": "Release", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.acme.test.release.v1", "TimeoutSeconds": 3600}
  ],
  "Branches": []
}`

// Under the same broker each party does all of its work with its own user: Takt serves, a station simulates, the command line configures, orders, looks and diagnoses, and
// an MES orders, takes results over and clears.
func TestEachPartyWorksWithItsRights(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	s.Serve("a", "--mqtt-ca", s.ca)
	cell := rig.Cell(t, 1, "1ms..5ms")
	as := func(user string, args ...string) []string {
		return append(args, "--mqtt", s.url(user), "--mqtt-ca", s.ca, "--topic-prefix", plantPrefix)
	}
	looking := func(args ...string) []string {
		return append(as("operator", args...), "--redis", s.Redis.URL, "--prefix", s.Prefix)
	}
	must := func(args []string, parts ...string) {
		t.Helper()
		r := rig.Run(t, args...)
		for _, part := range parts {
			if !strings.Contains(r.Stdout, part) {
				t.Errorf("takt %s: no %q in\n%s", args[0], part, r.Stdout)
			}
		}
		if r.Code != 0 {
			t.Fatalf("takt %s: exit status %d\n%s%s", strings.Join(args[:2], " "), r.Code, r.Stdout, r.Stderr)
		}
	}
	rig.Start(t, as("plc-b", "station", "simulate", filepath.Join(cell, "equipment.yaml"), "--log", filepath.Join(t.TempDir(), "station.jsonl"))...)
	must(as("operator", "station", "apply", filepath.Join(cell, "station.yaml")), "applied to [test-cell]")

	orders := rig.Orders("OP", 1)
	text, err := json.Marshal(orders[0])
	testenv.Must(t, err)
	file := filepath.Join(t.TempDir(), "order.json")
	rig.Write(t, file, string(text))
	must(as("operator", "job", "store-and-start", file, "--scope", "test-cell"), "OP-001 stored and started")
	must(as("operator", "mes", "follow", "--scope", "test-cell", "--count", "1", "--memory", filepath.Join(t.TempDir(), "memory.json")), "Ended_Completed", "OP-001")

	m := s.client("mes-b")
	for _, o := range rig.Orders("MES", 3) {
		if status, err := m.StoreAndStart(testenv.Within(t), attackedScope, o); err != nil || status != isa95.NoError {
			t.Fatal(status, err)
		}
	}
	ctx, done := context.WithCancel(testenv.Within(t))
	defer done()
	cleared := map[isa95.JobOrderID]bool{} // OP-001 too, if the first index that this MES meets still names it
	if _, err := m.Follow(ctx, []isa95.Scope{attackedScope}, mes.FollowOptions{
		Clear:    true,
		OnResult: func(context.Context, isa95.Scope, isa95.JobResponse) error { return nil },
		OnClear: func(_ isa95.Scope, id isa95.JobOrderID, _ isa95.ReturnStatus) {
			cleared[id] = true
			if cleared["MES-001"] && cleared["MES-002"] && cleared["MES-003"] {
				done()
			}
		},
	}); err != nil || ctx.Err() == nil {
		t.Errorf("orders done: %v, %v", cleared, err)
	}
	must(looking("job", "list", "--json"))
	s.Until("everything is at rest", func() bool { return rig.Run(t, looking("check", "--grace", "1s")...).Code == 0 })
	r := rig.Run(t, looking("doctor", "--json", "--timeout", "2m")...)
	for _, want := range []string{`"broker: message size","grade":"ok"`, `"broker: retained messages","grade":"ok"`, `"broker","grade":"ok"`} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("takt doctor: no %s in\n%s%s", want, r.Stdout, r.Stderr)
		}
	}
}

// Only the machine speaks for the machine. A client with valid rights for another station tries to complete a machine step through Takt's replies, through the broker, and
// through the right of equipment to answer; to command the machine; to forge what an MES reads; and to listen. Nothing changes, nothing appears where it does not belong,
// and then the answer of the machine completes the step. All of it with a user for each party and the rights that takt acl gives them, under deploy/mosquitto.
func TestFault29Attacks(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	serve := s.Serve("a", "--mqtt-ca", s.ca, "--log-level", "debug")
	instance := s.Worker(serve)
	p := topics.Prefix(plantPrefix)
	ctx := testenv.Within(t)

	all := s.connect("takt", "spy", plantPrefix+"/#")
	plc := s.connect("plc-b", "plc-b", plantPrefix+"/equipment/test-cell/commands")
	nosy := []string{
		plantPrefix + "/#", plantPrefix + "/equipment/#", plantPrefix + "/responses/#", plantPrefix + "/test-cell/#", plantPrefix + "/private/#", "mes/#",
		plantPrefix + "/test-cell/replies/mes-a", plantPrefix + "/+/state-index",
	}
	listeners := []*ear{s.connect("mes-a", "listener-mes", nosy...), s.connect("plc-a", "listener-plc", nosy...)}

	// The victim: an order whose machine step is under way.
	b := s.client("mes-b")
	if status, err := b.Apply(ctx, attackedScope, isa95.ConfigWorkMaster, isa95.WorkMaster{ID: "WM-2", Data: json.RawMessage(twoSteps), DataSchema: recipe.SchemaURI}); err != nil || status != isa95.NoError {
		t.Fatal(status, err)
	}
	for _, id := range []string{"B-1", "B-2"} {
		o := &isa95.JobOrder{JobOrderID: id, WorkMasterID: []isa95.WorkMasterRef{{ID: "WM-2"}}}
		if status, err := b.StoreAndStart(ctx, attackedScope, o); err != nil || status != isa95.NoError {
			t.Fatal(status, err)
		}
	}
	s.Until("the machine has its commands", func() bool { return len(plc.on("#")) == 2 })
	var commands []cloudevent.Event
	for _, m := range plc.on("#") {
		e, err := mqtt.Decode(m)
		testenv.Must(t, err)
		commands = append(commands, e)
	}
	_, token := p.AnsweredOn(commands[0].Delivery.ResponseTopic)
	before := s.execution("B-1") + s.execution("B-2")

	// Through Takt's own replies: refused commands and accepted ones, with the id of the machine's command.
	attacker := s.connect("mes-a", "mes-a")
	targets := []string{
		p.Answers(instance, ""), p.Answers(instance, strings.Repeat("0", 32)), plantPrefix + "/equipment/test-cell/commands", plantPrefix + "/equipment/test-cell/events",
		plantPrefix + "/test-cell/state-index", plantPrefix + "/test-cell/result/B-1", plantPrefix + "/test-cell/order/B-1", plantPrefix + "/test-cell/events",
		plantPrefix + "/test-cell/commands", plantPrefix + "/commands", plantPrefix + "/metadata", p.Private("mes-b") + "/x", p.Replies("test-cell", "mes-b"), "erp/answers",
	}
	muted := 0
	for i, target := range targets {
		for _, typ := range []string{"com.acme.unknown.v1", isa95.Store.TypeID()} {
			e := cloudevent.New(typ, "urn:mes:a", "cell-a", time.Now())
			e.ID, e.CorrelationID = commands[0].ID, commands[0].CorrelationID
			e = e.WithData([]byte(fmt.Sprintf(`{"JobOrder":{"JobOrderID":"A-%d"}}`, i)), "")
			e.Delivery.ResponseTopic, e.Delivery.CorrelationData = target, commands[0].Delivery.CorrelationData
			testenv.Must(t, attacker.Publish(ctx, mqtt.Encode(plantPrefix+"/cell-a/commands", e)))
			muted++
		}
	}
	s.Until("all of them are logged", func() bool { return strings.Count(serve.Stderr(), "command not carried out") == muted })

	// Through the broker.
	forged := func(topic string) mqtt.Message {
		e := cloudevent.New("com.acme.test.press.v1", "urn:plc:b", "test-cell", time.Now()).WithData([]byte(`{"force_kn":12.5}`), "")
		e.CausationID, e.Delivery.CorrelationData = commands[0].ID, commands[0].Delivery.CorrelationData
		return mqtt.Encode(topic, e)
	}
	for _, target := range targets {
		if target != "erp/answers" {
			s.denied("mes-a", forged(target))
			s.denied("dashboard", forged(target))
		}
	}
	s.denied("mes-a", forged(commands[0].Delivery.ResponseTopic))
	for _, target := range targets[2:] {
		s.denied("plc-a", forged(target))
	}
	s.denied("plc-b", forged(plantPrefix+"/test-cell/commands"))

	for _, m := range slices.Concat(all.on(plantPrefix+"/responses/#"), all.on(p.Private("mes-b")+"/#"), all.on(plantPrefix+"/+/replies/+")) {
		t.Errorf("on %s: %s", p.Shown(m.Topic), m.Payload)
	}

	// Through the right of other equipment to answer: it has the id of the command, and not its token.
	other := s.connect("plc-a", "plc-a")
	answers := 0
	for _, topic := range []string{p.Answers(instance, strings.Repeat("0", 32)), p.Answers(instance, token[:31]), p.Answers(instance, "x")} {
		for _, refusal := range []cloudevent.ErrorKind{"", cloudevent.KindStateInvalid} {
			m := forged(topic)
			if refusal != "" {
				m.User = append(m.User, mqtt.UserProperty{Name: "mdcserrorkind", Value: string(refusal)})
			}
			testenv.Must(t, other.Publish(ctx, m))
			answers++
		}
	}
	s.Until("all of them are refused", func() bool { return strings.Count(serve.Stderr(), "answer refused") == answers })

	if after := s.execution("B-1") + s.execution("B-2"); after != before {
		t.Errorf("the orders changed:\n%s\n%s", before, after)
	}
	if n := len(all.on(plantPrefix + "/equipment/#")); n != 2 {
		t.Errorf("%d messages to and from equipment, want the two commands", n)
	}
	for _, m := range slices.Concat(all.on(plantPrefix+"/+/state-index"), all.on(plantPrefix+"/+/order/+")) { // Takt's own are plain JSON; replies have properties
		if len(m.User) > 0 || !json.Valid(m.Payload) {
			t.Errorf("on %s: %s %v", m.Topic, m.Payload, m.User)
		}
	}
	if n := len(all.on(plantPrefix + "/+/result/#")); n != 0 {
		t.Errorf("%d results", n)
	}
	if n := s.Redis.Number(t, "EXISTS", s.Keys.JobOrder("A-0"), s.Keys.JobOrder("A-4")); n != 0 {
		t.Errorf("%d orders of muted commands", n)
	}
	if n := len(plc.on("#")); n != 2 {
		t.Errorf("the machine has %d commands", n)
	}

	// The machine answers: its step is over, the next begins, the orders end, and their MES gets the results.
	answer := func(m mqtt.Message) {
		e, err := mqtt.Decode(m)
		testenv.Must(t, err)
		reply := e.Reply([]byte(`{"by":"machine"}`), "", "urn:plc:b", time.Now())
		testenv.Must(t, plc.Publish(ctx, mqtt.Encode(e.Delivery.ResponseTopic, reply)))
	}
	for _, n := range []int{2, 4} {
		s.Until("the machine has its next commands", func() bool { return len(plc.on("#")) == n })
		for _, m := range plc.on("#")[n-2:] {
			answer(m)
		}
	}
	got := map[string]string{}
	following, stop := context.WithCancel(ctx)
	defer stop()
	cleared := 0
	_, err := b.Follow(following, []isa95.Scope{attackedScope}, mes.FollowOptions{
		Clear: true,
		OnResult: func(_ context.Context, _ isa95.Scope, r isa95.JobResponse) error {
			for _, d := range r.JobResponseData {
				got[r.JobOrderID] += d.ID + "=" + string(d.Value) + " "
			}
			return nil
		},
		OnClear: func(isa95.Scope, isa95.JobOrderID, isa95.ReturnStatus) {
			if cleared++; cleared == 2 {
				stop()
			}
		},
	})
	testenv.Must(t, err)
	for _, id := range []string{"B-1", "B-2"} {
		if got[id] != `press.by="machine" release.by="machine" ` {
			t.Errorf("%s: %q", id, got[id])
		}
	}

	// Those who listened where they may not heard nothing, and no log has a token.
	for _, l := range listeners {
		for _, m := range l.on("#") {
			if !strings.HasSuffix(m.Topic, "/metadata") {
				t.Errorf("heard on %s: %s", p.Shown(m.Topic), m.Payload)
			}
		}
	}
	for _, m := range plc.on("#") {
		if _, secret := p.AnsweredOn(m.ResponseTopic); secret == "" || strings.Contains(serve.Stderr(), secret) {
			t.Error("a token is missing, or in the log")
		}
	}

	// A reply below the prefix, and the command line, with rights of their own.
	e := cloudevent.New(isa95.RequestJobResponseByJobOrderID.TypeID(), "urn:mes:b", string(attackedScope), time.Now()).WithData([]byte(`{"JobOrderID":"B-1"}`), "")
	e.Delivery.ResponseTopic = p.Replies(string(attackedScope), "mes-b")
	replies := s.connect("mes-b", "mes-b-2", e.Delivery.ResponseTopic)
	testenv.Must(t, replies.Publish(ctx, mqtt.Encode(plantPrefix+"/test-cell/commands", e)))
	s.Until("the reply has come", func() bool { return len(replies.on("#")) == 1 })
	line := rig.Run(t, "job", "start", "B-1", "--scope", string(attackedScope), "--mqtt", s.url("operator"), "--mqtt-ca", s.ca, "--topic-prefix", plantPrefix)
	if line.Code != 3 || !strings.Contains(line.Stdout+line.Stderr, "B-1") {
		t.Errorf("the command line ended with %d, want 3: unknown job order: %s%s", line.Code, line.Stdout, line.Stderr)
	}
}

// selfSigned writes a certificate for 127.0.0.1 and its key where mosquitto.conf looks for them.
func selfSigned(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testenv.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testenv.Must(t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	testenv.Must(t, err)
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	rig.Write(t, filepath.Join(dir, "ca.crt"), certificate)
	rig.Write(t, filepath.Join(dir, "server.crt"), certificate)
	rig.Write(t, filepath.Join(dir, "server.key"), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})))
}
