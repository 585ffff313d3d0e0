package workflow

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// Filter says which executions are wanted. The zero value wants all; what is given must all hold.
type Filter struct {
	State      State
	Outcome    Outcome
	Queue      string
	Name       string            // of the workflow
	ID         string            // of the instance: its executions
	Attributes map[string]string // each must be there with that value
	// CreatedAfter and CreatedBefore bound when they were created, by the clock of who started them; both are exclusive, zero = no bound.
	CreatedAfter, CreatedBefore time.Time
	// After is the last execution of the page before; zero = from the newest on.
	After Instance
	// Limit is how many at most; 0 = 100, negative = all.
	Limit int
}

const (
	defaultLimit = 100
	listPage     = 256 // documents that one round trip reads
)

// Match says whether an execution is wanted, by all of the filter but the times, After and Limit.
func (f Filter) Match(i Info) bool {
	for name, value := range f.Attributes {
		if have, ok := i.Attributes[name]; !ok || have != value {
			return false
		}
	}
	return (f.State == "" || f.State == i.State) && (f.Outcome == "" || f.Outcome == i.Outcome) && (f.Queue == "" || f.Queue == i.Queue) &&
		(f.Name == "" || f.Name == i.Name) && (f.ID == "" || f.ID == i.ID)
}

// List is a page of executions, newest first. It looks at every document of the index until it has enough, 256 at a time: about 100,000 a second; State Active looks at active ones
// only. ErrNotFound: Filter.After does not exist.
func (c *Client) List(ctx context.Context, f Filter) ([]Info, error) {
	limit := cmp.Or(f.Limit, defaultLimit)
	var out []Info
	for i, err := range c.All(ctx, f) {
		if err != nil {
			return nil, err
		}
		if out = append(out, i); limit > 0 && len(out) >= limit {
			break
		}
	}
	return out, nil
}

// All goes over the executions that List pages through; Filter.Limit does not count. It ends after an error.
func (c *Client) All(ctx context.Context, f Filter) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if err := c.all(ctx, f, func(i Info) bool { return yield(i, nil) }); err != nil {
			yield(Info{}, fmt.Errorf("workflow: list: %w", err))
		}
	}
}

// line is the index of one shard, from the newest on.
type line struct {
	s      *shard
	key    string
	from   float64 // scores from here down
	skip   map[string]bool
	min    string
	queued []rueidis.ZScore
	done   bool
}

func (c *Client) all(ctx context.Context, f Filter, yield func(Info) bool) error {
	lines, err := c.lines(ctx, f)
	if err != nil {
		return err
	}
	for {
		page, err := nextPage(ctx, lines)
		if err != nil || len(page) == 0 {
			return err
		}
		infos, err := c.documents(ctx, page)
		if err != nil {
			return err
		}
		for _, i := range infos {
			if f.Match(i) && !yield(i) {
				return nil
			}
		}
	}
}

