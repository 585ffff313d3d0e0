package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
)

// Filter says which tasks List is to list. The zero value is all that have not ended, and the dead.
type Filter struct {
	State State  // "" = all but done and cancelled, of which only results are left
	Queue Queue  // "" = all
	Name  string // of the type, "" = all
	Limit int    // tasks of one page, 1 to 500; 0 = 100
	After string // Page.Next of the page before; "" = from the beginning
}

// Page is one page of a list.
type Page struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"next,omitempty"` // for Filter.After; "" = this was the last
}

var entriesScript = script.LoadReader(files, "task/entries")

const (
	defaultLimit = 100
	maxLimit     = 500
	listCommands = 16 // after which a page reads no further
)

// List reads one page of tasks in a fixed order: queue by queue, oldest first; then delayed and blocked, by due time; dead, by when they died. It is no
// snapshot: a task that moves meanwhile may be listed twice or not at all. A page takes at most 19 commands and looks at up to 4,000 tasks, so with a filter it may be short or empty while Next is not "".
// Collected tasks are not listed, and those of an aggregate are listed as one.
func (c *Client) List(ctx context.Context, f Filter) (Page, error) {
	l, err := c.lister(f)
	if err != nil {
		return Page{}, err
	}
	if err := l.list(ctx); err != nil {
		return Page{}, fmt.Errorf("task: list: %w", err)
	}
	return Page{l.tasks, l.cursor()}, nil
}

// All lists page after page, until one fails.
func (c *Client) All(ctx context.Context, f Filter) iter.Seq2[Task, error] {
	return func(yield func(Task, error) bool) {
		for {
			page, err := c.List(ctx, f)
			if err != nil {
				yield(Task{}, err)
				return
			}
			for _, t := range page.Tasks {
				if !yield(t, nil) {
					return
				}
			}
			if f.After = page.Next; f.After == "" {
				return
			}
		}
	}
}

// lister is one page in the making. It goes through places: the queues, "delayed", "dead".
type lister struct {
	c      *Client
	f      Filter
	now    time.Time
	tasks  []Task
	places []string
	place  int    // index of the one that is read
	at     string // position in it, "" = its beginning

	commands int // that were sent to read places
}

func (c *Client) lister(f Filter) (*lister, error) {
	switch {
	case f.Limit < 0 || f.Limit > maxLimit:
		return nil, fmt.Errorf("task: Filter.Limit %d: want 1 to %d, 0 for %d", f.Limit, maxLimit, defaultLimit)
	case f.State == StateDone || f.State == StateCancelled:
		return nil, fmt.Errorf("task: Filter.State %q: of these only results are left, which are found by id", f.State)
	case f.State != "" && !slices.Contains([]State{StateWaiting, StateRunning, StateDelayed, StateBlocked, StateDead}, f.State):
		return nil, fmt.Errorf("task: Filter.State %q: want waiting, running, delayed, blocked, dead or nothing", f.State)
	}
	if f.Queue != "" {
		if err := f.Queue.validate(); err != nil {
			return nil, err
		}
	}
	f.Limit = cmp.Or(f.Limit, defaultLimit)
	return &lister{c: c, f: f}, nil
}

func (l *lister) list(ctx context.Context) error {
	if err := l.open(ctx); err != nil {
		return err
	}
	for l.place < len(l.places) && len(l.tasks) < l.f.Limit && l.commands < listCommands {
		more, err := l.read(ctx, l.places[l.place])
		if err != nil {
			return err
		}
		if !more {
			l.place, l.at = l.place+1, ""
		}
	}
	return nil
}

// open lists the places, and finds the one to go on at.
func (l *lister) open(ctx context.Context) (err error) {
	if l.now, err = l.c.Now(ctx); err != nil {
		return err
	}
	state := func(these ...State) bool { return l.f.State == "" || slices.Contains(these, l.f.State) }
	if state(StateWaiting, StateRunning) {
		all := []Queue{l.f.Queue}
		if l.f.Queue == "" {
			if all, err = l.c.queues(ctx); err != nil {
				return err
			}
		}
		for _, q := range all {
			l.places = append(l.places, string(q))
		}
	}
	if state(StateDelayed, StateBlocked) {
		l.places = append(l.places, "delayed")
	}
	if state(StateDead) {
		l.places = append(l.places, "dead")
	}
	if l.f.After == "" {
		return nil
	}
	at, place, ok := strings.Cut(l.f.After, " ")
	l.place = slices.Index(l.places, place)
	if !ok || l.place < 0 {
		return fmt.Errorf("task: Filter.After %q: want Page.Next of a list with the same filter", l.f.After)
	}
	l.at = at
	return nil
}

// cursor is where the next page begins: "POSITION PLACE".
func (l *lister) cursor() string {
	if l.place >= len(l.places) {
		return ""
	}
	return l.at + " " + l.places[l.place]
}

// read takes in a part of a place. more = there may be more.
func (l *lister) read(ctx context.Context, place string) (more bool, err error) {
	switch {
	case place == "delayed":
		return l.readSet(ctx, l.c.keys.TaskDelayed(), l.delayed)
	case place == "dead":
		return l.readSet(ctx, l.c.keys.TaskDeadIndex(), l.dead)
	case l.f.State == StateRunning:
		return l.readHeld(ctx, Queue(place))
	}
	return l.readQueue(ctx, Queue(place))
}

// take adds a task that the filter lets through. false = the page is full, and it was not looked at.
func (l *lister) take(t Task) bool {
	if len(l.tasks) >= l.f.Limit {
		return false
	}
	if (l.f.State == "" || t.State == l.f.State) && (l.f.Queue == "" || t.Queue == l.f.Queue) && (l.f.Name == "" || t.Name == l.f.Name) {
		l.tasks = append(l.tasks, t)
	}
	return true
}

// readQueue reads waiting and running tasks. Two round trips.
func (l *lister) readQueue(ctx context.Context, q Queue) (more bool, err error) {
	l.commands++
	page, err := l.c.entriesPage(ctx, q, l.from(), l.count())
	if err != nil || len(page) == 0 {
		return false, err
	}
	l.commands++
	holders, err := l.c.holders(ctx, l.c.keys.TaskStream(string(q)), page[0].ID, page[len(page)-1].ID, int64(len(page)))
	if err != nil {
		return false, err
	}
	by := make(map[string]held, len(holders))
	for _, h := range holders {
		by[h.entry] = h
	}
	for _, e := range page {
		t := inQueue(q, e.ID, e.FieldValues["data"])
		if h, ok := by[e.ID]; ok {
			t.heldBy(h, l.now)
		}
		if !l.take(t) {
			return true, nil
		}
		l.at = e.ID
	}
	return int64(len(page)) == l.count(), nil
}

// from is where to go on in a queue.
func (l *lister) from() string {
	if l.at == "" {
		return "-"
	}
	return "(" + l.at
}

// count is how much one command reads: with a filter that may be more than what is listed.
func (l *lister) count() int64 {
	if l.f.Name != "" || l.f.State != "" || l.f.Queue != "" {
		return maxLimit
	}
	return int64(l.f.Limit)
}

// readHeld reads running tasks only. Two round trips.
func (l *lister) readHeld(ctx context.Context, q Queue) (more bool, err error) {
	key := l.c.keys.TaskStream(string(q))
	l.commands++
	page, err := l.c.holders(ctx, key, l.from(), "+", l.count())
	if err != nil || len(page) == 0 {
		return false, err
	}
	ids := make([]string, len(page))
	for i, h := range page {
		ids[i] = h.entry
	}
	l.commands++
	messages, err := entriesScript.Run(ctx, l.c.rdb, []string{key}, ids...).AsStrSlice()
	if err != nil {
		return false, err
	}
	for i, raw := range messages[:min(len(messages), len(page))] {
		if raw != "" {
			t := inQueue(q, page[i].entry, raw)
			t.heldBy(page[i], l.now)
			if !l.take(t) {
				return true, nil
			}
		}
		l.at = page[i].entry
	}
	return int64(len(page)) == l.count(), nil
}

// readSet reads members of a sorted set in their order.
func (l *lister) readSet(ctx context.Context, key string, views func(context.Context, []rueidis.ZScore) ([]Task, error)) (more bool, err error) {
	at, err := parsePosition(l.at)
	if err != nil {
		return false, err
	}
	l.commands++
	page, err := l.c.setPage(ctx, key, at, l.count())
	if err != nil || len(page) == 0 {
		return false, err
	}
	l.commands++
	tasks, err := views(ctx, page)
	if err != nil {
		return false, err
	}
	for i, t := range tasks {
		if t.State != "" && !l.take(t) {
			return true, nil
		}
		at = at.behind(page[i].Score)
		l.at = at.String()
	}
	return int64(len(page)) == l.count(), nil
}

func (p position) String() string {
	return strconv.FormatFloat(p.score, 'f', -1, 64) + "+" + strconv.FormatInt(p.skip, 10)
}

func parsePosition(s string) (position, error) {
	if s == "" {
		return position{}, nil
	}
	score, skip, _ := strings.Cut(s, "+")
	f, failed := strconv.ParseFloat(score, 64)
	n, err := strconv.ParseInt(skip, 10, 64)
	if err = errors.Join(failed, err); err != nil || n < 1 {
		return position{}, fmt.Errorf("task: Filter.After: %q is no position", s)
	}
	return position{f, n}, nil
}

// delayed are the views of members of the delayed set. One round trip.
func (l *lister) delayed(ctx context.Context, page []rueidis.ZScore) ([]Task, error) {
	tasks, ids := make([]Task, len(page)), make([]string, len(page))
	for i, m := range page {
		tasks[i] = viewOf(m.Member)
		tasks[i].State, tasks[i].Due = StateDelayed, dueOf(m.Score)
		ids[i] = tasks[i].ID
	}
	members, err := l.c.rdb.Do(ctx, l.c.rdb.B().Hmget().Key(l.c.keys.TaskBlocked()).Field(ids...).Build()).ToArray()
	if err != nil {
		return nil, err
	}
	for i, m := range members {
		if s, err := m.ToString(); err == nil && s == tasks[i].raw {
			tasks[i].State = StateBlocked
		}
	}
	return tasks, nil
}

// dead are the views of dead letters; one that is gone meanwhile has no state. One round trip.
func (l *lister) dead(ctx context.Context, page []rueidis.ZScore) ([]Task, error) {
	letters, err := l.c.letters(ctx, page)
	if err != nil {
		return nil, err
	}
	tasks := make([]Task, len(page))
	for i, raw := range letters {
		if raw != "" {
			tasks[i] = ReadDeadLetter(page[i].Member, []byte(raw)).Task
		}
	}
	return tasks, nil
}

// letters reads the dead letters of a page of the index; "" = it is gone.
func (c *Client) letters(ctx context.Context, page []rueidis.ZScore) ([]string, error) {
	ids := make([]string, len(page))
	for i, m := range page {
		ids[i] = m.Member
	}
	raws, err := c.rdb.Do(ctx, c.rdb.B().Hmget().Key(c.keys.TaskDead()).Field(ids...).Build()).ToArray()
	if err != nil {
		return nil, err
	}
	all := make([]string, len(ids))
	for i := range min(len(raws), len(all)) {
		all[i], _ = raws[i].ToString() // nil: gone
	}
	return all, nil
}
