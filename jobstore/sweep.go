package jobstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/isa95"
)

// ActiveJobs returns the job orders whose recipe is in execution, and whether each has a timer.
func (s *Store) ActiveJobs(ctx context.Context) (map[isa95.JobOrderID]bool, error) {
	ids, err := s.rdb.Do(ctx, s.rdb.B().Smembers().Key(s.keys.SfcActiveJobs()).Build()).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("jobstore: active jobs: %w", err)
	}
	active := make(map[isa95.JobOrderID]bool, len(ids))
	for page := range slices.Chunk(ids, 500) {
		var l loader
		l.add(s.rdb.B().Zmscore().Key(s.keys.SfcTimers()).Member(page...).Build(), func(r rueidis.RedisResult) error {
			scores, err := r.ToArray()
			if err != nil {
				return err
			}
			if len(scores) != len(page) {
				return fmt.Errorf("%d scores for %d members", len(scores), len(page))
			}
			for i, id := range page {
				active[isa95.JobOrderID(id)] = !scores[i].IsNil()
			}
			return nil
		})
		if err := l.run(ctx, s.rdb); err != nil {
			return nil, err
		}
	}
	return active, nil
}

// QueuedJobs returns the job orders that an entry of the work stream names, handed out or not. ok is false if there are more than
// limit entries, and then none is read.
func (s *Store) QueuedJobs(ctx context.Context, limit int64) (queued map[isa95.JobOrderID]bool, ok bool, err error) {
	fail := func(err error) (map[isa95.JobOrderID]bool, bool, error) {
		return nil, false, fmt.Errorf("jobstore: queued jobs: %w", err)
	}
	stream := s.keys.SfcWork()
	length, err := s.rdb.Do(ctx, s.rdb.B().Xlen().Key(stream).Build()).AsInt64()
	if err != nil {
		return fail(err)
	}
	if length > limit {
		return nil, false, nil
	}
	queued = make(map[isa95.JobOrderID]bool, length)
	for after := "-"; ; {
		entries, err := s.rdb.Do(ctx, s.rdb.B().Xrange().Key(stream).Start(after).End("+").Count(1000).Build()).AsXRange()
		if err != nil {
			return fail(err)
		}
		for _, e := range entries {
			queued[isa95.JobOrderID(e.FieldValues["job_id"])] = true
		}
		if len(entries) < 1000 {
			return queued, true, nil
		}
		after = "(" + entries[len(entries)-1].ID
	}
}

// JobsIn returns the ids of the job orders of a scope that are in one of the top states.
func (s *Store) JobsIn(ctx context.Context, scope isa95.Scope, tops ...string) ([]isa95.JobOrderID, error) {
	key := s.keys.PubIndex(string(scope))
	var ids []isa95.JobOrderID
	for cursor := uint64(0); ; {
		page, err := s.rdb.Do(ctx, s.rdb.B().Hscan().Key(key).Cursor(cursor).Count(500).Build()).AsScanEntry()
		if err != nil {
			return nil, fmt.Errorf("jobstore: jobs of %s: %w", scope, err)
		}
		for i := 0; i+1 < len(page.Elements); i += 2 {
			var e IndexEntry
			if json.Unmarshal([]byte(page.Elements[i+1]), &e) != nil || len(e.State) == 0 {
				continue // Check reports it
			}
			if slices.Contains(tops, e.State[0].StateText.Text) {
				ids = append(ids, isa95.JobOrderID(page.Elements[i]))
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			break
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil // a scan may show one twice
}

// Forget removes what leads to a recipe in execution, its timer and its place among the active jobs, for a job order that has
// none. ErrConflict: it has one again since snap was loaded.
func (s *Store) Forget(ctx context.Context, snap *Snapshot) error {
	id := string(snap.JobOrderID)
	c := commit.New()
	execution := snap.keys.execution
	read, ok := snap.doc(execution)
	if !ok {
		return fmt.Errorf("jobstore: forget %s: its execution was not loaded", id)
	}
	c.Expect(execution, read)
	c.ZRem(s.keys.SfcTimers(), id)
	c.SRem(s.keys.SfcActiveJobs(), id)
	if _, err := c.Run(ctx, s.rdb); err != nil {
		return fmt.Errorf("jobstore: forget %s: %w", id, err)
	}
	return nil
}
