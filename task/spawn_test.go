package task_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
)

// Spawn whose answer was lost is repeated, and nothing is there twice.
func TestSpawnAgainAfterALostReply(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	const n = 700 // three pages
	f.spawn(0)    // so that the server knows the script: the lost reply is that of its run
	e.do("DEL", e.key("tasks:realtime:large"))
	for range 3 {
		c, proxy := e.behind()
		proxy.LoseReplies(1)
		refused(t, "Spawn says nothing of the lost reply", errOf(task.Spawn(e.ctx(), c, f.children(n), f.callback.With(double{n}), task.GroupID("g"))))
		c.Close()
	}
	g := f.spawn(n, task.GroupID("g"))
	if !g.Existing {
		t.Error("the group is new")
	}
	e.counts(n, "XLEN", e.key("tasks:normal:small"))
	var other *task.GroupExistsError
	if _, err := task.Spawn(e.ctx(), e.client, f.children(2), f.callback.With(double{}), task.GroupID("g")); !errors.As(err, &other) || other.Children != n {
		t.Errorf("another group of that id: %v", err)
	}
	f.start(nil)
	if got := wait(t, "the callback", f.fired); len(got) != n || got[n-1].Value != 2*(n-1) {
		t.Errorf("it saw %d results", len(got))
	}
	if fired, _ := f.quiet(); fired != 0 || f.runs.Load() != n {
		t.Errorf("%d more callbacks, %d runs", fired, f.runs.Load())
	}
}

// A crash after the first of several pages leaves a group that does not fire; the same Spawn completes it, also when all that was there has ended.
func TestSpawnAgainAfterTheFirstPage(t *testing.T) { testSpawnAgainAfterTheFirstPage(t, newEnv(t)) }

func testSpawnAgainAfterTheFirstPage(t *testing.T, e *env) {
	f := newFamily(e)
	const n = 600
	f.spawn(n, task.GroupID("g"))
	// As if the process had died after the first page.
	e.do("HSET", e.key("groups:g:state"), "sent", "256")
	entries, err := e.do("XRANGE", e.key("tasks:normal:small"), "-", "+").AsXRange()
	e.ok(err)
	for _, x := range entries[256:] {
		e.do("XDEL", e.key("tasks:normal:small"), x.ID)
	}
	f.start(nil)
	e.eventually("the first page has ended", func() bool { return e.number("GET", e.key("groups:g:remaining")) == n-256 })
	if len(f.fired) > 0 {
		t.Fatal("fired with children missing")
	}
	f.spawn(n, task.GroupID("g"))
	if got := wait(t, "the callback", f.fired); len(got) != n || slices.ContainsFunc(got, func(r task.Result[int]) bool { return r.Err != nil }) {
		t.Errorf("it saw %d results", len(got))
	}
	f.quiet()
	if f.runs.Load() != n {
		t.Errorf("%d runs, want %d", f.runs.Load(), n)
	}
}

func TestSpawnRefusesWhatIsUnfit(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	unique := task.Define[double, int]("group:Unique", task.Positional(), task.Unique(0))
	child, callback := f.child.With(double{}), f.callback.With(double{})
	for _, c := range []struct {
		want     string
		child    task.Pending
		callback task.Pending
		opts     []task.GroupOption
	}{
		{"child 0: ID and Key do not fit", f.child.With(double{}, task.ID("x")), callback, nil},
		{"child 0: group:Unique is unique", unique.With(double{}), callback, nil},
		{"child 0: an empty Pending", task.Pending{}, callback, nil},
		{"callback: an empty Pending", child, task.Pending{}, nil},
		{"callback: In and At do not fit", child, f.callback.With(double{}, task.In(time.Second)), nil},
		{"OnFailure: with OnAllDone", child, callback, []task.GroupOption{task.OnAllDone, task.OnFailure(child)}},
		{"OnFailure: In and At", child, callback, []task.GroupOption{task.OnFailure(f.child.With(double{}, task.In(1)))}},
		{"GroupTTL -1s", child, callback, []task.GroupOption{task.GroupTTL(-time.Second)}},
		{`GroupID "": want 1 to 128 bytes`, child, callback, []task.GroupOption{task.GroupID("")}},
		{"GroupID: 101 bytes", child, callback, []task.GroupOption{task.GroupID(strings.Repeat("x", 101))}},
		{`GroupPolicy "some"`, child, callback, []task.GroupOption{task.GroupPolicy("some")}},
		{"Inherit: want a handler's context", child, callback, []task.GroupOption{task.Inherit()}},
	} {
		says(t, "", errOf(task.Spawn(e.ctx(), e.client, []task.Pending{c.child}, c.callback, c.opts...)), c.want)
	}
	refused(t, "Spawn without a Client", errOf(task.Spawn(e.ctx(), nil, nil, callback)))
	keys, err := e.srv.AllKeys(e.ctx())
	if err != nil || len(keys) != 0 {
		t.Errorf("keys were written: %q, %v", keys, err)
	}
}
