package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/task/internal/wire"
)

var spawnScript = script.Load(files, "task/spawn")

// Pending is a task that is not submitted yet: a child of a group, or what a group ends with. Make it with Type.With.
type Pending struct {
	spec *spec
	make func(context.Context, *Client) (*submission, error)
}

// With binds arguments and options for Spawn. Group members get their ids from the group and are not unique, so ID, Key and UniqueKey do not fit them; children may be
// delayed, what follows a group may not. The result of a child is kept by its group, and beside that only with Keep.
func (t *Type[T, R]) With(args T, opts ...SubmitOption) Pending {
	return Pending{&t.spec, func(ctx context.Context, c *Client) (*submission, error) { return t.submission(ctx, c, args, opts) }}
}

// GroupPolicy says what follows when children of a group fail: are dead or cancelled. As an option of Spawn it sets the policy.
type GroupPolicy string

// Policies of groups.
const (
	// OnAllSuccess: when all children have ended, the callback runs if all of them are done, and the OnFailure task, if there is one, if not. The default.
	OnAllSuccess GroupPolicy = "all"
	// OnAllDone: when all children have ended, however, the callback runs.
	OnAllDone GroupPolicy = "done"
	// FailFast: as OnAllSuccess, but the first child that fails has the others cancelled and the OnFailure task run at once.
	FailFast GroupPolicy = "fast"
)

// GroupOption is an option of Spawn.
type GroupOption interface{ applyGroup(*grouping) }

type groupOption func(*grouping)

func (f groupOption) applyGroup(g *grouping) { f(g) }

func (p GroupPolicy) applyGroup(g *grouping) { g.policy = p }

// GroupID names the group, 1-100 bytes, without it the name is random. Spawn under the name of a group that exists adds what is missing of it and nothing else, so
// a Spawn whose outcome is not known, or that a crash cut short, is safe to repeat with the same children.
func GroupID(id string) GroupOption {
	return groupOption(func(g *grouping) { g.id, g.named = id, true })
}

// GroupTTL is how long a group is kept after the last end of a child, to within a 64th, and each child's result after that child's end; 0 = 24 h. A child that ends later
// ends as it does, and the callback never runs.
func GroupTTL(d time.Duration) GroupOption { return groupOption(func(g *grouping) { g.ttl = d }) }

// OnFailure is the task that runs in the callback's place after a failure. Its id is _GROUP:failure; it has GroupResults, too.
func OnFailure(p Pending) GroupOption { return groupOption(func(g *grouping) { g.failure = &p }) }

// Inherit, used by a child of a group for a group of its own, hands its place in the outer group on: the child does not count as ended when its handler
// returns, but when what follows the inner group (the callback or the OnFailure task) has ended; the callback's value is the child's result. So groups nest to
// any depth. If the inner group fails and has no OnFailure task, the child has failed. Should the child itself die or be cancelled after
// it, that counts. The inner group must not expire before it ends, or the outer one never ends. Without GroupID the inner group's id follows from that of the
// child, so that a child that runs again finds the group it made.
func Inherit() GroupOption { return groupOption(func(g *grouping) { g.inherit = true }) }

const (
	defaultGroupTTL = 24 * time.Hour
	maxGroupID      = 100 // bytes; the ids of children are longer, and have maxName
	maxChildren     = 1_000_000
	spawnPage       = 256 // children of one script
	spawnPages      = 16  // scripts of one pipeline
)

func childID(gid string, slot int) string { return ownName + gid + ":" + strconv.Itoa(slot) }
func callbackID(gid string) string        { return ownName + gid + ":callback" }
func failureID(gid string) string         { return ownName + gid + ":failure" }

// inheritID is the id of the group without a name that takes the place of a child.
func inheritID(child string) string { return digest([]byte("inherit " + child)) }

// grouping is one group on its way in.
type grouping struct {
	id      string
	named   bool
	policy  GroupPolicy
	ttl     time.Duration
	failure *Pending
	inherit bool
	outer   string // child whose place it takes; "" = none

	total    int
	callback message
	after    message // a failure; the zero value = none
	record   []byte
	children []message
}

// message is an encoded task and where it goes.
type message struct {
	queue Queue
	when  string // "" = now, else as spawn.lua wants it
	data  []byte
}

// Group is a group of tasks that was submitted.
type Group struct {
	ID       string
	Children int
	Existing bool // it was there before
	client   *Client
}

// GroupExistsError says that there is another group of that id: it has another number of children, or another child's place in an outer group.
type GroupExistsError struct {
	ID       string
	Children int
}

func (e *GroupExistsError) Error() string {
	return fmt.Sprintf("task: there is a group %q of %d children", e.ID, e.Children)
}

// ErrGroupGone: the group expired while its children were being added. GroupTTL is too short.
var ErrGroupGone = errors.New("task: the group expired while its children were added")

