package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/publisher"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
var patience = testenv.Patience

const (
	scope  = isa95.Scope("m42")
	prefix = "app/jobs"
)

var (
	quiet  = slog.New(slog.DiscardHandler)
	serial atomic.Int64
)

// plant is a store and a broker, with somebody who listens to everything that is published.
type plant struct {
	t      testing.TB
	redis  *testenv.RedisServer
	broker *testenv.Broker
	keys   keys.Keys
	store  *jobstore.Store // of the job orders' commits
	reader *mqtt.Conn      // of what is retained
	mes    *mqtt.Conn      // of what is heard

	mu      sync.Mutex
	heard   []mqtt.Message // in the order of arrival
	forgot  int            // as many of them messages and soFar leave out
	changed chan struct{}
}

func newPlant(t testing.TB) *plant {
	t.Helper()
	return newPlantOn(t, testenv.Redis(t), testenv.Mosquitto(t))
}

func newPlantOn(t testing.TB, redis *testenv.RedisServer, broker *testenv.Broker) *plant {
	t.Helper()
	p := &plant{t: t, redis: redis, broker: broker, keys: keys.New(redis.Prefix(t)), changed: make(chan struct{})}
	p.store = p.open(redis.URL)
	p.reader, p.mes = p.conn(broker.URL), p.conn(broker.URL)
	err := p.mes.Subscribe(t.Context(), mqtt.Subscription{
		Filter: prefix + "/#", QoS: 1, RetainAsPublished: true, RetainHandling: 2, Handle: p.hear,
	})
	testenv.Must(t, err)
	for _, c := range []*mqtt.Conn{p.reader, p.mes} {
		p.run(c.Run)
		p.ready(c)
	}
	return p
}

func (p *plant) hear(_ context.Context, in *mqtt.Inbound) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, in.Message)
	close(p.changed)
	p.changed = make(chan struct{})
	_ = in.Ack()
}

func (p *plant) open(url string) *jobstore.Store {
	p.t.Helper()
	s, err := jobstore.Open(p.t.Context(), jobstore.Options{
		URL: url, Embedded: p.redis.Server.Kind == "miniredis", Prefix: p.keys.Prefix(), Instance: fmt.Sprint("test-", serial.Add(1)), Log: quiet,
	})
	testenv.Must(p.t, err)
	p.t.Cleanup(s.Close)
	return s
}

func (p *plant) conn(url string) *mqtt.Conn {
	p.t.Helper()
	c, err := mqtt.New(mqtt.Options{URL: url, ClientID: fmt.Sprint("test-", serial.Add(1)), Log: quiet})
	testenv.Must(p.t, err)
	return c
}

func (p *plant) ready(c *mqtt.Conn) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	testenv.Must(p.t, c.Ready(ctx))
}

// run runs f until stop is called or the test ends, and checks that it returns nil.
func (p *plant) run(f func(context.Context) error) (stop func()) {
	p.t.Helper()
	return testenv.Run(p.t, f)
}

// instance is one running publisher.
type instance struct {
	*publisher.Publisher
	stop func() // ends publisher, then connection
}

// setup changes what an instance is made of.
type setup struct {
	publisher.Options
	redisURL  string
	brokerURL string
	retainer  func(*mqtt.Conn) publisher.Retainer
}

// start runs a publisher on the plant.
func (p *plant) start(change ...func(*setup)) *instance {
	p.t.Helper()
	s := p.setup(change...)
	store, conn := p.open(s.redisURL), p.conn(s.brokerURL)
	retainer := publisher.Retainer(conn)
	if s.retainer != nil {
		retainer = s.retainer(conn)
	}
	i, err := publisher.New(store, retainer, s.Options)
	testenv.Must(p.t, err)
	stopConn := p.run(conn.Run)
	stopPublisher := p.run(i.Run)
	return &instance{i, func() { stopPublisher(); stopConn() }}
}

func (p *plant) setup(change ...func(*setup)) setup {
	s := setup{
		Options:  publisher.Options{TopicPrefix: prefix, Coalesce: time.Millisecond, Block: 50 * time.Millisecond, Log: quiet},
		redisURL: p.redis.URL, brokerURL: p.broker.URL,
	}
	for _, f := range change {
		f(&s)
	}
	return s
}

