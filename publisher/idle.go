package publisher

import (
	"context"
	"slices"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// A scope without job orders is idle. Its empty state index stays at the broker until it expires, for an MES that was away, and is not
// renewed. Then the scope retires: it leaves the scopes of the store, and nothing looks at it until it has an order again.

// rests finds which of the scopes that were read are idle, since when there was a first look at it, and notes changes.
func (t *term) rests(work context.Context, read []jobstore.RetainedScope, has map[isa95.Scope]*found) error {
	idle := make(map[isa95.Scope]time.Time)
	var used []isa95.Scope
	for _, s := range read {
		_, before := t.idle[s.Scope]
		live := slices.ContainsFunc(s.Jobs, func(r *jobstore.RetainedJob) bool { return !gone(r) })
		switch {
		case !t.stored[s.Scope] || s.Err != nil:
		case live && before:
			used = append(used, s.Scope)
			delete(t.idle, s.Scope)
			delete(t.again, s.Scope)
		case len(s.Jobs) == 0 && (!before || t.again[s.Scope]):
			left := t.opt.RetainedTTL
			if f := has[s.Scope]; f != nil && f.index != nil && f.index.expiry > 0 {
				left = min(left, f.index.expiry)
			}
			idle[s.Scope] = t.store.Now().Add(left)
			t.idle[s.Scope] = idle[s.Scope]
			delete(t.again, s.Scope)
		}
	}
	if len(idle)+len(used) == 0 {
		return nil
	}
	return t.store.MarkIdle(work, t.lease, idle, used)
}

// left is how long the state index of a scope is to be retained, in whole seconds; not above 0: no longer.
func (t *term) left(scope isa95.Scope) time.Duration {
	if !t.resting(scope) {
		return t.opt.RetainedTTL
	}
	left := t.idle[scope].Sub(t.store.Now()) + time.Second - 1
	return min(left.Truncate(time.Second), t.opt.RetainedTTL)
}

// resting says that the state index of a scope is not renewed.
func (t *term) resting(scope isa95.Scope) bool {
	_, idle := t.idle[scope]
	return idle && !t.again[scope]
}

// over says that the state index of a scope has expired, is not to be published again, and was not replaced by another one since.
func (t *term) over(scope isa95.Scope, next, has int64) bool {
	return t.resting(scope) && t.left(scope) <= 0 && (has == 0 || next == has)
}

// due are the idle scopes whose state index has expired. Those to be retired at once come with the changes.
func (t *term) due() []isa95.Scope {
	var due []isa95.Scope
	for scope, until := range t.idle {
		if !until.IsZero() && t.stored[scope] && t.resting(scope) && t.left(scope) <= 0 {
			due = append(due, scope)
		}
	}
	return due
}

// retire takes scopes without job orders out of the store. remove deletes their state indexes, too, as was asked for.
func (t *term) retire(work context.Context, scopes []isa95.Scope, remove bool) error {
	if len(scopes) == 0 {
		return nil
	}
	retired, err := t.store.Retire(work, t.lease, scopes...)
	var messages []*message
	for _, scope := range retired {
		t.log.Info("publisher: scope retired: it has no job orders; the next one brings it back", "scope", scope)
		delete(t.idle, scope)
		delete(t.again, scope)
		delete(t.stored, scope)
		delete(t.indexes, scope)
		delete(t.told, scope)
		messages = append(messages, &message{topic: t.opt.indexTopic(scope)})
	}
	if err != nil || !remove {
		return err
	}
	if err := t.deliver(work, messages); err != nil {
		return err
	}
	for _, m := range messages {
		if m.refusal != nil {
			t.log.Error("publisher: the broker refused to delete a state index; it stays until it expires", "topic", m.topic, "err", m.refusal)
		}
	}
	return nil
}

// foreign reports scopes that the broker has topics of and the store never had, and topics whose scope or id is no name that Takt takes, each scope once in a term. They
// may belong to another installation, so they are left alone.
func (t *term) foreign(work context.Context, has map[isa95.Scope]*found) error {
	for scope, f := range has {
		if f.unfit > 0 && !t.unfit[scope] {
			t.unfit[scope] = true
			t.log.Warn("publisher: the broker has topics whose scope or id is no name that Takt takes; they are left alone", "topics", f.unfit, "one", f.oneOf)
		}
		if t.stored[scope] || t.reported[scope] {
			continue
		}
		left, err := leftOver(work, t.store, scope, f)
		if err != nil {
			return err
		}
		if t.reported[scope] = true; left > 0 {
			t.log.Warn("publisher: the broker has topics of a scope that this store does not know; they are left alone", "scope", scope, "topics", left)
		}
	}
	return nil
}

// leftOver is how many topics of a scope that is not among those of the store should not be there. The last state index of a scope that
// has retired may be.
func leftOver(ctx context.Context, store *jobstore.Store, scope isa95.Scope, f *found) (int, error) {
	topics := len(f.orders) + len(f.results)
	if f.index != nil {
		topics++
	}
	if len(f.orders)+len(f.results) > 0 {
		return topics, nil
	}
	read, err := store.Retained(ctx, jobstore.RetainedQuery{Scope: scope})
	if err != nil {
		return 0, err
	}
	if read[0].Seq > 0 {
		return 0, nil
	}
	return topics, nil
}
