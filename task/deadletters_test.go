package task_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/internal/wire"
)

// flaky fails until it is mended.
type flaky struct {
	typ    *task.Type[double, int]
	mended atomic.Bool
	runs   atomic.Int64
}

func newFlaky(opts ...task.TypeOption) *flaky {
	return &flaky{typ: task.Define[double, int]("test:Mend", append([]task.TypeOption{task.Positional(), task.Retry(task.Backoff{Base: time.Millisecond, Retries: 1, Exact: true})}, opts...)...)}
}

func (f *flaky) handler() task.Handler {
	return f.typ.Handle(func(_ context.Context, j *task.Job[double]) (int, error) {
		f.runs.Add(1)
		if !f.mended.Load() {
			return 0, fmt.Errorf("attempt %d of %d", j.Attempt, j.Args.N)
		}
		return j.Attempt, nil
	})
}

// dead submits tasks with these numbers and waits until they are dead.
func (f *flaky) dead(e *env, opts []task.SubmitOption, numbers ...int) (handles []*task.Handle[int]) {
	e.t.Helper()
	for _, n := range numbers {
		handles = append(handles, send(e, f.typ, double{n}, opts...))
	}
	for _, h := range handles {
		var failed *task.Error
		if _, err := h.Await(e.ctx()); !errors.As(err, &failed) {
			e.t.Fatal(err)
		}
	}
	return handles
}

// A dead letter says what happened, and its requeued task has the same id, its history and all attempts.
func TestDeadLetterLives(t *testing.T) { testDeadLetterLives(t, newEnv(t)) }

func testDeadLetterLives(t *testing.T, e *env) {
	f := newFlaky()
	e.start(task.WorkerOptions{ID: "w"}, f.handler())
	before, err := e.client.Now(e.ctx())
	e.ok(err)
	h := f.dead(e, []task.SubmitOption{task.ID("order-1"), task.WithLabels(map[string]string{"a": "b"})}, 7)[0]
	dead := e.client.DeadLetters()
	l, err := dead.Show(e.ctx(), h.ID)
	e.ok(err)
	if l.ID != h.ID || l.Name != "test:Mend" || l.Reason != "errors.errorString" || l.Error.Message != "attempt 2 of 7" || !l.Readable ||
		l.Queue != "normal:medium" || string(l.Args) != "[7]" || l.Labels["a"] != "b" || l.Worker != "w" || l.State != task.StateDead {
		t.Errorf("%+v", l)
	}
	if len(l.History) != 2 || l.History[0].Error != "attempt 1 of 7" || l.History[1].Attempt != 2 {
		t.Errorf("history %+v", l.History)
	}
	if l.Enqueued.Before(before.Add(-time.Second)) || l.Died.Before(l.Enqueued.Add(-time.Second)) {
		t.Errorf("enqueued %v, died %v", l.Enqueued, l.Died)
	}
	f.mended.Store(true)
	if n, err := dead.Requeue(e.ctx(), h.ID); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	returned(e, h, 1)
	if n, err := dead.Requeue(e.ctx(), h.ID); n != 0 || !errors.Is(err, task.ErrNotFound) {
		t.Errorf("again: %d %v", n, err)
	}
	if r := e.healthy(0); r.Dead != 0 || r.Unfinished() != 0 {
		t.Errorf("%+v", r)
	}
}

// A task that dies again keeps the failures of both lives, and each life has all its attempts.
func TestDeadAgain(t *testing.T) {
	e := newEnv(t)
	f := newFlaky()
	e.start(task.WorkerOptions{}, f.handler())
	h := f.dead(e, nil, 1)[0]
	dead := e.client.DeadLetters()
	e.ok(errOf(dead.Requeue(e.ctx(), h.ID)))
	e.eventually("it died again", func() bool {
		l, err := dead.Show(e.ctx(), h.ID)
		return err == nil && len(l.History) == 4
	})
	if n := f.runs.Load(); n != 4 {
		t.Errorf("%d runs", n)
	}
}

// The reason is the type of the error, not that of what fmt.Errorf puts around it.
func TestReasonOfAWrappedError(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[int, int]("test:Open")
	e.start(task.WorkerOptions{}, typ.Handle(func(context.Context, *task.Job[int]) (int, error) {
		return 0, fmt.Errorf("read the plan: %w", fmt.Errorf("try: %w", &os.PathError{Op: "open", Path: "plan", Err: os.ErrNotExist}))
	}))
	h := send(e, typ, 1)
	refused(t, "no error", errOf(h.Await(e.ctx())))
	l, err := e.client.DeadLetters().Show(e.ctx(), h.ID)
	if err != nil || l.Reason != "fs.PathError" || l.Error.Message != "read the plan: try: open plan: file does not exist" {
		t.Errorf("%q, %+v, %v", l.Reason, l.Error, err)
	}
}