// eventually waits until check returns nil. It looks again at every message and every few milliseconds.
func (p *plant) eventually(what string, check func() error) {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		err := check()
		if err == nil {
			return
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			p.t.Fatalf("never came: %s: %v", what, err)
		}
	}
}

// wrongIf is an error for eventually, if that is so.
func wrongIf(so bool, format string, args ...any) error {
	if !so {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// until waits until the counters of an instance are so.
func (p *plant) until(what string, i *instance, so func(s publisher.Stats) bool) {
	p.t.Helper()
	p.eventually(what, func() error {
		s := i.Stats()
		return wrongIf(!so(s), "%+v", s)
	})
}

// working is start, and waits until the instance has the lease and has compared everything.
func (p *plant) working(change ...func(*setup)) *instance {
	p.t.Helper()
	i := p.start(change...)
	p.until("at work", i, isAtWork)
	return i
}

// isAtWork says of an instance that it has the lease and has compared everything.
func isAtWork(s publisher.Stats) bool { return s.Publishing && s.Reconciled > 0 }

// inSync waits until the broker has all that it shall have, by publisher.Check, and every change is read.
func (p *plant) inSync(change ...func(*setup)) {
	p.t.Helper()
	p.eventually("everything published", func() error { return p.check(change...) })
}

func (p *plant) check(change ...func(*setup)) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	list, err := publisher.Check(ctx, p.store, p.reader.EachRetained, p.setup(change...).Options, nil)
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range list {
		errs = append(errs, errors.New(v.String()))
	}
	return errors.Join(append(errs, p.caughtUp())...)
}

// caughtUp says whether every change is read and its batch over.
func (p *plant) caughtUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	last, err := p.store.LastChange(ctx, "")
	cursor, err2 := p.store.Cursor(ctx)
	return errors.Join(err, err2, wrongIf(cursor != last, "cursor %s, last change %s", cursor, last))
}

// retained is what the broker has now, by topic below the prefix.
func (p *plant) retained() map[string]mqtt.Message {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	list, err := p.reader.Retained(ctx, publisher.Filters(prefix)...)
	testenv.Must(p.t, err)
	all := make(map[string]mqtt.Message)
	for _, m := range list {
		all[strings.TrimPrefix(m.Topic, prefix+"/")] = m
	}
	return all
}

// hearAll waits until everything is heard that the broker acknowledged or retained before: mosquitto hands a message out before it
// acknowledges it, and serves one client in order. The embedded broker hands it out after that, so its last message may be missing.
func (p *plant) hearAll() {
	p.t.Helper()
	p.eventually("an answer to the one who listens", func() error {
		ctx, cancel := context.WithTimeout(p.t.Context(), patience)
		defer cancel()
		_, err := p.mes.Retained(ctx, "fence") // of which there are none
		return err
	})
}

// messages are those heard since forget on topics that begin with one of the beginnings, below the prefix: all that the broker has
// acknowledged.
func (p *plant) messages(beginnings ...string) []mqtt.Message {
	p.t.Helper()
	p.hearAll()
	return p.soFar(beginnings...)
}

// soFar is messages without those that are still on their way, for those who wait for more.
func (p *plant) soFar(beginnings ...string) []mqtt.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return below(p.heard[p.forgot:], beginnings...)
}

func below(heard []mqtt.Message, beginnings ...string) []mqtt.Message {
	var some []mqtt.Message
	for _, m := range heard {
		for _, b := range beginnings {
			if strings.HasPrefix(m.Topic, prefix+"/"+b) {
				some = append(some, m)
				break
			}
		}
	}
	return some
}

// forget lets messages begin anew, after all that the broker has acknowledged.
func (p *plant) forget() {
	p.t.Helper()
	p.hearAll()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgot = len(p.heard)
}

// indexes are the state indexes heard of a scope.
func (p *plant) indexes(scope isa95.Scope) []isa95.StateIndex {
	p.t.Helper()
	var all []isa95.StateIndex
	for _, m := range p.messages(string(scope) + "/state-index") {
		if len(m.Payload) == 0 {
			continue // it was deleted
		}
		var x isa95.StateIndex
		if err := isa95.Unmarshal(m.Payload, &x); err != nil {
			p.t.Errorf("state index %s: %v", m.Payload, err)
		}
		all = append(all, x)
	}
	return all
}

