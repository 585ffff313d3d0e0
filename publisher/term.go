package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// term is one time of holding the lease. What is known of the broker is learnt anew in each.
type term struct {
	*Publisher
	lease *jobstore.Lease

	pos      string    // entry of the change stream read last; "" = everything is to be compared first
	saved    string    // the cursor as it stands in Redis
	announce bool      // publish every state index once, changed or not
	stale    bool      // everything is to be compared once more
	next     string    // epoch of the store if this turn finds that it lost something
	calm     bool      // the last read did not fill the batch: let changes gather before the next
	rest     time.Time // no changes are read before, for the last indexes were large

	indexes map[isa95.Scope]acknowledged
	refused *refused
	removed map[isa95.Scope][]jobstore.SettledJob // deleted at the broker, to be noted before anything is read again
	buried  map[string]bool                       // told already

	stored map[isa95.Scope]bool // scopes of the store at the last comparison

	nextAudit, nextRefresh time.Time
	failures               int
}

func newTerm(p *Publisher, l *jobstore.Lease) *term {
	now := time.Now()
	return &term{
		Publisher: p, lease: l, announce: true,
		indexes: make(map[isa95.Scope]acknowledged), refused: newRefused(),
		removed: make(map[isa95.Scope][]jobstore.SettledJob), buried: make(map[string]bool),
		stored:    make(map[isa95.Scope]bool),
		nextAudit: now.Add(p.opt.Audit), nextRefresh: now.Add(p.opt.Refresh),
	}
}

// run publishes until ctx ends or the lease is lost.
func (t *term) run(ctx context.Context) error {
	t.log.Info("publisher: publishing", "topics", t.opt.TopicPrefix)
	t.count(func(s *Stats) { s.Publishing = true })
	defer t.count(func(s *Stats) { s.Publishing = false })
	defer t.waits(newRefused())

	// work outlives ctx, so that a batch in hand is finished, but not the lease.
	work, cancel := context.WithCancel(t.lease.Context())
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		lifecycle.Sleep(work, t.opt.Grace)
		cancel()
	})()

	for ctx.Err() == nil {
		err := t.turn(ctx, work)
		t.count(func(s *Stats) { s.Turned = time.Now() })
		t.refused.turned(err)
		if err == nil {
			t.failures = 0
			continue
		}
		if err := t.failed(ctx, err); err != nil {
			return err
		}
	}
	if t.lease.Valid() {
		if err := t.save(work); err != nil {
			t.log.Warn("publisher: the cursor was not saved", "err", err)
		}
	}
	return nil
}

// turn does one round: a batch of changes, or a comparison with the broker if one is due.
func (t *term) turn(ctx, work context.Context) error {
	if t.connected.Swap(false) { // the broker may have forgotten everything
		t.stale = true
	}
	if t.stale {
		t.pos, t.announce, t.stale = "", true, false
	}
	t.next = jobstore.NewEpoch()
	switch now := time.Now(); {
	case t.pos == "":
		return t.reconcile(ctx, work, all)
	case !now.Before(t.nextRefresh):
		return t.reconcile(ctx, work, all|again)
	case !now.Before(t.nextAudit):
		return t.reconcile(ctx, work, all)
	}
	looked, err := t.changes(ctx)
	if err != nil || looked == nil {
		return err
	}
	return t.batch(ctx, work, looked)
}

// failed decides what follows an error: nil to go on, else why the term ends.
func (t *term) failed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, jobstore.ErrLeaseLost):
		return err
	case !t.lease.Valid():
		return fmt.Errorf("%w: %w", jobstore.ErrLeaseLost, err)
	}
	t.forget()
	t.count(func(s *Stats) { s.Away++ })
	if errors.Is(err, mqtt.ErrDown) {
		t.pos, t.announce = "", true
		t.log.Warn("publisher: waiting for the broker", "err", err)
		wait, cancel := context.WithTimeout(ctx, t.opt.Lease)
		defer cancel()
		if t.retainer.Ready(wait) != nil && ctx.Err() == nil {
			return errBrokerAway
		}
		return nil
	}
	if soon := time.Now().Add(auditAfterTrouble); soon.Before(t.nextAudit) { // another master may not know what was noted last
		t.nextAudit = soon
	}
	pause := min(retryFirst<<min(t.failures, 20), retryLast)
	t.failures++
	t.log.Warn("publisher: trying again", "err", err, "in", pause)
	lifecycle.Sleep(ctx, pause)
	return nil
}

// Pauses after a failure of Redis, which other batches wait for, and how soon after it the broker is compared with the store.
const (
	retryFirst = 50 * time.Millisecond
	retryLast  = 5 * time.Second

	auditAfterTrouble = 20 * time.Second
)

// cursor is what is to be saved: how far everything is acknowledged, "" if that is saved or something was refused.
func (t *term) cursor() string {
	if t.pos == t.saved || len(t.refused.topics) > 0 {
		return ""
	}
	return t.pos
}

// removals notes what was deleted.
func (t *term) removals() []jobstore.Settlement {
	var settlements []jobstore.Settlement
	for scope, jobs := range t.removed {
		settlements = append(settlements, jobstore.Settlement{Scope: scope, Jobs: jobs})
	}
	return settlements
}

// save notes what was deleted and saves the cursor, without waiting for the next read.
func (t *term) save(work context.Context) error {
	cursor := t.cursor()
	if err := t.store.SaveCursor(work, t.lease, cursor, t.removals()...); err != nil {
		return err
	}
	t.wrote(cursor)
	return nil
}

// wrote keeps that removals and cursor are written.
func (t *term) wrote(cursor string) {
	for scope, jobs := range t.removed {
		t.indexes[scope].index.Forget(jobs)
	}
	clear(t.removed)
	if cursor != "" {
		t.saved = cursor
	}
}

// changes waits for the next changes and says where to look, nil if there is nothing to do. What was refused and is due again
// counts as changed.
func (t *term) changes(ctx context.Context) (*looked, error) {
	if t.calm && t.opt.Coalesce > 0 {
		t.calm = false
		if !lifecycle.Sleep(ctx, t.opt.Coalesce) {
			return nil, nil
		}
	}
	if !lifecycle.Sleep(ctx, time.Until(t.rest)) {
		return nil, nil
	}
	cursor := t.cursor()
	changes, err := t.store.PublishedChanges(ctx, t.lease,
		jobstore.ChangesQuery{After: t.pos, Settle: t.removals(), Cursor: cursor, Count: t.opt.Batch, Block: t.opt.Block})
	if err != nil {
		return nil, err
	}
	t.wrote(cursor)
	t.sees(changes.Epoch)
	if changes.Missed {
		if t.pos != beginning { // the first changes there ever were are not told from trimmed ones
			t.count(func(s *Stats) { s.Missed++ })
			t.log.Warn("publisher: the change stream was trimmed before it was read; comparing everything", "last", t.pos)
		}
		t.pos = ""
		return nil, nil
	}
	t.count(func(s *Stats) { s.Changes += int64(len(changes.Entries)) })
	t.calm = len(changes.Entries) > 0 && len(changes.Entries) < t.opt.Batch
	l := newLooked()
	for _, c := range changes.Entries {
		l.change(c)
	}
	for _, of := range t.refused.try() {
		l.look(of.scope, of.job)
		l.again[of] = true
	}
	if l.empty() {
		return nil, nil
	}
	return l, nil
}

// beginning stands before every entry of a stream.
const beginning = "0-0"
