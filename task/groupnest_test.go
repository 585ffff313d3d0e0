package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
)

// A child that makes a group of its own hands its place on, to any depth: the outer callback runs after the inner one has ended.
func TestGroupsNest(t *testing.T) { testGroupsNest(t, newEnv(t)) }

func testGroupsNest(t *testing.T, e *env) {
	f := newFamily(e)
	tree := task.Define[double, int]("group:Tree", task.Positional(), task.Retry(task.Backoff{Base: time.Millisecond, Retries: 2}))
	sum := task.Define[double, int]("group:Sum", task.Positional())
	var again sync.Map
	f.e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 4, task.Medium: 4, task.Large: 1}}, append(f.handlers(nil),
		tree.Handle(func(ctx context.Context, j *task.Job[double]) (int, error) {
			if j.Args.N == 0 {
				return 1, nil
			}
			children := []task.Pending{tree.With(double{j.Args.N - 1}), tree.With(double{j.Args.N - 1})}
			if _, err := task.Spawn(ctx, nil, children, sum.With(double{}), task.Inherit()); err != nil {
				return 0, err
			}
			if _, second := again.LoadOrStore(j.ID, true); !second { // it runs again, and finds the group that it made
				return 0, errors.New("once more")
			}
			return -1000, nil // nobody sees it
		}),
		sum.Handle(func(ctx context.Context, j *task.Job[double]) (n int, err error) {
			results, err := task.GroupResults[int](ctx)
			for _, r := range results {
				v, err := r.Unwrap()
				if err != nil {
					return 0, err
				}
				n += v
			}
			return n, err
		}))...)
	g := spawn(e, []task.Pending{tree.With(double{3}), tree.With(double{2}), tree.With(double{0})}, f.callback.With(double{}))
	same(t, show(wait(t, "the outer callback", f.fired)), "8 4 1")
	if fired, _ := f.quiet(); fired != 0 {
		t.Errorf("%d more", fired)
	}
	if info := f.info(g); info.OK != 3 {
		t.Errorf("info %+v", info)
	}
	children, err := e.client.GroupChildren(e.ctx(), g.ID, 1, 10)
	e.ok(err)
	if len(children) != 2 || children[0].State != task.StateDone || children[1].Inner != nil {
		t.Fatalf("%+v", children)
	}
	inner := children[0].Inner
	if inner == nil || inner.Children != 2 || inner.OK != 2 || inner.Failed != 0 || inner.Fired != "callback" {
		t.Fatalf("the group in the place of a child: %+v", inner)
	}
	if info, err := e.client.Group(e.ctx(), inner.ID); err != nil || info.Outer != g.ChildID(1) {
		t.Errorf("info of the inner group: %+v, %v", info, err)
	}
}

// Two children cannot hand their places on to one group: the second is told.
func TestGroupTakesOnePlace(t *testing.T) {
	e := newEnv(t)
	f := newFamily(e)
	outer := task.Define[double, int]("group:Outer", task.Positional())
	e.start(task.WorkerOptions{}, append(f.handlers(nil), outer.Handle(func(ctx context.Context, j *task.Job[double]) (int, error) {
		_, err := task.Spawn(ctx, nil, f.children(1), f.callback.With(double{}), task.Inherit(), task.GroupID("same"))
		return 0, err
	}))...)
	spawn(e, []task.Pending{outer.With(double{}), outer.With(double{})}, f.callback.With(double{}), task.OnAllDone, task.GroupID("outer"))
	for wait(t, "the outer callback", f.infos).ID != "_outer:callback" {
	}
	results, err := task.GroupResultsOf[int](e.ctx(), e.client, "outer")
	got := strings.Fields(show(results))
	if slices.Sort(got); err != nil || !slices.Equal(got, []string{"1", "task.GroupExistsError"}) {
		t.Errorf("the outer group has %q, %v", got, err)
	}
}

// An inner group that fails is a child that failed, with an OnFailure task of its own or without.
func TestNestedGroupFails(t *testing.T) {
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprint("OnFailure ", own), func(t *testing.T) {
			e := newEnv(t)
			f := newFamily(e)
			outer := task.Define[double, int]("group:Outer", task.Positional())
			mend := task.Define[double, int]("group:Mend", task.Positional())
			e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 4, task.Medium: 4, task.Large: 1}}, append(f.handlers(func(context.Context, *task.Job[double]) (int, error) { return 0, errors.New("boom") }),
				outer.Handle(func(ctx context.Context, j *task.Job[double]) (int, error) {
					opts := []task.GroupOption{task.Inherit()}
					if own {
						opts = append(opts, task.OnFailure(mend.With(double{})))
					}
					_, err := task.Spawn(ctx, nil, f.children(2), f.callback.With(double{}), opts...)
					return 0, err
				}),
				mend.Handle(func(context.Context, *task.Job[double]) (int, error) { return 99, nil }))...)
			spawn(e, []task.Pending{outer.With(double{})}, f.callback.With(double{}), task.OnAllDone)
			want := "task.GroupFailedError"
			if own {
				want = "99"
			}
			same(t, show(wait(t, "the outer callback", f.fired)), want)
			f.quiet()
			if n := e.counter(task.Dead, "takt:GroupFailed"); (n == 0) != own {
				t.Errorf("%d markers of failure", n)
			}
		})
	}
}