// Many operators, one requeue: each letter is claimed once.
func TestRequeueByMany(t *testing.T) {
	e := newEnv(t)
	f := newFlaky()
	_, stop := e.start(task.WorkerOptions{}, f.handler())
	handles := f.dead(e, nil, 1, 2, 3, 4, 5, 6, 7, 8)
	stop()
	var total atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			n, err := task.RequeueAll(e.ctx(), e.client.DeadLetters(), task.DeadFilter{})
			total.Add(int64(n))
			if err != nil && !errors.Is(err, task.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if total.Load() != int64(len(handles)) || e.number("XLEN", e.keys().TaskStream("normal:medium")) != int64(len(handles)) {
		t.Errorf("%d requeued of %d", total.Load(), len(handles))
	}
	e.healthy(0)
}

func TestDeadLettersList(t *testing.T) {
	e := newEnv(t)
	f, other := newFlaky(), task.Define[double, int]("test:Other", task.Positional(), task.Large)
	e.start(task.WorkerOptions{}, f.handler(), other.Handle(func(context.Context, *task.Job[double]) (int, error) { panic("other") }))
	f.dead(e, nil, 1, 2, 3, 4, 5)
	h := send(e, other, double{9})
	refused(t, "done", errOf(h.Await(e.ctx())))
	dead := e.client.DeadLetters()
	list := func(f task.DeadFilter) (ids []string) {
		for {
			page, err := dead.List(e.ctx(), f)
			testenv.Must(t, err)
			for _, l := range page.Letters {
				ids = append(ids, l.ID)
			}
			if f.After = page.Next; f.After == "" {
				return ids
			}
		}
	}
	all := list(task.DeadFilter{})
	if len(all) != 6 || all[5] != h.ID {
		t.Fatalf("%q", all)
	}
	for _, limit := range []int{1, 2, 3, 500} {
		for _, c := range []struct {
			f    task.DeadFilter
			want []string
		}{
			{task.DeadFilter{}, all},
			{task.DeadFilter{Name: "test:Other"}, all[5:]},
			{task.DeadFilter{Name: "test:Mend"}, all[:5]},
			{task.DeadFilter{Queue: "normal:large"}, all[5:]},
			{task.DeadFilter{Reason: "task.PanicError"}, all[5:]},
			{task.DeadFilter{Reason: "nothing"}, nil},
			{task.DeadFilter{Until: time.UnixMilli(1)}, nil},
			{task.DeadFilter{Since: time.Now().Add(time.Hour)}, nil},
			{task.DeadFilter{Since: time.UnixMilli(1), Until: time.Now().Add(time.Hour)}, all},
		} {
			c.f.Limit = limit
			if got := list(c.f); !slices.Equal(got, c.want) {
				t.Errorf("%+v: %q, want %q", c.f, got, c.want)
			}
		}
	}
	l, err := dead.Show(e.ctx(), h.ID)
	if err != nil || !strings.Contains(l.Error.Traceback, "deadletters_test.go") {
		t.Errorf("the stack of a panic is missing: %+v %v", l.Error, err)
	}
	if n, err := task.DeleteAll(e.ctx(), dead, task.DeadFilter{Name: "test:Mend"}); n != 5 || err != nil {
		t.Errorf("%d deleted, %v", n, err)
	}
	if n, err := dead.Delete(e.ctx(), h.ID, "nobody"); n != 1 || err != nil {
		t.Errorf("%d deleted, %v", n, err)
	}
	if r := e.healthy(0); r.Dead != 0 {
		t.Errorf("%+v", r)
	}
	for _, f := range []task.DeadFilter{{Limit: -1}, {Limit: 501}, {After: "x"}} {
		says(t, f, errOf(dead.List(e.ctx(), f)), "Filter.")
	}
}

// What cannot be read is shown in hex and deleted, and not requeued.
func TestDeadUnreadable(t *testing.T) {
	e := newEnv(t)
	e.do("XADD", e.keys().TaskStream("normal:small"), "1-1", "data", "junk")
	e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 1}})
	dead := e.client.DeadLetters()
	const id = "_raw:normal:small:1-1"
	var l task.DeadLetter
	e.eventually("it is a dead letter", func() (ok bool) {
		var err error
		l, err = dead.Show(e.ctx(), id)
		return err == nil
	})
	if l.Readable || l.Raw != "6a756e6b" || l.Reason != "undecodable" || l.ID != id || l.Queue != "normal:small" {
		t.Errorf("%+v", l)
	}
	var r *task.RequeueError
	if n, err := dead.Requeue(e.ctx(), id); n != 0 || !errors.Is(err, task.ErrUnreadable) || !errors.As(err, &r) || r.ID != id {
		t.Errorf("%d %v", n, err)
	}
	e.healthy(0)
	if n, err := dead.Delete(e.ctx(), id); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if _, err := dead.Show(e.ctx(), id); !errors.Is(err, task.ErrNotFound) {
		t.Error(err)
	}
}

