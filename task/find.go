package task

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/stream"
)

var peekScript = script.LoadReader(files, "task/peek")

const (
	peeked      = 100     // messages at each end of a queue
	mostScanned = 100_000 // messages that Find reads when it knows nothing but an id
	scanPage    = 500     // entries of one command
)

// Find says where a task is and what is known of it. With the queue and entry of its Ref that is one or two round trips. For an id alone it looks among results,
// dead letters and blocked tasks (one round trip), and then reads the queues and the delayed set in pages of 500, up to 100,000 messages: a round trip and about a
// millisecond of the server for each page. ErrNotFound: there is no such task, or not as far as was looked, which the text says then.
func (c *Client) Find(ctx context.Context, ref Ref) (Task, error) {
	return c.findAmong(ctx, ref, mostScanned)
}

func (c *Client) findAmong(ctx context.Context, ref Ref, most int) (Task, error) {
	if err := checkName("id", ref.ID); err != nil {
		return Task{}, err
	}
	if ref.Queue != "" {
		if err := ref.Queue.validate(); err != nil {
			return Task{}, err
		}
	}
	f := &finder{c: c, id: ref.ID, left: most}
	t, err := f.find(ctx, ref)
	if err != nil {
		return Task{}, fmt.Errorf("task: find %s: %w", ref.ID, err)
	}
	if t == nil {
		err := fmt.Errorf("%w: %s", ErrNotFound, ref.ID)
		if f.left == 0 {
			err = fmt.Errorf("%w among the %d messages that were looked at; give QUEUE/ENTRY/ID", err, most)
		}
		return Task{}, err
	}
	return *t, nil
}

// FindNear is Find with at most ten commands: it looks where the Ref says, among results, dead letters and blocked tasks, and at the 100 messages at either end of the queues and of the delayed
// set. ErrNotFound: the task is not there, but may be between these ends.
func (c *Client) FindNear(ctx context.Context, ref Ref) (Task, error) {
	if err := checkName("id", ref.ID); err != nil {
		return Task{}, err
	}
	f := &finder{c: c, id: ref.ID}
	var t *Task
	var err error
	if f.now, err = c.Now(ctx); err == nil {
		for _, look := range []func() (*Task, error){
			func() (*Task, error) { return f.at(ctx, ref) },
			func() (*Task, error) { return f.indexed(ctx) },
			func() (*Task, error) { return f.peek(ctx) },
		} {
			if t, err = look(); t != nil || err != nil {
				break
			}
		}
	}
	if err != nil {
		return Task{}, fmt.Errorf("task: find %s: %w", ref.ID, err)
	}
	if t == nil {
		return Task{}, fmt.Errorf("%w: %s", ErrNotFound, ref.ID)
	}
	return *t, nil
}

// peek looks at both ends of the places where a task waits. Two round trips, three if it is there.
func (f *finder) peek(ctx context.Context) (*Task, error) {
	tasks, err := f.c.peek(ctx, f.id, 10)
	for i := range tasks {
		switch t := &tasks[i]; {
		case !t.shows(f.id):
		case t.State == StateDelayed:
			return f.blocked(ctx, t)
		default:
			return f.held(ctx, t)
		}
	}
	return nil, err
}

// peek finds tasks whose messages hold a text, at both ends of the queues and of the delayed set: waiting, though a worker may hold one, and delayed, though one may be blocked. Two round trips.
func (c *Client) peek(ctx context.Context, text string, most int) (tasks []Task, err error) {
	all, err := c.queues(ctx)
	if err != nil {
		return nil, err
	}
	keys := []string{c.keys.TaskDelayed()}
	for _, q := range all {
		keys = append(keys, c.keys.TaskStream(string(q)))
	}
	finds, err := peekScript.Run(ctx, c.rdb, keys, text, strconv.Itoa(peeked), strconv.Itoa(most)).ToArray()
	for _, find := range finds {
		words, err := find.AsStrSlice()
		if err != nil {
			return nil, err
		}
		if at, _ := strconv.Atoi(words[0]); at > 1 {
			tasks = append(tasks, inQueue(all[at-2], words[1], words[2]))
			continue
		}
		score, err := strconv.ParseFloat(words[1], 64)
		if err != nil {
			return nil, err
		}
		t := viewOf(words[2])
		t.State, t.Due = StateDelayed, dueOf(score)
		tasks = append(tasks, t)
	}
	return tasks, err
}

// finder looks for one task.
type finder struct {
	c    *Client
	id   string
	now  time.Time
	left int // messages to read
}

// find goes through the places from the cheapest on. A task that moves while it is looked for is met in its next place: what comes into a queue after
// the queues were read is read at the end.
func (f *finder) find(ctx context.Context, ref Ref) (t *Task, err error) {
	if f.now, err = f.c.Now(ctx); err != nil {
		return nil, err
	}
	begun := strconv.FormatInt(f.now.UnixMilli(), 10)
	for _, look := range []func() (*Task, error){
		func() (*Task, error) { return f.at(ctx, ref) },
		func() (*Task, error) { return f.indexed(ctx) },
		func() (*Task, error) { return f.inQueues(ctx, "-") },
		func() (*Task, error) { return f.inSets(ctx) },
		func() (*Task, error) { return f.inQueues(ctx, begun) },
		func() (*Task, error) { return f.indexed(ctx) },
	} {
		if t, err = look(); t != nil || err != nil {
			break
		}
	}
	return t, err
}

