package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// topicGuard keeps the topics of one prefix to one store (docs/adr/0032). Processes of two stores on the same topics would share the commands, and each would
// refuse those for what only the other knows. {prefix}/metadata names the store that is served; until it is that of this process, nothing is taken or published.
type topicGuard struct {
	store    *jobstore.Store
	conn     *mqtt.Conn
	jobs     jobcontrol.Options
	patience time.Duration // how long a process of another store may take to answer
	log      *slog.Logger

	admitted chan struct{} // closed once the topics are those of this store
	heard    chan heard
	last     struct {
		sync.Mutex
		announced heard // on {prefix}/metadata
		refusal   error // why this process is not admitted
	}

	id  string // of the store, as it was last read
	met string // store of which a process was heard: it may be away for a while, so its silence later says nothing
}

// heard is what came on one of the two topics.
type heard struct {
	storeID, source string // "" = none, as when the message was deleted
	question        bool   // a process wants to serve storeID
	kept            bool   // it was retained: the process that said it may have ended
}

const (
	guardPatience         = 10 * time.Second // a process that lost the broker is back by then
	guardPatienceEmbedded = time.Second      // a store in memory begins anew with each process
	guardEvery            = 30 * time.Second // how often a process that is not admitted asks again
)

func newTopicGuard(store *jobstore.Store, conn *mqtt.Conn, jobs jobcontrol.Options, embedded bool, log *slog.Logger) *topicGuard {
	g := &topicGuard{store: store, conn: conn, jobs: jobs, patience: guardPatience, log: log, admitted: make(chan struct{}), heard: make(chan heard, 64)}
	if embedded {
		g.patience = guardPatienceEmbedded
	}
	g.last.refusal = errors.New("topics: not yet known whether another store is served on them")
	conn.OnConnect(func() {
		select {
		case <-g.admitted: // the broker may have forgotten what was retained
			g.hear(heard{})
		default:
		}
	})
	return g
}

// Ready is part of /readyz.
func (g *topicGuard) Ready(context.Context) error {
	g.last.Lock()
	defer g.last.Unlock()
	return g.last.refusal
}

func (g *topicGuard) refuse(err error) {
	g.last.Lock()
	defer g.last.Unlock()
	g.last.refusal = err
}