// Spawn submits children that belong together, and a callback that runs once, when all of them are done (see GroupPolicy); it finds their results with GroupResults. The ids of
// the children are _GROUP:0, _GROUP:1 and so on, that of the callback is _GROUP:callback. A group without children calls back at once. c may be nil in a handler: it is that
// of the worker. The group is written first, then the children in pages, one round trip for up to 256 and one more for each 4096: after an error
// of the connection some may be missing, and Spawn with the same GroupID and children adds them. Nothing is written if any of them is unfit.
// A group has seen each child's end once and for all: a dead child that is requeued later runs for itself, and one that is deleted while it waits leaves the group
// open until it expires.
func Spawn(ctx context.Context, c *Client, children []Pending, callback Pending, opts ...GroupOption) (*Group, error) {
	if c == nil {
		if c = ClientFrom(ctx); c == nil {
			return nil, errors.New("task: Spawn: the Client is missing")
		}
	}
	g := &grouping{policy: OnAllSuccess, total: len(children)}
	for _, o := range opts {
		o.applyGroup(g)
	}
	if err := g.complete(ctx); err != nil {
		return nil, err
	}
	if err := g.encode(ctx, c, children, callback); err != nil {
		return nil, err
	}
	existing, err := c.spawn(ctx, g)
	if err != nil {
		return nil, err
	}
	if g.inherit {
		running(ctx).handed.Store(true)
	}
	return &Group{ID: g.id, Children: g.total, Existing: existing, client: c}, nil
}

// complete fills in what options leave open, and checks them.
func (g *grouping) complete(ctx context.Context) error {
	switch {
	case g.policy != OnAllSuccess && g.policy != OnAllDone && g.policy != FailFast:
		return fmt.Errorf("task: GroupPolicy %q: want OnAllSuccess, OnAllDone or FailFast", string(g.policy))
	case g.policy == OnAllDone && g.failure != nil:
		return errors.New("task: OnFailure: with OnAllDone the callback follows failures, too")
	case g.ttl < 0 || g.ttl > 0 && g.ttl < time.Millisecond:
		return fmt.Errorf("task: GroupTTL %v: want at least a millisecond, 0 for %v", g.ttl, defaultGroupTTL)
	case g.total > maxChildren:
		return fmt.Errorf("task: a group of %d children: want at most %d", g.total, maxChildren)
	}
	g.ttl = cmp.Or(g.ttl, defaultGroupTTL)
	if r := running(ctx); g.inherit && (r == nil || !r.grouped() || r.msg.Meta.Slot == 0) {
		return errors.New("task: Inherit: want a handler's context, of a child of a group")
	}
	if !g.named {
		if g.id = newID(); g.inherit {
			g.id = inheritID(running(ctx).msg.ID)
		}
	}
	if len(g.id) > maxGroupID {
		return fmt.Errorf("task: GroupID: %d bytes, want at most %d", len(g.id), maxGroupID)
	}
	return checkName("GroupID", g.id)
}

// encode makes all messages.
func (g *grouping) encode(ctx context.Context, c *Client, children []Pending, callback Pending) error {
	after := wire.Labels{{Key: callbackLabel, Value: g.id}}
	var slot int64
	if g.inherit {
		outer := running(ctx)
		slot = outer.msg.Meta.Slot
		g.outer = childID(outer.msg.Labels.String(groupLabel), int(slot-1))
		after = append(after, wire.Label{Key: groupLabel, Value: outer.msg.Labels.String(groupLabel)})
	}
	s, err := callback.submission(ctx, c, callbackID(g.id), after, slot)
	if err != nil {
		return fmt.Errorf("task: callback: %w", err)
	}
	if g.callback, err = s.last(c, callback.spec); err != nil {
		return fmt.Errorf("task: callback: %w", err)
	}
	if g.record, err = (&wire.Callback{Class: callback.spec.name, Args: s.args}).Append(nil); err != nil {
		return fmt.Errorf("task: callback: %w", err)
	}
	if g.failure == nil && g.inherit && g.policy != OnAllDone {
		p := groupFailed.With(None{}, s.priority, s.size)
		g.failure = &p
	}
	if g.failure != nil {
		s, err := g.failure.submission(ctx, c, failureID(g.id), after, slot)
		if err == nil {
			g.after, err = s.last(c, g.failure.spec)
		}
		if err != nil {
			return fmt.Errorf("task: OnFailure: %w", err)
		}
	}
	own := wire.Labels{{Key: groupLabel, Value: g.id}}
	g.children = make([]message, len(children))
	for i, p := range children {
		s, err := p.submission(ctx, c, childID(g.id, i), own, int64(i)+1)
		if err == nil {
			if s.meta.Retention == 0 {
				s.meta.Retention = -1 // its group keeps it
			}
			g.children[i], err = s.message(c, p.spec)
		}
		if err != nil {
			return fmt.Errorf("task: child %d: %w", i, err)
		}
	}
	return nil
}