// bury puts a message among the dead letters, by a worker that does not know it.
func (e *env) bury(m wire.Message) {
	e.t.Helper()
	m.Meta.Unknown = 1 << 20
	e.do("XADD", e.keys().TaskStream("normal:small"), "*", "data", message(e.t, m))
	_, stop := e.start(task.WorkerOptions{Concurrency: map[task.Size]int{task.Small: 1}})
	e.eventually("it is dead", func() bool { _, err := e.client.DeadLetters().Show(e.ctx(), m.ID); return err == nil })
	stop()
}

// A requeued task holds its unique key again; if another does, it stays where it is.
func TestRequeueOfUnique(t *testing.T) {
	e := newEnv(t)
	k := e.keys()
	e.bury(wire.Message{ID: "a", Name: "n", Meta: wire.Meta{Unique: "u", Deadline: 5, Start: "s", Snoozes: 3}})
	dead := e.client.DeadLetters()
	e.do("SET", k.TaskUnique("u"), "b")
	var d *task.DuplicateError
	if n, err := dead.Requeue(e.ctx(), "a"); n != 0 || !errors.As(err, &d) || d.ID != "b" || d.Key != "u" {
		t.Errorf("%d %v", n, err)
	}
	e.do("DEL", k.TaskUnique("u"))
	e.do("ZADD", k.TaskCancelled(), "1", "a")
	e.do("HSET", k.TaskKnown("id:a"), "id", "a", "entry", "1-1", "due", "")
	if n, err := dead.Requeue(e.ctx(), "a"); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if holder, _ := e.do("GET", k.TaskUnique("u")).ToString(); holder != "a" {
		t.Errorf("held by %q", holder)
	}
	if ttl := e.number("PTTL", k.TaskUnique("u")); ttl <= 0 {
		t.Errorf("its key lives %d ms", ttl)
	}
	e.counts(0, "ZCARD", k.TaskCancelled())
	got := e.find(task.Ref{ID: "a"})
	if entry, _ := e.do("HGET", k.TaskKnown("id:a"), "entry").ToString(); entry != got.Entry {
		t.Errorf("known at %s, is at %s", entry, got.Entry)
	}
	if got.State != task.StateWaiting || !got.Deadline.IsZero() || got.Snoozes != 0 || got.Unknown != 0 {
		t.Errorf("%+v", got)
	}
}

// A letter leaves Redis once another store has it, and only as it was handed over.
func TestMoveLetters(t *testing.T) {
	e := newEnv(t)
	f := newFlaky()
	_, stop := e.start(task.WorkerOptions{}, f.handler())
	f.dead(e, nil, 1, 2, 3)
	stop()
	dead := e.client.DeadLetters()
	away := errors.New("away")
	if n, err := dead.Move(e.ctx(), 2, func(context.Context, []task.DeadLetter) error { return away }); n != 0 || !errors.Is(err, away) {
		t.Errorf("%d %v", n, err)
	}
	var moved []task.DeadLetter
	n, err := dead.Move(e.ctx(), 2, func(_ context.Context, some []task.DeadLetter) error {
		moved = some
		e.do("HSET", e.keys().TaskDead(), some[0].ID, "changed")
		return nil
	})
	if n != 1 || err != nil || len(moved) != 2 {
		t.Errorf("%d %v of %d", n, err, len(moved))
	}
	if l, err := dead.Show(e.ctx(), moved[0].ID); err != nil || l.Readable {
		t.Errorf("the one that changed: %v", err)
	}
	first, err := e.client.Resubmit(e.ctx(), moved[1])
	e.ok(err)
	again, err := e.client.Resubmit(e.ctx(), moved[1])
	if err != nil || again != first || first.ID != moved[1].ID || e.number("XLEN", e.keys().TaskStream("normal:medium")) != 1 {
		t.Errorf("%v %v %v", first, again, err)
	}
	e.do("ZADD", e.keys().TaskDeadIndex(), "1", "lost")
	if n, err := dead.Move(e.ctx(), 1, func(context.Context, []task.DeadLetter) error { return nil }); n != 0 || err != nil || e.number("ZCARD", e.keys().TaskDeadIndex()) != 2 {
		t.Errorf("%d %v", n, err)
	}
	for _, n := range []int{0, 501} {
		if _, err := dead.Move(e.ctx(), n, nil); err == nil {
			t.Errorf("Move of %d", n)
		}
	}
}