// at looks where the reference says.
func (f *finder) at(ctx context.Context, ref Ref) (*Task, error) {
	switch {
	case ref.Queue == "":
		return nil, nil
	case ref.Entry != "":
		page, err := f.c.rdb.Do(ctx, f.c.rdb.B().Xrange().Key(f.c.keys.TaskStream(string(ref.Queue))).Start(ref.Entry).End(ref.Entry).Build()).AsXRange()
		if err != nil || len(page) == 0 {
			return nil, err
		}
		return f.entry(ctx, ref.Queue, page[0])
	case !ref.Due.IsZero():
		ms := float64(ref.Due.UnixMilli())
		members, err := f.c.rdb.Do(ctx, f.c.rdb.B().Zrange().Key(f.c.keys.TaskDelayed()).Min(seconds(ms-0.5)).Max(seconds(ms+0.5)).Byscore().Limit(0, scanPage).Withscores().Build()).AsZScores()
		if err != nil {
			return nil, err
		}
		for _, m := range members {
			if t := f.delayed(m.Member, m.Score); t != nil {
				return f.blocked(ctx, t)
			}
		}
	}
	return nil, nil
}

func seconds(ms float64) string { return strconv.FormatFloat(ms/1000, 'f', 4, 64) }

// entry is the task of an entry, if it is the one.
func (f *finder) entry(ctx context.Context, q Queue, e rueidis.XRangeEntry) (*Task, error) {
	raw := e.FieldValues["data"]
	if !strings.Contains(raw, f.id) {
		return nil, nil
	}
	t := inQueue(q, e.ID, raw)
	if !t.shows(f.id) {
		return nil, nil
	}
	return f.held(ctx, &t)
}

// held says which worker holds a task of a queue.
func (f *finder) held(ctx context.Context, t *Task) (*Task, error) {
	t.State = StateWaiting
	page, err := f.c.holders(ctx, f.c.keys.TaskStream(string(t.Queue)), t.Entry, t.Entry, 1)
	if err != nil {
		return nil, err
	}
	if len(page) == 1 {
		t.heldBy(page[0], f.now)
	}
	return t, nil
}

// delayed is the task of a member of the delayed set, if it is the one.
func (f *finder) delayed(member string, score float64) *Task {
	if !strings.Contains(member, f.id) {
		return nil
	}
	t := viewOf(member)
	if !t.shows(f.id) {
		return nil
	}
	t.State, t.Due = StateDelayed, dueOf(score)
	return &t
}

func dueOf(score float64) time.Time { return time.UnixMilli(int64(score*1000 + 0.5)).UTC() }

// blocked says so of a delayed task that waits for locks.
func (f *finder) blocked(ctx context.Context, t *Task) (*Task, error) {
	member, err := f.c.rdb.Do(ctx, f.c.rdb.B().Hget().Key(f.c.keys.TaskBlocked()).Field(t.ID).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, err
	}
	if err == nil && member == t.raw {
		t.State = StateBlocked
	}
	return t, nil
}

// indexed looks where an id leads to: result, dead letter, blocked task. A dead letter says more than a result. One round trip.
func (f *finder) indexed(ctx context.Context) (*Task, error) {
	k, b := f.c.keys, f.c.rdb.B()
	replies := f.c.rdb.DoMulti(ctx, b.Hget().Key(k.TaskDead()).Field(f.id).Build(), b.Get().Key(k.TaskResult(f.id)).Build(), b.Hget().Key(k.TaskBlocked()).Field(f.id).Build())
	var raw [3][]byte
	for i, r := range replies {
		var err error
		if raw[i], err = r.AsBytes(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, err
		}
	}
	switch {
	case raw[0] != nil:
		l, err := letterCodec.DecodeValue(raw[0])
		if err != nil {
			return nil, err
		}
		t := ofLetter(f.id, &l)
		return &t, nil
	case raw[1] != nil:
		t, err := ofResult(f.id, raw[1])
		return &t, err
	case raw[2] != nil:
		score, err := f.c.rdb.Do(ctx, b.Zscore().Key(k.TaskDelayed()).Member(rueidis.BinaryString(raw[2])).Build()).AsFloat64()
		if rueidis.IsRedisNil(err) {
			return nil, nil
		}
		if t := f.delayed(string(raw[2]), score); t != nil && err == nil {
			t.State = StateBlocked
			return t, nil
		}
		return nil, err
	}
	return nil, nil
}

