package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// Retainer is the broker as a publisher needs it. *mqtt.Conn is one; it should have a client id of its own.
type Retainer interface {
	// Ready waits for a connection.
	Ready(ctx context.Context) error
	// OnConnect has f called after every connect.
	OnConnect(f func())
	// Retain replaces a retained message and waits until the broker has it; an empty payload deletes it.
	Retain(ctx context.Context, topic string, payload []byte, expiry time.Duration, user ...mqtt.UserProperty) error
	// EachRetained calls take with each message that the broker has under the filters, one at a time, and not after it has returned. A topic may come more than once; the last
	// counts, and an empty payload says that it was deleted.
	EachRetained(ctx context.Context, take func(mqtt.Message), filters ...string) error
}

// Publisher keeps the retained topics of the job orders of one store. Its methods may be called at once.
type Publisher struct {
	store     *jobstore.Store
	retainer  Retainer
	opt       Options
	log       *slog.Logger
	connected atomic.Bool // the broker was lost and came back

	mu       sync.Mutex
	stats    Stats
	refusals []Refusal

	// What outlives a term, used by one term at a time.
	epoch string // of the store, "" = not known
	lost  bool   // the store lost something: scopes that it does not know any more are to be told of it
	told  map[isa95.Scope]acknowledged
}

// New makes a Publisher of the job orders in store. It registers with the retainer, so call it before that runs.
func New(store *jobstore.Store, retainer Retainer, opt Options) (*Publisher, error) {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	p := &Publisher{store: store, retainer: retainer, opt: opt, log: opt.Log, told: make(map[isa95.Scope]acknowledged)}
	retainer.OnConnect(func() { p.connected.Store(true) })
	return p, nil
}

// errBrokerAway ends a term whose broker was away for longer than the lease: another process may have one.
var errBrokerAway = errors.New("publisher: the broker is away")

// Run publishes, or stands by while another process does, until ctx ends. Then it finishes the batch in hand within
// Options.Grace, remembers how far it got, leaves the role to the next process at once and returns nil. No state of
// Redis or of the broker ends it.
func (p *Publisher) Run(ctx context.Context) error {
	for {
		if err := p.retainer.Ready(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("publisher: %w", err)
		}
		err := p.store.Lease(ctx, jobstore.RolePublisher, p.opt.Lease, func(ctx context.Context, l *jobstore.Lease) error {
			return newTerm(p, l).run(ctx)
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, errBrokerAway):
			return err
		}
		p.log.Warn("publisher: the broker is away; another instance may publish meanwhile")
	}
}

// Stats is what a Publisher did since it was made.
type Stats struct {
	Publishing  bool      // false: standing by, or waiting for the broker
	Turned      time.Time // when the loop last came round; zero: never
	Batches     int64     // batches of changes
	Changes     int64     // entries of the change stream
	Topics      int64     // order and result topics published or deleted
	Indexes     int64     // state indexes published
	Refused     int64     // messages the broker refused, each time
	Waiting     int64     // topics that were refused and will be tried again
	DeadLetters int64     // changes that cannot be published
	Reconciled  int64     // times the broker was compared with the store
	Missed      int64     // times the change stream had been trimmed unread
	Away        int64     // times Redis or the broker was away
}

// count changes the counters.
func (p *Publisher) count(change func(s *Stats)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.stats)
}

// waits notes what was refused and will be tried again.
func (p *Publisher) waits(r *refused) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusals, p.stats.Waiting = r.named(), int64(len(r.topics))
}

// Refusals are the retained messages that the broker refuses now, by topic, while this process publishes. They are tried again; until the broker takes one, an
// MES sees the state before.
func (p *Publisher) Refusals() []Refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusals
}

// Stats returns the counters.
func (p *Publisher) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}
