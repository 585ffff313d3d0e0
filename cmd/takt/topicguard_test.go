package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// plant is a store and a broker for processes of takt serve, as far as their topics go.
type plant struct {
	t      *testing.T
	redis  *testenv.RedisServer
	broker *testenv.Broker
	prefix string
	store  *jobstore.Store
	see    *mqtt.Conn // sees what is announced
}

func newPlant(t *testing.T, config ...string) *plant {
	p := &plant{t: t, redis: testenv.Redis(t), broker: testenv.StartMosquitto(t, embedded.MosquittoOptions{Config: config})}
	p.prefix = p.redis.Prefix(t)
	var err error
	if p.store, err = jobstore.Open(t.Context(), jobstore.Options{URL: p.redis.URL, Prefix: p.prefix, Instance: "a"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.store.Close)
	p.see = p.connect("see")
	return p
}

func (p *plant) connect(client string) *mqtt.Conn {
	p.t.Helper()
	cfg := Config{MQTT: p.broker.URL, TopicPrefix: "plant/takt"}
	conn, err := mqtt.New(cfg.mqttOptions(client, 0, slog.New(slog.DiscardHandler)))
	if err != nil {
		p.t.Fatal(err)
	}
	p.run(conn.Run)
	if err := conn.Ready(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	return conn
}

// run runs a part until the test ends; its error comes on the channel.
func (p *plant) run(part func(context.Context) error) <-chan error {
	ctx, cancel := context.WithCancel(context.Background())
	done, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		done <- part(ctx)
	}()
	p.t.Cleanup(func() { cancel(); <-ended })
	return done
}

// guard is a process with its own connection that waits two minutes for an answer.
func (p *plant) guard(name string) *topicGuard {
	p.t.Helper()
	log := slog.New(slog.DiscardHandler)
	g := newTopicGuard(p.store, p.connect(name), jobcontrol.Options{TopicPrefix: "plant/takt", Source: "urn:takt:" + name}, false, log)
	g.patience = 2 * time.Minute
	return g
}

func (p *plant) admitted(g *topicGuard) {
	p.t.Helper()
	select {
	case <-g.admitted:
	case <-time.After(time.Minute):
		p.t.Fatalf("not admitted: %v", g.Ready(p.t.Context()))
	}
	if err := g.Ready(p.t.Context()); err != nil {
		p.t.Error(err)
	}
}

// announce says that a process serves the store with the id, "" = as an earlier version does.
func (p *plant) announce(id string) {
	p.t.Helper()
	m, err := jobcontrol.Options{TopicPrefix: "plant/takt", Source: "urn:takt:other"}.Metadata(time.Now(), id)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.see.Publish(p.t.Context(), m); err != nil {
		p.t.Fatal(err)
	}
}

// until waits until the broker has the id of the store as announced.
func (p *plant) until(id string) {
	p.t.Helper()
	last := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		found, err := p.see.Retained(p.t.Context(), "plant/takt/metadata")
		if err != nil {
			p.t.Fatal(err)
		}
		for _, m := range found {
			last, _ = jobcontrol.Announced(m)
		}
		if len(found) == 1 && last == id {
			return
		}
	}
	p.t.Fatalf("announced is %q, want %q", last, id)
}

func (p *plant) id() string {
	p.t.Helper()
	id, err := p.store.ID(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

// A process that serves the topics announces its store again when something else stands there: a deletion, a version that names no store, a store that is younger.
// So it does when the broker has kept what an older store said. A process of an older store that lives wins the topic: this one is not ready, says what to do, and goes on.
func TestTopicsAreThoseOfTheOlderStore(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	g := p.guard("a")
	ended := p.run(g.Run)
	p.admitted(g)
	id := p.id()
	older := strings.Repeat("0", len(id))
	p.until(id)
	g.hear(heard{storeID: older, kept: true})
	for _, other := range []string{"", "f" + id[1:]} {
		p.announce(other)
		p.until(id)
	}
	if err := p.see.Retain(t.Context(), "plant/takt/metadata", nil, 0); err != nil {
		t.Fatal(err)
	}
	p.until(id)
	if err := g.Ready(t.Context()); err != nil {
		t.Error(err)
	}

	p.announce(older)
	testenv.Eventually(t, "it is not ready", func() bool { return g.Ready(t.Context()) != nil }) // what it announces for the steps before may come after that
	if err := g.Ready(t.Context()); !strings.Contains(err.Error(), older) || !strings.Contains(err.Error(), "--topic-prefix") {
		t.Error(err)
	}
	select {
	case err := <-ended:
		t.Errorf("it ended: %v", err)
	default:
	}
}

// A store that was flushed while its processes run has another id. The next process that starts is one of theirs, and all of them take the new id.
func TestFlushedStoreKeepsItsTopics(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	a, b := p.guard("a"), p.guard("b")
	endedA, endedB := p.run(a.Run), p.run(b.Run)
	p.admitted(a)
	p.admitted(b)
	before := p.id()
	if err := p.redis.Client.Do(t.Context(), p.redis.Client.B().Del().Key(keys.New(p.prefix).StoreID()).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	c := p.guard("c")
	p.run(c.Run)
	p.admitted(c)
	if p.id() == before {
		t.Fatal("the id came back")
	}
	p.until(p.id())
	select {
	case err := <-endedA:
		t.Errorf("the first ended: %v", err)
	case err := <-endedB:
		t.Errorf("the second ended: %v", err)
	default:
	}
}

// A broker that does not let Takt announce its store holds nothing up: earlier versions did without.
func TestAnnouncingIsDenied(t *testing.T) {
	t.Parallel()
	acl := write(t, t.TempDir(), "acl", "topic readwrite plant/takt/private/#\ntopic read plant/takt/metadata\n")
	p := newPlant(t, "acl_file "+acl)
	g := p.guard("a")
	p.run(g.Run)
	p.admitted(g)
}

// Who reads in the log that there are two installations, and asks /readyz then, gets that as the reason.
func TestTwoInstallationsAreNotReadyOnceTheLogSaysSo(t *testing.T) {
	t.Parallel()
	g := &topicGuard{jobs: jobcontrol.Options{TopicPrefix: "plant/takt"}, id: "mine"}
	said := 0
	g.log = slog.New(slog.NewTextHandler(writer(func([]byte) {
		said++
		if err := g.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "of another store, theirs") {
			t.Errorf("/readyz says %v", err)
		}
	}), nil))
	g.meet(heard{storeID: "theirs", source: "urn:takt:b"})
	if said != 1 {
		t.Errorf("%d lines", said)
	}
}

// writer is a log that hands its lines on.
type writer func(line []byte)

func (w writer) Write(line []byte) (int, error) { w(line); return len(line), nil }
