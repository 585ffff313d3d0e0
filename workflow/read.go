package workflow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Info is the document of an execution; with Execution "" of the newest one of that instance, active or ended. ErrNotFound: there is none, or it was removed.
func (c *Client) Info(ctx context.Context, i Instance) (Info, error) {
	if err := i.checkOrActive("Info instance"); err != nil {
		return Info{}, err
	}
	doc, err := c.of(i.ID).document(ctx, i, false)
	if err != nil {
		return Info{}, err
	}
	return decodeInfo(doc)
}

// document is the stored text. active: with Execution "", the active one, and not merely the newest.
func (s *shard) document(ctx context.Context, i Instance, active bool) (string, error) {
	if i.Execution == "" {
		b := s.c.rdb.B()
		cmd := b.Get().Key(s.keys.Last(i.ID)).Build()
		if active {
			cmd = b.Hget().Key(s.keys.Run(i.ID)).Field("x").Build()
		}
		var err error
		if i.Execution, err = s.c.rdb.Do(ctx, cmd).ToString(); rueidis.IsRedisNil(err) && active {
			return "", notActive(i)
		} else if rueidis.IsRedisNil(err) {
			return "", fmt.Errorf("%w: %s", ErrNotFound, i.ID)
		} else if err != nil {
			return "", fmt.Errorf("workflow: read %s: %w", i.ID, err)
		}
	}
	doc, err := s.c.rdb.Do(ctx, s.c.rdb.B().Get().Key(s.keys.Document(i.ID, i.Execution)).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", fmt.Errorf("%w: %s", ErrNotFound, i)
	}
	if err != nil {
		return "", fmt.Errorf("workflow: read %s: %w", i, err)
	}
	return doc, nil
}

// History is what happened to an execution, events with a Sequence greater than after, ascending. An execution that has no history yet has none; ErrNotFound: it does not exist.
func (c *Client) History(ctx context.Context, i Instance, after int64) ([]Event, error) {
	if err := i.check("History instance"); err != nil {
		return nil, err
	}
	s := c.of(i.ID)
	events, err := s.history(ctx, i, max(after, 0))
	if err != nil {
		return nil, err
	}
	if after > 0 && (len(events) == 0 || events[0].Sequence != after+1) { // numbered in another way
		if events, err = s.history(ctx, i, 0); err != nil {
			return nil, err
		}
	}
	for n, e := range events {
		if e.Sequence > after {
			return events[n:], nil
		}
	}
	if len(events) == 0 {
		if _, err := s.document(ctx, i, false); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (s *shard) history(ctx context.Context, i Instance, from int64) ([]Event, error) {
	list, err := s.c.rdb.Do(ctx, s.c.rdb.B().Lrange().Key(s.keys.History(i.ID, i.Execution)).Start(from).Stop(-1).Build()).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("workflow: history of %s: %w", i, err)
	}
	return decodeEvents(list)
}

// Timers are those that have not fired, of all instances, in the order in which they are due. It takes two round trips for each shard.
func (c *Client) Timers(ctx context.Context) (all []Event, err error) {
	for _, s := range c.shards {
		members, err := c.rdb.Do(ctx, c.rdb.B().Zrange().Key(s.keys.Timers()).Min("0").Max("-1").Build()).AsStrSlice()
		if err != nil {
			return nil, fmt.Errorf("workflow: timers: %w", err)
		}
		cmds := make(rueidis.Commands, len(members))
		for n, m := range members {
			ref, _, id := splitTimer(m)
			cmds[n] = c.rdb.B().Hget().Key(s.keys.Run(id)).Field("t:" + ref).Build()
		}
		for _, r := range c.rdb.DoMulti(ctx, cmds...) {
			text, err := r.ToString()
			if rueidis.IsRedisNil(err) {
				continue // fired since
			}
			if err != nil {
				return nil, fmt.Errorf("workflow: timers: %w", err)
			}
			e, err := decodeEvent(text)
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b Event) int { return a.VisibleAt.Compare(*b.VisibleAt) })
	return all, nil
}

// splitTimer splits a member of the set of timers.
func splitTimer(member string) (ref, x, id string) {
	ref, rest, _ := strings.Cut(member, ":")
	x, id, _ = strings.Cut(rest, ":")
	return ref, x, id
}

// Stats are figures of all instances under a prefix.
type Stats struct {
	Active     int64            `json:"active"`     // instances
	Ended      int64            `json:"ended"`      // executions that are still kept
	Timers     int64            `json:"timers"`     // that have not fired
	Workflows  map[string]int64 `json:"workflows"`  // by queue: workflow tasks that wait or run; queues without any are left out
	Activities map[string]int64 `json:"activities"` // the same of activities
	Held       map[string]int64 `json:"held"`       // by paused queue: tasks and activities it holds back
	Counters   map[string]int64 `json:"counters"`   // since the beginning: started, and how executions ended
	Outbox     int64            `json:"outbox"`     // messages on their way to other shards
}

// QueueStats are the counts of one queue.
type QueueStats struct {
	Name                        string
	Workflows, Activities, Held int64 // as in Stats
	Paused                      bool
}

// Queues are the queues that have anything, and those that are paused, sorted by name.
func (st *Stats) Queues(paused []string) (all []QueueStats) {
	names := slices.Clone(paused)
	for _, of := range []map[string]int64{st.Workflows, st.Activities, st.Held} {
		names = slices.AppendSeq(names, maps.Keys(of))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		all = append(all, QueueStats{name, st.Workflows[name], st.Activities[name], st.Held[name], slices.Contains(paused, name)})
	}
	return all
}

// Stats counts, each shard in one round trip.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	st := Stats{Workflows: map[string]int64{}, Activities: map[string]int64{}, Held: map[string]int64{}, Counters: map[string]int64{}}
	for _, s := range c.shards {
		if err := s.stats(ctx, &st); err != nil {
			return Stats{}, fmt.Errorf("workflow: stats: %w", err)
		}
	}
	return st, nil
}