// inQueues reads the streams, each from an entry on.
func (f *finder) inQueues(ctx context.Context, from string) (*Task, error) {
	if f.left == 0 {
		return nil, nil
	}
	all, err := f.c.queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range all {
		for next := from; f.left != 0; {
			page, err := f.c.entriesPage(ctx, q, next, f.most())
			if err != nil {
				return nil, err
			}
			for _, e := range page {
				if t, err := f.entry(ctx, q, e); t != nil || err != nil {
					return t, err
				}
			}
			if f.read(len(page)) {
				break
			}
			next = "(" + page[len(page)-1].ID
		}
	}
	return nil, nil
}

// most is how many messages the next command may read; read notes how many it did, and says whether there are no more.
func (f *finder) most() int64 { return int64(min(f.left, scanPage)) }

func (f *finder) read(n int) (last bool) {
	last = int64(n) < f.most()
	f.left -= n
	return last
}

// inSets reads the delayed set.
func (f *finder) inSets(ctx context.Context) (*Task, error) {
	for at := (position{}); f.left != 0; {
		page, err := f.c.setPage(ctx, f.c.keys.TaskDelayed(), at, f.most())
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			if t := f.delayed(m.Member, m.Score); t != nil {
				return f.blocked(ctx, t)
			}
			at = at.behind(m.Score)
		}
		if f.read(len(page)) {
			break
		}
	}
	return f.inCollections(ctx)
}

// inCollections reads what waits for others of its kind.
func (f *finder) inCollections(ctx context.Context) (t *Task, err error) {
	var names []string
	if err := f.c.zsetPairs(ctx, f.c.keys.TaskCollecting(), func(name, _ string) { names = append(names, name) }); err != nil {
		return nil, err
	}
	for _, name := range names {
		if f.left == 0 {
			return nil, nil
		}
		n := 0
		err := f.c.hashPairs(ctx, f.c.keys.TaskCollected(name), func(field, value string) {
			if _, err := strconv.Atoi(field); err != nil {
				return
			}
			n++
			if strings.Contains(value, f.id) {
				if one := viewOf(value); one.ID == f.id {
					one.State = StateCollected
					t = &one
				}
			}
		})
		if t != nil || err != nil {
			return t, err
		}
		f.left = max(f.left-n, 0)
	}
	return nil, nil
}

// entriesPage reads some entries of a queue, from one on.
func (c *Client) entriesPage(ctx context.Context, q Queue, from string, count int64) ([]rueidis.XRangeEntry, error) {
	return c.rdb.Do(ctx, c.rdb.B().Xrange().Key(c.keys.TaskStream(string(q))).Start(from).End("+").Count(count).Build()).AsXRange()
}

// holders lists who holds which entries of a range.
func (c *Client) holders(ctx context.Context, key, from, to string, count int64) ([]held, error) {
	page, err := parsePending(c.rdb.Do(ctx, c.rdb.B().Xpending().Key(key).Group(c.keys.TaskGroup()).Start(from).End(to).Count(count).Build()))
	if err != nil && stream.IsNoGroup(err) { // no worker has been there yet
		return nil, nil
	}
	return page, err
}

// position is a place in a sorted set: behind so many members of a score.
type position struct {
	score float64
	skip  int64
}

// setPage reads members of a sorted set in their order, from a position on. Members that come or go meanwhile shift only those of their own score.
func (c *Client) setPage(ctx context.Context, key string, at position, count int64) ([]rueidis.ZScore, error) {
	from := "-inf"
	if at.skip > 0 {
		from = strconv.FormatFloat(at.score, 'f', -1, 64)
	}
	return c.rdb.Do(ctx, c.rdb.B().Zrange().Key(key).Min(from).Max("+inf").Byscore().Limit(at.skip, count).Withscores().Build()).AsZScores()
}

func (p position) behind(score float64) position {
	if p.skip > 0 && p.score == score {
		return position{score, p.skip + 1}
	}
	return position{score, 1}
}

// Named says what has a name: exactly this one.
type Named struct {
	Task     bool // false, too, of one that only reading the queues would find
	Group    bool
	Schedule bool
}

// Named looks for the name of a task, a group or a schedule where a name leads to: results, dead letters, blocked tasks, and the place that a Ref says. It takes at most three round trips and
// eight commands; Find looks in the queues, too.
func (c *Client) Named(ctx context.Context, name string) (n Named, err error) {
	ref, err := ParseRef(name)
	if err != nil {
		return n, nil // no task can be called so, nor what is named as tasks are
	}
	b := c.rdb.B()
	f := &finder{c: c, id: ref.ID}
	t, err := f.at(ctx, ref)
	if t == nil && err == nil {
		t, err = f.indexed(ctx)
	}
	n.Task = t != nil
	if err != nil {
		return n, fmt.Errorf("task: look for %s: %w", ref.ID, err)
	}
	replies := c.rdb.DoMulti(ctx, b.Exists().Key(c.keys.GroupState(name)).Build(), b.Hexists().Key(c.keys.SchedulerEntries()).Field(name).Build())
	for i, to := range []*bool{&n.Group, &n.Schedule} {
		if *to, err = replies[i].AsBool(); err != nil {
			return n, fmt.Errorf("task: look for %s: %w", name, err)
		}
	}
	return n, nil
}
