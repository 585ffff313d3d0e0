package main

import (
	"context"
	"log/slog"
	"slices"
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

// guard is a process with its own connection.
func (p *plant) guard(name string) *topicGuard {
	p.t.Helper()
	cfg := Config{MQTT: p.broker.URL, TopicPrefix: "plant/takt"}
	conn, err := mqtt.New(cfg.mqttOptions(name, 0, slog.New(slog.DiscardHandler)))
	if err != nil {
		p.t.Fatal(err)
	}
	g := newTopicGuard(p.store, conn, jobcontrol.Options{TopicPrefix: "plant/takt", Source: "urn:takt:" + name}, false, slog.New(slog.DiscardHandler))
	g.every = 10 * time.Millisecond
	p.run(conn.Run)
	return g
}

func (p *plant) admitted(g *topicGuard) {
	p.t.Helper()
	testenv.Eventually(p.t, "it is admitted", func() bool { return g.Ready(p.t.Context()) == nil })
}

// announce says that a process serves the store with the id.
func (p *plant) announce(id string) {
	p.t.Helper()
	m, err := jobcontrol.Options{TopicPrefix: "plant/takt", Source: "urn:takt:other"}.Metadata(time.Now(), id, "")
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
	testenv.Eventually(p.t, "the store "+id+" is announced", func() bool {
		found, err := p.see.Retained(p.t.Context(), "plant/takt/metadata")
		if err != nil {
			p.t.Fatal(err)
		}
		last := ""
		for _, m := range found {
			last, _ = jobcontrol.Announced(m)
		}
		return len(found) == 1 && last == id
	})
}

func (p *plant) id() string {
	p.t.Helper()
	id, err := p.store.ID(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

// A process announces its store, and again after it was flushed while its processes run: so a process that starts later is one of theirs.
func TestStoreIsAnnounced(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	a := p.guard("a")
	p.run(a.Run)
	p.admitted(a)
	before := p.id()
	p.until(before)
	if err := p.redis.Client.Do(t.Context(), p.redis.Client.B().Del().Key(keys.New(p.prefix).StoreID()).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the store has another id", func() bool { id := p.id(); return id != "" && id != before })
	p.until(p.id())
	b := p.guard("b")
	p.run(b.Run)
	p.admitted(b)
}

// A station is announced when it is configured, again when the broker has forgotten it, and no more once it has retired.
func TestStationsAreAnnounced(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	k, client := keys.New(p.prefix), p.redis.Client
	do := func(args ...string) {
		t.Helper()
		if err := client.Do(t.Context(), client.B().Arbitrary(args...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	has := func(why string, want ...string) {
		t.Helper()
		testenv.Eventually(t, why, func() bool {
			found, err := p.see.Retained(t.Context(), "plant/takt/+/metadata")
			if err != nil {
				t.Fatal(err)
			}
			var topics []string
			for _, m := range found {
				store, source := jobcontrol.Announced(m)
				if len(m.Payload) == 0 || store != p.id() || source != "urn:takt:a" {
					return false
				}
				topics = append(topics, strings.Split(m.Topic, "/")[2])
			}
			slices.Sort(topics)
			return slices.Equal(topics, want)
		})
	}
	do("SADD", k.ConfiguredScopes(), "first", "no/topic", "retired")
	do("SET", k.PubSeq("retired"), "7")
	a := p.guard("a")
	a.every = time.Hour
	p.run(a.Run)
	has("the stations of the store are announced", "first")
	do("SADD", k.ConfiguredScopes(), "new.1")
	fill(a.look)
	has("a new one is", "first", "new.1")
	if err := p.see.Publish(t.Context(), mqtt.Message{Topic: "plant/takt/first/metadata", QoS: 1, Retain: true}); err != nil {
		t.Fatal(err)
	}
	has("the broker forgets one", "new.1")
	fill(a.again)
	has("all are announced again", "first", "new.1")
	do("SET", k.PubSeq("new.1"), "1")
	fill(a.look)
	has("one has retired", "first")
	do("DEL", k.ConfiguredScopes(), k.StoreID())
	do("SADD", k.ConfiguredScopes(), "second")
	fill(a.look)
	has("the store was flushed and has another id", "second")
}

// A process of another store ends with an error that says what to do, and announces nothing. One whose store is in memory, and begins anew, takes the topics.
func TestTopicsOfAnotherStore(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.announce("other")
	select {
	case err := <-p.run(p.guard("a").Run):
		for _, want := range []string{"are those of another store, other", "urn:takt:other", "--topic-prefix", "delete the retained message plant/takt/metadata"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	case <-time.After(testenv.Patience):
		t.Fatal("it goes on")
	}
	p.until("other")
	anew := p.guard("b")
	anew.anew = true
	p.run(anew.Run)
	p.admitted(anew)
	p.until(p.id())
}

// A broker that does not let Takt announce its store holds nothing up.
func TestAnnouncingIsDenied(t *testing.T) {
	t.Parallel()
	acl := write(t, t.TempDir(), "acl", "topic readwrite plant/takt/private/#\ntopic read plant/takt/metadata\n")
	p := newPlant(t, "acl_file "+acl)
	g := p.guard("a")
	p.run(g.Run)
	p.admitted(g)
}