func (c *Client) lines(ctx context.Context, f Filter) ([]*line, error) {
	from, least := "+inf", "-inf"
	if !f.CreatedBefore.IsZero() {
		from = strconv.FormatInt(f.CreatedBefore.UnixMicro()-1, 10)
	}
	if !f.CreatedAfter.IsZero() {
		least = "(" + strconv.FormatInt(f.CreatedAfter.UnixMicro(), 10)
	}
	after := ""
	if f.After.ID != "" {
		s := c.of(f.After.ID)
		score, err := c.rdb.Do(ctx, c.rdb.B().Zscore().Key(s.keys.Created()).Member(f.After.String()).Build()).ToString()
		if rueidis.IsRedisNil(err) {
			return nil, fmt.Errorf("%w: %s", ErrNotFound, f.After)
		} else if err != nil {
			return nil, err
		}
		after = f.After.String()
		at, _ := strconv.ParseFloat(score, 64)
		if bound, err := strconv.ParseFloat(from, 64); err == nil && bound < at {
			after = "" // the page begins below it
		} else {
			from = score
		}
	}
	top, err := strconv.ParseFloat(from, 64)
	if err != nil {
		return nil, err
	}
	var lines []*line
	for _, s := range c.shards {
		l := &line{s: s, key: s.keys.Created(), from: top, min: least}
		if f.State == Active {
			l.key = s.keys.Active()
		}
		if after != "" { // of equal scores, those before it in the order of members come after it
			l.skip = map[string]bool{after: true}
			ties, err := c.rdb.Do(ctx, c.rdb.B().Zrange().Key(l.key).Min(from).Max(from).Byscore().Build()).AsStrSlice()
			if err != nil {
				return nil, err
			}
			for _, m := range ties {
				if m >= after {
					l.skip[m] = true
				}
			}
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// fill reads more of an index if nothing is queued of it.
func (l *line) fill(ctx context.Context) error {
	for len(l.queued) == 0 && !l.done {
		max := strconv.FormatFloat(l.from, 'f', -1, 64)
		list, err := l.s.c.rdb.Do(ctx, l.s.c.rdb.B().Zrange().Key(l.key).Min(max).Max(l.min).Byscore().Rev().Limit(0, int64(listPage+len(l.skip))).Withscores().Build()).AsZScores()
		if err != nil {
			return err
		}
		l.done = len(list) < listPage+len(l.skip)
		if len(list) == 0 {
			return nil
		}
		last := list[len(list)-1].Score
		fresh := slices.DeleteFunc(list, func(z rueidis.ZScore) bool { return l.skip[z.Member] })
		if last != l.from || l.skip == nil {
			l.from, l.skip = last, map[string]bool{}
		}
		for _, z := range fresh {
			if z.Score == l.from {
				l.skip[z.Member] = true
			}
		}
		l.queued = fresh
	}
	return nil
}

// nextPage takes the newest of all lines.
func nextPage(ctx context.Context, lines []*line) (page []Instance, err error) {
	for len(page) < listPage {
		var best *line
		for _, l := range lines {
			if err := l.fill(ctx); err != nil {
				return nil, err
			}
			if len(l.queued) == 0 {
				continue
			}
			if best == nil || newer(l.queued[0], best.queued[0]) {
				best = l
			}
		}
		if best == nil {
			return page, nil
		}
		page = append(page, ParseInstance(best.queued[0].Member))
		best.queued = best.queued[1:]
	}
	return page, nil
}

func newer(a, b rueidis.ZScore) bool {
	return a.Score > b.Score || a.Score == b.Score && a.Member > b.Member
}

// Infos are the documents of executions that are there, in the order asked for, of which each names its Execution. Each shard is sent one command.
func (c *Client) Infos(ctx context.Context, list []Instance) ([]Info, error) {
	out, err := c.documents(ctx, list)
	if err != nil {
		return nil, fmt.Errorf("workflow: read %d executions: %w", len(list), err)
	}
	return out, nil
}

func (c *Client) documents(ctx context.Context, list []Instance) ([]Info, error) {
	keysOf, at := make(map[*shard][]string), make(map[*shard][]int)
	for n, i := range list {
		s := c.of(i.ID)
		keysOf[s], at[s] = append(keysOf[s], s.keys.Document(i.ID, i.Execution)), append(at[s], n)
	}
	var cmds rueidis.Commands
	var order []*shard
	for s, names := range keysOf {
		cmds, order = append(cmds, c.rdb.B().Mget().Key(names...).Build()), append(order, s)
	}
	docs := make([]string, len(list))
	for n, r := range c.rdb.DoMulti(ctx, cmds...) {
		all, err := r.ToArray()
		if err != nil {
			return nil, err
		}
		for k := range all {
			docs[at[order[n]][k]], _ = all[k].ToString() // nil: expired, or removed since
		}
	}
	var out []Info
	for _, doc := range docs {
		if doc == "" {
			continue
		}
		info, err := decodeInfo(doc)
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	return out, nil
}