// gated runs a part once this process is admitted.
func (g *topicGuard) gated(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-g.admitted:
			return run(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// Run waits until the topics are those of this store, then watches that they stay so.
func (g *topicGuard) Run(ctx context.Context) error {
	if !g.admit(ctx) {
		return nil
	}
	g.refuse(nil)
	close(g.admitted)
	for {
		select {
		case h := <-g.heard:
			g.judge(ctx, h)
		case <-ctx.Done():
			return nil
		}
	}
}

// admit returns once {prefix}/metadata names this store; false: ctx ended.
func (g *topicGuard) admit(ctx context.Context) bool {
	subscribed := false
	for pause := time.Second; ctx.Err() == nil; {
		done, err := g.try(ctx, &subscribed)
		var subscription *mqtt.SubscribeError
		var publication *mqtt.PublishError
		switch {
		case done:
			return true
		case errors.As(err, &subscription), errors.As(err, &publication): // of rights that earlier versions do without
			g.log.Warn("the broker does not let this process announce its store: another installation on these topics would go unnoticed", "err", err)
			return true
		case err != nil:
			g.log.Warn("not yet known whether another store is served on these topics", "err", err, "again_in", pause)
			lifecycle.Sleep(ctx, pause)
			pause = min(2*pause, guardEvery)
		default: // a process of another store answered
			g.await(ctx, guardEvery, func(h heard) bool { return !h.question && !h.kept && h.storeID != g.met })
		}
	}
	return false
}

// try asks for the topics once. done: they are those of this store now.
func (g *topicGuard) try(ctx context.Context, subscribed *bool) (done bool, err error) {
	if err := g.conn.Ready(ctx); err != nil {
		return false, err
	}
	if err := g.identify(ctx); err != nil {
		return false, err
	}
	if !*subscribed {
		err := g.subscribe(ctx)
		var refused *mqtt.SubscribeError
		*subscribed = !errors.As(err, &refused)
		if err != nil {
			return false, err
		}
	}
	if g.conn.Facts().RetainAvailable {
		if _, err := g.conn.Retained(ctx); err != nil { // a broker serves one client in order: what is retained has come before
			return false, err
		}
	}
	g.last.Lock()
	announced := g.last.announced
	g.last.Unlock()
	if announced.storeID == g.id || announced.storeID == "" && g.met == "" {
		return true, g.announce(ctx)
	}
	answer, err := g.ask(ctx)
	switch {
	case err != nil:
		return false, fmt.Errorf("ask on %s: %s", g.topics().Stores(), err.Error()) // not wrapped: a question that is refused admits nobody
	case answer.storeID == g.id: // a process of this store has read it again
		return true, g.announce(ctx)
	case answer.storeID != "":
		g.meet(answer)
		return false, nil
	case g.met != "" && announced.storeID != "":
		return false, nil
	}
	g.log.Warn("another store was served on these topics; none of its processes answers, so they are those of this store now",
		"topics", g.jobs.TopicPrefix, "other_store", announced.storeID, "announced_by", announced.source, "store", g.id)
	return true, g.announce(ctx)
}

// meet notes that a process of another store lives.
func (g *topicGuard) meet(other heard) {
	err := fmt.Errorf("topics: %s/# are those of another store, %s, which %s serves; this process is on store %s and takes nothing: "+
		"give this installation another --topic-prefix, or, if its store takes the place of the other one, end all processes of the other one, then start this process again",
		g.jobs.TopicPrefix, other.storeID, other.source, g.id)
	g.refuse(err) // before the log says so: who reads that asks /readyz
	if g.met != other.storeID {
		g.log.Error("two installations on the same topics: this process is not ready and takes nothing", "err", err)
	}
	g.met = other.storeID
}

// identify reads the id of the store again: a store that was flushed meanwhile has another one.
func (g *topicGuard) identify(ctx context.Context) error {
	id, err := g.store.EnsureID(ctx)
	if err == nil {
		g.id = id
	}
	return err
}

func (g *topicGuard) topics() topics.Prefix { return topics.Prefix(g.jobs.TopicPrefix) }

func (g *topicGuard) subscribe(ctx context.Context) error {
	take := func(read func(mqtt.Message) heard) func(context.Context, *mqtt.Inbound) {
		return func(_ context.Context, in *mqtt.Inbound) {
			g.hear(read(in.Message))
			_ = in.Ack()
		}
	}
	return g.conn.Subscribe(ctx,
		mqtt.Subscription{Filter: g.topics().Metadata(), QoS: 1, Handle: take(func(m mqtt.Message) heard {
			h := heard{kept: m.Retain}
			h.storeID, h.source = jobcontrol.Announced(m)
			g.last.Lock()
			g.last.announced = h
			g.last.Unlock()
			return h
		})},
		mqtt.Subscription{Filter: g.topics().Stores(), QoS: 1, Handle: take(func(m mqtt.Message) heard {
			return heard{storeID: string(m.Payload), question: true}
		})},
	)
}

// hear hands on what came. What exceeds the queue is left out: a process that asks asks again.
func (g *topicGuard) hear(h heard) {
	select {
	case g.heard <- h:
	default:
	}
}

func (g *topicGuard) announce(ctx context.Context) error {
	m, err := g.jobs.Metadata(time.Now(), g.id)
	if err != nil {
		return err
	}
	return g.conn.Publish(ctx, m)
}

// ask waits for the answer of a process that serves these topics; no storeID: none came.
func (g *topicGuard) ask(ctx context.Context) (answer heard, err error) {
	for left := g.patience; left > 0; left -= time.Second {
		if err := g.conn.Publish(ctx, mqtt.Message{Topic: g.topics().Stores(), Payload: []byte(g.id), QoS: 1}); err != nil {
			return heard{}, err
		}
		if g.await(ctx, min(left, time.Second), func(h heard) bool {
			answer = h
			return !h.question && !h.kept && h.storeID != ""
		}) {
			return answer, nil
		}
	}
	return heard{}, ctx.Err()
}

// await takes what comes until one is wanted, or limit is over: false.
func (g *topicGuard) await(ctx context.Context, limit time.Duration, wanted func(heard) bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case h := <-g.heard:
			if wanted(h) {
				return true
			}
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// judge decides what follows from what an admitted process hears. It goes on with its work in any case: orders are under way.
func (g *topicGuard) judge(ctx context.Context, h heard) {
	if h.storeID != g.id && h.storeID != "" {
		if err := g.identify(ctx); err != nil {
			g.log.Warn("the id of the store was not read; the last one known counts", "err", err)
		}
	}
	switch {
	case h.storeID == g.id && !h.question:
		return
	case h.question && h.storeID != g.id && h.storeID != g.met:
		g.met = h.storeID
		g.log.Warn("a process of another store was started on these topics; it takes nothing while this one runs", "other_store", h.storeID, "store", g.id)
	case h.kept, h.question: // its process may have ended, or takes nothing
	case h.storeID > g.id:
		g.log.Error("another store was announced on these topics; that of this process is older and keeps them", "other_store", h.storeID, "announced_by", h.source, "store", g.id)
	case h.storeID != "": // both began at the same moment: one of the two must not announce again
		err := fmt.Errorf("topics: %s/# are those of another store, too, %s, which %s serves and which is older than store %s of this process; each refuses the orders of the other: "+
			"end the processes of one of them, give that installation another --topic-prefix, then start this process again", g.jobs.TopicPrefix, h.storeID, h.source, g.id)
		g.refuse(err)
		g.log.Error("two installations on the same topics: both take commands", "err", err)
		return
	}
	if err := g.announce(ctx); err != nil && ctx.Err() == nil {
		g.log.Warn("the store was not announced again", "err", err)
	}
}
