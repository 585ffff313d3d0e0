package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// topicGuard keeps the topics of one prefix to one store (docs/adr/0032). Processes of two stores on the same topics would share the commands, and each would
// refuse those for what only the other knows. The retained message {prefix}/metadata names the store that is served; a process of another store ends with an error.
type topicGuard struct {
	store *jobstore.Store
	conn  *mqtt.Conn
	jobs  jobcontrol.Options
	log   *slog.Logger
	anew  bool // store and broker are of this process, and the store begins anew with each

	admitted chan struct{} // closed once the topics are those of this store
	again    chan struct{} // full after a connect
	look     chan struct{} // full after a station was configured
	every    time.Duration
	lack     atomic.Pointer[error]
}

func newTopicGuard(store *jobstore.Store, conn *mqtt.Conn, jobs jobcontrol.Options, anew bool, log *slog.Logger) *topicGuard {
	g := &topicGuard{store: store, conn: conn, jobs: jobs, anew: anew, log: log, admitted: make(chan struct{}), again: make(chan struct{}, 1), look: make(chan struct{}, 1), every: announceEvery}
	conn.OnConnect(func() { fill(g.again) }) // the broker may have forgotten what was retained
	return g
}

// fill makes the next receive from c succeed.
func fill(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// announceEvery is how often it is looked whether the store has another id, for it was flushed while its processes run, and which stations are new or have retired.
const announceEvery = 30 * time.Second

// Ready is part of /readyz.
func (g *topicGuard) Ready(context.Context) error {
	select {
	case <-g.admitted:
		return nil
	default:
	}
	if lack := g.lack.Load(); lack != nil {
		return *lack
	}
	return errors.New("topics: not yet known whether another store is served on them")
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

// topicsError says that {prefix}/metadata names another store. It ends the process.
type topicsError struct{ prefix, other, source, id string }

func (e *topicsError) Error() string {
	return fmt.Sprintf("%s/# are those of another store, %s, which %s announced on %s; this process is on store %s and takes nothing: "+
		"give this installation another --topic-prefix, or check --redis and --prefix; if its store takes the place of the other one, end all processes of that one and delete the retained message %s",
		e.prefix, e.other, e.source, topics.Prefix(e.prefix).Metadata(), e.id, topics.Prefix(e.prefix).Metadata())
}

// Run compares until it is known whose the topics are, then announces the store at each connect, and when it has another id.
func (g *topicGuard) Run(ctx context.Context) error {
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		id, err := g.try(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case is[*topicsError](err):
			return err
		case err == nil:
			close(g.admitted)
			g.keep(ctx, id)
			return nil
		}
		err = fmt.Errorf("topics: not yet known whether another store is served on them: %w", err)
		g.lack.Store(&err)
		g.log.Warn("not yet known whether another store is served on these topics", "err", err, "again_in", pause)
		lifecycle.Sleep(ctx, pause)
	}
}

// keep announces the store again, and its stations, until ctx ends.
func (g *topicGuard) keep(ctx context.Context, id string) {
	tick := time.NewTicker(g.every)
	defer tick.Stop()
	told := make(map[isa95.Scope]string)
	connected := false // and not announced since, for Redis was away
	for {
		select {
		case <-g.again:
			connected = true
		case <-g.look:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if connected {
			for scope := range told {
				told[scope] = unsure
			}
		}
		now, err := g.store.EnsureID(ctx)
		if err == nil && (connected || now != id) {
			connected = false
			if err = g.announce(ctx, now); err == nil {
				id = now
			}
		}
		if err == nil && g.conn.Facts().RetainAvailable {
			err = g.announceStations(ctx, id, told)
		}
		if err != nil && ctx.Err() == nil {
			g.log.Warn("the store was not announced again", "err", err)
		}
	}
}

// unsure stands for what the broker may have forgotten.
const unsure = "?"

// announceStations says on {prefix}/{scope}/metadata what the stations of the store understand, and deletes that of those that have retired. told is what the
// broker knows already, the id of the store or "" for what was deleted; what it refuses counts as told until the next connect.
func (g *topicGuard) announceStations(ctx context.Context, id string, told map[isa95.Scope]string) error {
	stations, err := g.store.Stations(ctx)
	if err != nil {
		return err
	}
	for scope := range told {
		if !stations[scope] {
			stations[scope] = false // also if the store does not know it any more
		}
	}
	var refusals error
	for scope, serves := range stations {
		want := id
		if !serves {
			want = ""
		}
		if before, known := told[scope]; known && before == want {
			continue
		}
		if _, err := isa95.ParseScope(string(scope)); err != nil { // stored by another program: it can be in no topic
			continue
		}
		m, err := g.jobs.Metadata(time.Now(), id, scope)
		if err != nil {
			return err
		}
		if !serves {
			m = mqtt.Message{Topic: m.Topic, QoS: 1, Retain: true}
		}
		err = g.conn.Publish(ctx, m)
		if err != nil && !is[*mqtt.PublishError](err) {
			return err
		}
		refusals = cmp.Or(refusals, err)
		told[scope] = want
	}
	return refusals
}

// try compares what is retained with this store, and announces it.
func (g *topicGuard) try(ctx context.Context) (id string, err error) {
	if err := g.conn.Ready(ctx); err != nil {
		return "", err
	}
	if id, err = g.store.EnsureID(ctx); err != nil {
		return "", err
	}
	if g.conn.Facts().RetainAvailable && !g.anew {
		found, err := g.conn.Retained(ctx, topics.Prefix(g.jobs.TopicPrefix).Metadata())
		switch {
		case is[*mqtt.SubscribeError](err):
			g.log.Warn("the broker does not let this process read which store is served: another installation on these topics would go unnoticed", "err", err)
		case err != nil:
			return "", err
		}
		for _, m := range found {
			if other, source := jobcontrol.Announced(m); other != "" && other != id {
				return "", &topicsError{g.jobs.TopicPrefix, other, source, id}
			}
		}
	}
	err = g.announce(ctx, id)
	if is[*mqtt.PublishError](err) {
		g.log.Warn("the broker does not let this process announce its store: another installation on these topics would go unnoticed", "err", err)
		return id, nil
	}
	return id, err
}

// announce says on {prefix}/metadata which store is served.
func (g *topicGuard) announce(ctx context.Context, id string) error {
	m, err := g.jobs.Metadata(time.Now(), id, "")
	if err != nil {
		return err
	}
	return g.conn.Publish(ctx, m)
}