// submission makes and checks that of one member of a group.
func (p Pending) submission(ctx context.Context, c *Client, id string, own wire.Labels, slot int64) (*submission, error) {
	if p.make == nil {
		return nil, errors.New("an empty Pending: make it with Type.With")
	}
	s, err := p.make(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case s.key != "":
		return nil, errors.New("ID and Key do not fit: its id is that of its place in the group")
	case s.unique != "":
		return nil, fmt.Errorf("%s is unique: that does not fit, a group would wait for ever for a task that was refused", p.spec.name)
	case p.spec.aggregate != nil:
		return nil, fmt.Errorf("%s is aggregated: that does not fit", p.spec.name)
	}
	s.id, s.own, s.meta.Slot = id, own, slot
	return s, nil
}

func (s *submission) message(c *Client, t *spec) (m message, err error) {
	if s.delayed {
		s.meta.Enqueued = time.Now().UnixMilli()
	}
	m.queue, m.when = queueOf(s.priority, s.size), s.when()
	m.data, err = c.encode(t, s)
	return m, err
}

// last is the message of a task that follows a group.
func (s *submission) last(c *Client, t *spec) (message, error) {
	if s.delayed {
		return message{}, errors.New("In and At do not fit: it follows at once")
	}
	return s.message(c, t)
}

// spawn writes the group and its children, page by page.
func (c *Client) spawn(ctx context.Context, g *grouping) (existing bool, err error) {
	checked := make(map[Queue]bool)
	for _, m := range g.children {
		if checked[m.queue] {
			continue
		}
		checked[m.queue] = true
		if err := c.levels.check(ctx, c, m.queue); err != nil {
			return false, err
		}
	}
	pages, err := g.pages(ctx, c)
	if err != nil {
		return false, fmt.Errorf("task: spawn: %w", err)
	}
	word, err := spawned(g, spawnScript.Run(ctx, c.in, pages[0].Keys, pages[0].Args...))
	if err != nil {
		return false, err
	}
	for rest := pages[1:]; len(rest) > 0; rest = rest[min(spawnPages, len(rest)):] {
		for _, r := range spawnScript.RunMulti(ctx, c.in, rest[:min(spawnPages, len(rest))]) {
			if _, err := spawned(g, r); err != nil {
				return false, err
			}
		}
	}
	return word == "had", nil
}

// pages are the calls of spawn.lua, at least one.
func (g *grouping) pages(ctx context.Context, c *Client) ([]script.Call, error) {
	k, to := c.keys, c.targets()
	for _, m := range append([]message{g.callback}, g.children...) {
		if err := to.add(ctx, m.queue); err != nil {
			return nil, err
		}
	}
	head := []string{strconv.Itoa(g.total), ms(g.ttl), string(g.policy), rueidis.BinaryString(g.record),
		rueidis.BinaryString(g.callback.data), queueWord(g.callback.queue), rueidis.BinaryString(g.after.data), ""}
	if g.after.data != nil {
		head[7] = queueWord(g.after.queue)
	}
	keys := append([]string{k.GroupState(g.id), k.GroupDone(g.id), k.GroupRemaining(g.id), k.GroupCallback(g.id), k.TaskDelayed()}, to.keys...)
	var pages []script.Call
	for from := 0; from == 0 || from < len(g.children); from += spawnPage {
		page := g.children[from:min(from+spawnPage, len(g.children))]
		args := make([]string, 0, 11+3*len(page))
		if args = append(args, head...); from > 0 {
			copy(args[3:], []string{"", "", "", "", ""})
		}
		args = append(args, strconv.Itoa(from), g.outer, to.index(g.callback.queue))
		for _, m := range page {
			args = append(args, to.index(m.queue), m.when, rueidis.BinaryString(m.data))
		}
		pages = append(pages, script.Call{Keys: keys, Args: args})
	}
	return pages, nil
}

// spawned judges a reply of spawn.lua.
func spawned(g *grouping, r rueidis.RedisResult) (word string, err error) {
	reply, err := r.ToArray()
	if err != nil {
		return "", fmt.Errorf("task: spawn: %w", err)
	}
	if len(reply) > 0 {
		word, _ = reply[0].ToString()
	}
	switch {
	case word == "gone":
		return "", fmt.Errorf("%w: %s", ErrGroupGone, g.id)
	case len(reply) == 2 && (word == "new" || word == "had"):
		return word, nil
	case len(reply) == 2 && word == "other":
		n, _ := reply[1].AsInt64()
		return "", &GroupExistsError{ID: g.id, Children: int(n)}
	}
	return "", fmt.Errorf("task: spawn.lua replied %v", reply)
}

// groupFailed takes the place of an OnFailure task where there is none and an outer group must learn of the failure.
var groupFailed = Define[None, None]("takt:GroupFailed", Discard())

var groupFailedHandler = groupFailed.Handle(func(_ context.Context, j *Job[None]) (None, error) {
	return None{}, &GroupFailedError{ID: j.Labels[callbackLabel]}
})

// GroupFailedError is how a child has failed whose inner group, see Inherit, has failed.
type GroupFailedError struct{ ID string }

func (e *GroupFailedError) Error() string { return "task: children of group " + e.ID + " failed" }
