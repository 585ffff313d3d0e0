package task_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
)

// family is a type of children, one of callbacks and one for failures, with handlers that tests steer.
type family struct {
	e        *env
	child    *task.Type[double, int]
	callback *task.Type[double, int]
	failure  *task.Type[double, int]
	runs     atomic.Int64
	fired    chan []task.Result[int] // one for each run of the callback
	failed   chan []task.Result[int] // one for each run of the OnFailure task
	infos    chan task.Info
}

func newFamily(e *env, opts ...task.TypeOption) *family {
	return &family{
		e:        e,
		child:    task.Define[double, int]("group:Child", append([]task.TypeOption{task.Positional(), task.Small}, opts...)...),
		callback: task.Define[double, int]("group:Callback", task.Positional(), task.Realtime, task.Large),
		failure:  task.Define[double, int]("group:Failure", task.Positional(), task.Background, task.Small),
		fired:    make(chan []task.Result[int], 100), failed: make(chan []task.Result[int], 100), infos: make(chan task.Info, 100),
	}
}

// handlers are those of the family; a child does what do says, its argument doubled if do is nil.
func (f *family) handlers(do func(context.Context, *task.Job[double]) (int, error)) []task.Handler {
	after := func(ch chan []task.Result[int]) func(context.Context, *task.Job[double]) (int, error) {
		return func(ctx context.Context, j *task.Job[double]) (int, error) {
			f.infos <- j.Info
			results, err := task.GroupResults[int](ctx)
			if err != nil {
				f.e.t.Errorf("GroupResults: %v", err)
			}
			ch <- results
			return len(results), nil
		}
	}
	return []task.Handler{
		f.child.Handle(func(ctx context.Context, j *task.Job[double]) (int, error) {
			f.runs.Add(1)
			if do == nil {
				return 2 * j.Args.N, nil
			}
			return do(ctx, j)
		}),
		f.callback.Handle(after(f.fired)), f.failure.Handle(after(f.failed)),
	}
}

func (f *family) start(do func(context.Context, *task.Job[double]) (int, error)) (stop func()) {
	_, stop = f.e.start(task.WorkerOptions{}, f.handlers(do)...)
	return stop
}

func (f *family) children(n int, opts ...task.SubmitOption) []task.Pending {
	all := make([]task.Pending, n)
	for i := range all {
		all[i] = f.child.With(double{i}, opts...)
	}
	return all
}

func (f *family) spawn(n int, opts ...task.GroupOption) *task.Group {
	f.e.t.Helper()
	return spawn(f.e, f.children(n), f.callback.With(double{n}), opts...)
}

// spawn submits a group and fails the test if that fails.
func spawn(e *env, children []task.Pending, callback task.Pending, opts ...task.GroupOption) *task.Group {
	e.t.Helper()
	g, err := task.Spawn(e.ctx(), e.client, children, callback, opts...)
	e.ok(err)
	return g
}

// quiet waits until no task is left, and says what followed: how often the callback ran, and the OnFailure task.
func (f *family) quiet() (fired, failed int) {
	f.e.t.Helper()
	f.e.eventually("no task is left", func() bool { return f.e.left() == 0 })
	return len(f.fired), len(f.failed)
}

func (f *family) info(g *task.Group) task.GroupInfo {
	f.e.t.Helper()
	info, err := g.Info(f.e.ctx())
	testenv.Must(f.e.t, err)
	return info
}

// show is results as text: values, and E for an error.
func show(results []task.Result[int]) string {
	var words []string
	for _, r := range results {
		if r.Err != nil {
			words = append(words, r.Err.Type)
		} else {
			words = append(words, strconv.Itoa(r.Value))
		}
	}
	return strings.Join(words, " ")
}