// index is the one retained.
func (p *plant) index(scope isa95.Scope) isa95.StateIndex {
	p.t.Helper()
	var x isa95.StateIndex
	if m, ok := p.retained()[string(scope)+"/state-index"]; ok {
		if err := isa95.Unmarshal(m.Payload, &x); err != nil {
			p.t.Errorf("state index %s: %v", m.Payload, err)
		}
	}
	return x
}

// entry of a job order in an index; the zero entry if there is none.
func entry(x isa95.StateIndex, id isa95.JobOrderID) isa95.StateIndexEntry {
	for _, e := range x.Jobs {
		if e.JobOrderID == string(id) {
			return e
		}
	}
	return isa95.StateIndexEntry{}
}

// seqs checks that among the indexes of a scope a number never comes with two contents, and never goes back.
func (p *plant) seqs(scope isa95.Scope) {
	p.t.Helper()
	contents := make(map[int64]string)
	last := int64(0)
	for _, x := range p.indexes(scope) {
		seq := x.Seq
		x.Seq, x.PublishedAt = 0, ""
		text, err := isa95.Marshal(x)
		testenv.Must(p.t, err)
		if before, seen := contents[seq]; seen && before != string(text) {
			p.t.Errorf("seq %d stands for two contents:\n%s\n%s", seq, before, text)
		}
		contents[seq] = string(text)
		if seq < last {
			p.t.Errorf("seq %d after %d", seq, last)
		}
		last = seq
	}
}

// move makes a transition of the job state machine, with a response if the job is over then.
func (p *plant) move(scope isa95.Scope, id isa95.JobOrderID, methods ...isa95.Method) {
	p.t.Helper()
	for _, m := range methods {
		p.change(scope, id, func(snap *jobstore.Snapshot) jobstore.Change {
			state := isa95.Initial
			if snap.Job != nil && !snap.Job.State.IsEnd() {
				state = snap.Job.State
			}
			next, ok := isa95.Next(state, m)
			if !ok {
				p.t.Fatalf("%s from %s", m, state)
			}
			c := jobstore.Change{Transition: &jobstore.Transition{Method: m, State: next}, Now: p.store.Now()}
			if state == isa95.Initial {
				c.Transition.Order = &isa95.JobOrder{JobOrderID: string(id)}
			}
			if next.Clearable() {
				c.Response = jobstore.NewResponse(snap.Job, nil, next, c.Now)
			}
			return c
		})
	}
}

// change loads and commits, again on conflicts.
func (p *plant) change(scope isa95.Scope, id isa95.JobOrderID, decide func(*jobstore.Snapshot) jobstore.Change) {
	p.t.Helper()
	for {
		snap, err := p.store.Load(p.t.Context(), jobstore.Query{JobOrderID: id, Scope: scope})
		testenv.Must(p.t, err)
		err = p.store.Commit(p.t.Context(), snap, decide(snap))
		if err == nil {
			return
		}
		if !errors.Is(err, jobstore.ErrConflict) {
			p.t.Fatal(err)
		}
	}
}

// redisDo sends a command as an operator would, past every proxy.
func (p *plant) redisDo(words ...string) rueidis.RedisResult {
	p.t.Helper()
	return p.redis.Must(p.t, words...)
}

// topics of the retained messages, sorted.
func topics(retained map[string]mqtt.Message) []string {
	var all []string
	for topic := range retained {
		all = append(all, topic)
	}
	slices.Sort(all)
	return all
}

// updated changes the description of a job order.
func (p *plant) updated(text string) func(*jobstore.Snapshot) jobstore.Change {
	return func(snap *jobstore.Snapshot) jobstore.Change {
		order := *snap.Job.JobOrder
		order.Description = []isa95.LocalizedText{{Locale: "en", Text: text}}
		return jobstore.Change{
			Transition: &jobstore.Transition{Method: isa95.Update, Order: &order, State: snap.Job.State}, Now: p.store.Now(),
		}
	}
}
