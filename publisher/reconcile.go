package publisher

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// extent of a comparison.
type extent int

const (
	all   extent = 1 << iota // every scope of the store, not only those named
	again                    // publish also what the broker has, to renew its expiry
)

// reconcile compares what the broker has with what it shall have and mends the difference: topics that are missing, differ or
// will expire are published, topics of orders that are gone are deleted, and no seq is used again that the broker has seen. It
// touches only scopes of the store: others may belong to another one.
//
// This is what makes the cursor an optimisation: trimmed changes, a lost cursor, a broker without its retained
// messages and a publication by a process that had lost the lease are all mended here.
func (t *term) reconcile(ctx, work context.Context, extent extent, scopes ...isa95.Scope) error {
	if err := t.save(work); err != nil {
		return err
	}
	has, err := t.ask(work, extent, scopes)
	if err != nil {
		return err
	}
	if has == nil && t.announce {
		extent |= again // unseen, the broker may have nothing
	}
	last := ""
	if extent&all != 0 {
		// Read before the index: what changes from here on is met as a change.
		if last, err = t.store.LastChange(work, ""); err != nil {
			return err
		}
		epoch, err := t.store.Epoch(work)
		if err != nil {
			return err
		}
		t.sees(epoch)
		t.stale = false // this is the comparison
		if scopes, err = t.scopes(work); err != nil {
			return err
		}
	}
	for page := range slices.Chunk(scopes, pageSize) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := t.mend(ctx, work, has, extent, page); err != nil {
			return err
		}
	}
	if extent&all != 0 && !t.stale {
		t.lost = false
	}
	t.count(func(s *Stats) { s.Reconciled++ })
	t.waits(t.refused)
	if extent&all == 0 {
		return nil
	}
	t.announce = false
	t.nextAudit = time.Now().Add(t.opt.Audit)
	if extent&again != 0 {
		t.nextRefresh = time.Now().Add(t.opt.Refresh)
	}
	if t.pos != "" {
		return nil
	}
	if t.pos = last; last == "0" {
		t.pos = beginning
	}
	return t.save(work)
}

// pageSize is how many job orders or scopes are read or published at once.
const pageSize = 250

// scopes of the store, without those that cannot be in a topic. When the store lost something, also those that it does not know any
// more and that this process published: their MES shall learn of it, too.
func (t *term) scopes(work context.Context) ([]isa95.Scope, error) {
	names, err := t.store.Scopes(work)
	if err != nil {
		return nil, err
	}
	var scopes []isa95.Scope
	stored := make(map[isa95.Scope]bool, len(names))
	t.stored = stored
	for _, scope := range names {
		if _, err := isa95.ParseScope(string(scope)); err != nil {
			if err := t.buryScope(work, scope, err); err != nil {
				return nil, err
			}
			continue
		}
		scopes = append(scopes, scope)
		stored[scope] = true
	}
	for scope := range t.told {
		switch {
		case stored[scope]:
		case t.lost:
			scopes = append(scopes, scope)
		default:
			delete(t.told, scope)
		}
	}
	return scopes, nil
}

// mend makes the topics of some scopes right: those of the job orders, page by page, then the state indexes, then it deletes what
// these do not name.
func (t *term) mend(ctx, work context.Context, has map[isa95.Scope]*found, extent extent, scopes []isa95.Scope) error {
	queries := make([]jobstore.RetainedQuery, len(scopes))
	for i, scope := range scopes {
		queries[i].Scope = scope
	}
	read, err := t.store.Retained(work, queries...)
	if err != nil {
		return err
	}
	var (
		jobs        []*job
		settlements []jobstore.Settlement
	)
	for _, s := range read {
		if s.Err != nil {
			if err := t.buryScope(work, s.Scope, s.Err); err != nil {
				return err
			}
			continue
		}
		if extent&all != 0 && t.unused(s, has) {
			switch retired, err := t.retire(work, s.Scope); {
			case err != nil:
				return err
			case retired:
				continue
			}
		}
		t.know(s, has)
		f := has[s.Scope]
		if f == nil && has != nil {
			f = new(found)
		}
		wrong, err := t.wrong(work, s, f, extent&again != 0)
		if err != nil {
			return err
		}
		jobs = append(jobs, wrong...)
		settlements = append(settlements, t.settlement(s.Scope, nil, nil))
	}
	for page := range slices.Chunk(jobs, pageSize) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := t.mendPage(work, page); err != nil {
			return err
		}
	}
	shown, err := t.publishIndexes(work, settlements, extent&again != 0 || extent&all != 0 && t.announce)
	if err != nil {
		return err
	}
	if err := t.remove(work, jobs, shown); err != nil {
		return err
	}
	return t.save(work)
}

// wrong lists the job orders of a scope whose topics are not as they shall be.
func (t *term) wrong(work context.Context, s jobstore.RetainedScope, has *found, again bool) ([]*job, error) {
	var jobs []*job
	add := func(r *jobstore.RetainedJob) {
		if j := t.plan(r, has, again); j != nil {
			jobs = append(jobs, j)
		}
	}
	listed := make(map[isa95.JobOrderID]bool, len(s.Jobs))
	for _, r := range s.Jobs {
		listed[r.JobOrderID] = true
		if _, err := isa95.ParseJobOrderID(string(r.JobOrderID)); err != nil {
			r.Err = errors.Join(r.Err, err) // a phantom member: nothing can be published of it
		}
		if err := t.buryJob(work, r); err != nil {
			return nil, err
		}
		add(r)
	}
	for _, id := range has.jobs() {
		if !listed[id] { // left over: its order is gone
			add(&jobstore.RetainedJob{Scope: s.Scope, JobOrderID: id})
		}
	}
	return jobs, nil
}

// mendPage publishes what is missing of some job orders and notes it.
func (t *term) mendPage(work context.Context, page []*job) error {
	if err := t.put(work, page); err != nil {
		return err
	}
	var settlements []jobstore.Settlement
	for scope, settled := range t.settled(page) {
		settlements = append(settlements, jobstore.Settlement{Scope: scope, Jobs: settled})
	}
	_, err := t.store.Settle(work, t.lease, settlements...)
	return err
}

// know notes what the broker has as the state index of a scope. A seq that was ever seen is never used again with other
// content, so what we remember counts as well as what the broker shows.
func (t *term) know(s jobstore.RetainedScope, has map[isa95.Scope]*found) {
	scope := s.Scope
	known, ours := t.indexes[scope]
	if !ours {
		known = t.told[scope]
	}
	if has != nil { // else it could not be asked
		index := has[scope].stateIndex()
		switch {
		case index == nil || index.seq < known.seq:
			known.missing = true
		default:
			known = *index
			known.missing = known.missing && len(s.Jobs) > 0 // an empty one expires
		}
	}
	t.indexes[scope] = known
}