func (s *shard) stats(ctx context.Context, st *Stats) error {
	reply, err := statsScript.Run(ctx, s.c.rdb, []string{s.keys.Active()}, s.base).ToArray()
	if err != nil {
		return err
	}
	r := reader{reply, &err}
	for i, n := range []*int64{&st.Active, &st.Ended, &st.Timers, &st.Outbox} {
		*n += r.number(i)
	}
	for _, c := range r.list(4) {
		st.Counters[c.text(0)] += parseInt(c.text(1))
	}
	for _, q := range r.list(5) {
		kind, name, _ := strings.Cut(q.text(0), ":")
		in := st.Activities
		if kind == tasks {
			in = st.Workflows
		}
		if n := q.number(1); n > 0 {
			in[name] += n
		}
		if n := q.number(2); n > 0 {
			st.Held[name] += n
		}
	}
	return err
}

// Remove removes an execution that has ended, with its history. ErrNotFound: there is none. ErrNotFinished: it is active.
func (c *Client) Remove(ctx context.Context, i Instance) error {
	if err := i.check("Remove instance"); err != nil {
		return err
	}
	words, err := c.of(i.ID).remove(ctx, []Instance{i}, false)
	switch {
	case err != nil:
		return err
	case words[0] == "active":
		return fmt.Errorf("%w: %s", ErrNotFinished, i)
	case words[0] == "none":
		return fmt.Errorf("%w: %s", ErrNotFound, i)
	}
	return nil
}

// remove runs remove.lua, which says a word for each; expired: only for those whose document has expired.
func (s *shard) remove(ctx context.Context, list []Instance, expired bool) ([]string, error) {
	args := []string{s.base, "0"}
	if expired {
		args[1] = "1"
	}
	for _, i := range list {
		args = append(args, i.ID, i.Execution)
	}
	words, err := removeScript.Run(ctx, s.c.rdb, []string{s.keys.Ended()}, args...).AsStrSlice()
	if err != nil || len(words) != len(list) {
		return nil, fmt.Errorf("workflow: remove: %w", errors.Join(err, fmt.Errorf("remove.lua replied %d words for %d", len(words), len(list))))
	}
	return words, nil
}

const removePage = 200 // executions of one script

// RemoveEnded removes executions that ended before a time, the oldest first, at most limit, 0 = all of them. It may be repeated after an error; removed is how many went.
func (c *Client) RemoveEnded(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	if limit < 0 {
		return 0, fmt.Errorf("workflow: RemoveEnded limit %d: must not be negative", limit)
	}
	for _, s := range c.shards {
		n, err := s.removeEnded(ctx, before, limit-removed)
		if removed += n; err != nil || limit > 0 && removed >= limit {
			return removed, err
		}
	}
	return removed, nil
}

// removeEnded is RemoveEnded for a shard; limit 0 or less = all.
func (s *shard) removeEnded(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	for limit <= 0 || removed < limit {
		page := removePage
		if limit > 0 {
			page = min(page, limit-removed)
		}
		members, err := s.c.rdb.Do(ctx, s.c.rdb.B().Zrange().Key(s.keys.Ended()).Min("-inf").Max("("+unixMilli(before)).Byscore().Limit(0, int64(page)).Build()).AsStrSlice()
		if err != nil {
			return removed, fmt.Errorf("workflow: remove: %w", err)
		}
		if len(members) == 0 {
			break
		}
		list := make([]Instance, len(members))
		for i, m := range members {
			list[i] = ParseInstance(m)
		}
		if _, err := s.remove(ctx, list, false); err != nil {
			return removed, err
		}
		removed += len(members)
	}
	return removed, nil
}

func parseInt(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
