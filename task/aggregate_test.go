package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

type note struct {
	User string
	N    int
}

func noteType(name string, a task.Aggregate[note], opts ...task.TypeOption) *task.Type[note, task.None] {
	if a.Key == nil {
		a.Key = func(n note) string { return n.User }
	}
	return task.Define[note, task.None](name, append([]task.TypeOption{a}, opts...)...)
}

// batches is a handler that hands what it gets to the test, as "user n n n".
func batches(ch chan<- string, do func([]*task.Job[note]) error) func(context.Context, []*task.Job[note]) error {
	return func(_ context.Context, jobs []*task.Job[note]) error {
		words := []string{jobs[0].Args.User}
		for _, j := range jobs {
			words = append(words, strconv.Itoa(j.Args.N))
		}
		ch <- strings.Join(words, " ")
		if do == nil {
			return nil
		}
		return do(jobs)
	}
}

// Many small tasks are handed over as one by key: when they are enough, when the first has waited long enough, or when no more come.
func TestAggregate(t *testing.T) {
	long.Test(t, "waits until tasks are handed over")
	for _, c := range []struct {
		name string
		a    task.Aggregate[note]
		want []string
	}{
		{"by size", task.Aggregate[note]{MaxSize: 2, MaxDelay: time.Hour}, []string{"ann 0 2", "bob 1 3"}},
		{"by delay", task.Aggregate[note]{MaxDelay: 2 * time.Second}, []string{"ann 0 2 4", "bob 1 3"}}, // a busy machine must submit all within it
		{"by grace", task.Aggregate[note]{MaxDelay: time.Hour, Grace: 2 * time.Second}, []string{"ann 0 2 4", "bob 1 3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			typ := noteType("note:Send", c.a)
			ch := make(chan string, 10)
			e.start(task.WorkerOptions{}, typ.HandleBatch(batches(ch, nil)))
			var args []note
			for i := range 5 {
				args = append(args, note{[]string{"ann", "bob"}[i%2], i})
			}
			handles := sendMany(e, typ, args, task.Keep(time.Minute))
			var got []string
			for range c.want {
				got = append(got, wait(t, "a batch", ch))
			}
			if slices.Sort(got); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			for i, h := range handles {
				if c.name == "by size" && i == 4 {
					continue // still waits for another
				}
				if _, err := h.Await(e.ctx()); err != nil {
					t.Errorf("member %d: %v", i, err)
				}
			}
			ended := int64(5)
			if c.name == "by size" {
				ended = 4
			}
			same(t, e.counter(task.Done, "note:Send"), ended)
			if n := e.number("ZCARD", e.key("tasks:collecting")); n != 5-ended || e.left() != 0 {
				t.Errorf("%d collections are left, %d tasks", n, e.left())
			}
		})
	}
}

// Members that do not fit one message together are handed over apart.
func TestAggregateOfLargeMembers(t *testing.T) {
	e := newEnv(t)
	c := e.connect(task.Options{MaxMessage: 1000})
	typ := noteType("note:Large", task.Aggregate[note]{Key: func(note) string { return "" }, MaxDelay: 200 * time.Millisecond})
	ch := make(chan string, 10)
	for i := range 5 {
		e.ok(errOf(typ.Submit(e.ctx(), c, note{strings.Repeat("x", 300), i})))
	}
	e.start(task.WorkerOptions{}, typ.HandleBatch(batches(ch, nil)))
	sizes := 0
	for sizes < 5 {
		n := len(strings.Fields(wait(t, "a batch", ch))) - 1
		if n > 2 {
			t.Errorf("%d members of 300 bytes in 1000", n)
		}
		sizes += n
	}
}

// Each member has its own end: those that a BatchError names are retried one by one, the others are done.
func TestAggregateMembersFailOneByOne(t *testing.T) {
	e := newEnv(t)
	typ := noteType("note:Some", task.Aggregate[note]{MaxSize: 4, MaxDelay: time.Hour}, task.Retry(task.Backoff{Base: time.Millisecond, Retries: 2}))
	ch := make(chan string, 20)
	e.start(task.WorkerOptions{}, typ.HandleBatch(batches(ch, func(jobs []*task.Job[note]) error {
		failed := &task.BatchError{Errs: map[int]error{}}
		for i, j := range jobs {
			switch {
			case j.Args.N == 1, j.Args.N == 2 && j.Attempt < 3:
				failed.Errs[i] = fmt.Errorf("attempt %d", j.Attempt)
			case j.Args.N == 3:
				failed.Errs[i] = task.Cancel(errors.New("hopeless"))
			}
		}
		if len(failed.Errs) == 0 {
			return nil
		}
		return failed
	})))
	handles := sendMany(e, typ, []note{{"a", 0}, {"a", 1}, {"a", 2}, {"a", 3}}, task.Keep(time.Minute))
	for i, want := range []string{"", "[errors.errorString] attempt 3", "", "[errors.errorString] hopeless"} {
		_, err := handles[i].Await(e.ctx())
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("member %d: %v, want %q", i, err, want)
		}
	}
	e.eventually("all have ended", func() bool { return e.left() == 0 })
	if done, dead, retried := e.counter(task.Done, "note:Some"), e.counter(task.Dead, "note:Some"), e.counter(task.Retried, "note:Some"); done != 2 || dead != 2 || retried != 4 {
		t.Errorf("%d done, %d dead, %d retried, want 2, 2, 4", done, dead, retried)
	}
	for i, h := range handles {
		if n := e.number("HEXISTS", e.key("tasks:dead"), h.ID); (n == 1) != (i == 1 || i == 3) {
			t.Errorf("member %d has %d dead letters", i, n)
		}
	}
}

// An error for all is retried together; at the end each member is a dead letter that stands for itself.
func TestAggregateFailsAsAWhole(t *testing.T) {
	e := newEnv(t)
	typ := noteType("note:All", task.Aggregate[note]{MaxSize: 3, MaxDelay: time.Hour}, task.Retry(task.Backoff{Base: time.Millisecond, Retries: 1}))
	ch := make(chan string, 20)
	e.start(task.WorkerOptions{}, typ.HandleBatch(batches(ch, func(jobs []*task.Job[note]) error { return errors.New("boom") })))
	handles := sendMany(e, typ, []note{{"a", 0}, {"a", 1}, {"a", 2}}, task.Keep(time.Minute))
	for i, h := range handles {
		var failed *task.Error
		if _, err := h.Await(e.ctx()); !errors.As(err, &failed) || failed.Message != "boom" {
			t.Errorf("member %d: %v", i, err)
		}
	}
	e.counts(3, "HLEN", e.key("tasks:dead"))
	if a, b := <-ch, <-ch; a != "a 0 1 2" || b != a || len(ch) != 0 {
		t.Errorf("it ran with %q and %q", a, b)
	}
	same(t, e.counter(task.Dead, "note:All"), 3)
}

// A member that is cancelled, late, or unreadable ends without the others.
func TestAggregateWithoutSome(t *testing.T) {
	e := newEnv(t)
	typ := noteType("note:Few", task.Aggregate[note]{MaxSize: 4, MaxDelay: time.Hour})
	ch := make(chan string, 20)
	var handles []*task.Handle[task.None]
	for i := range 3 {
		opts := []task.SubmitOption{task.Keep(time.Minute)}
		if i == 1 {
			opts = append(opts, task.Deadline(time.Now().Add(-time.Second)))
		}
		h := send(e, typ, note{"a", i}, opts...)
		handles = append(handles, h)
	}
	e.mark(handles[0].ID)
	broken, err := typ.Submit(e.ctx(), e.client, note{"b", 0}) // its bytes go into the place of the next of "a"
	e.ok(err)
	e.do("HSET", e.key("tasks:collected:note%3AFew:b"), "1", "\xc1 junk", "n", "1")
	e.do("ZADD", e.key("tasks:collecting"), "1", "note%3AFew:b")
	send(e, typ, note{"a", 3})
	e.start(task.WorkerOptions{}, typ.HandleBatch(batches(ch, nil)))
	same(t, wait(t, "a batch", ch), "a 2 3")
	for i, want := range []string{"cancelled", "timeout", ""} {
		_, err := handles[i].Await(e.ctx())
		var failed *task.Error
		if got := errors.As(err, &failed); got != (want != "") || got && failed.Type != want {
			t.Errorf("member %d: %v, want %q", i, err, want)
		}
	}
	e.eventually("the unreadable one is a dead letter", func() bool { return e.number("HLEN", e.key("tasks:dead")) == 2 })
	if n := e.number("HEXISTS", e.key("tasks:dead"), broken.ID); n != 0 || len(ch) != 0 {
		t.Errorf("the unreadable one has %d letters under the id of another, and %d more batches ran", n, len(ch))
	}
}

// What is not a collection is put off and named in the log; delayed tasks and other collections go on.
func TestBrokenCollectionsHoldUpNothing(t *testing.T) {
	e := newEnv(t)
	typ := noteType("note:Go", task.Aggregate[note]{MaxDelay: 50 * time.Millisecond})
	ch := make(chan string, 10)
	e.do("ZADD", e.key("tasks:collecting"), "1", "x:list", "2", "x:gone", "3", "x:empty")
	e.do("LPUSH", e.key("tasks:collected:x:list"), "foreign")
	e.do("HSET", e.key("tasks:collected:x:empty"), "queue", "normal:medium")
	e.start(task.WorkerOptions{}, typ.HandleBatch(batches(ch, nil)), Double.Handle(func(context.Context, *task.Job[double]) (int, error) { ch <- "double"; return 0, nil }))
	send(e, typ, note{"a", 1})
	same(t, wait(t, "the batch", ch), "a 1")
	e.counts(2, "ZCARD", e.key("tasks:collecting"))
	e.do("DEL", e.key("tasks:collecting"))
	e.do("LPUSH", e.key("tasks:collecting"), "foreign")
	send(e, Double, double{1}, task.In(time.Millisecond))
	wait(t, "the delayed task", ch)
	refused(t, "Submit into a key of another type", errOf(typ.Submit(e.ctx(), e.client, note{"a", 1})))
}

func TestAggregateRefusesWhatIsUnfit(t *testing.T) {
	e := newEnv(t)
	typ := noteType("note:Unfit", task.Aggregate[note]{})
	for _, c := range []struct {
		want string
		opt  task.SubmitOption
	}{
		{"In and At do not fit", task.In(time.Second)},
		{"UniqueKey does not fit", task.UniqueKey("k", 0)},
		{"priority and size are those of its type", task.Realtime},
	} {
		says(t, "", errOf(typ.Submit(e.ctx(), e.client, note{}, c.opt)), c.want)
	}
	says(t, "a key of 129 bytes", errOf(typ.Submit(e.ctx(), e.client, note{User: strings.Repeat("x", 129)})), "Aggregate.Key")
	says(t, "as a child", errOf(task.Spawn(e.ctx(), e.client, []task.Pending{typ.With(note{})}, Double.With(double{}))), "is aggregated")
	plain := typ.Handle(func(context.Context, *task.Job[note]) (task.None, error) { return task.None{}, nil })
	says(t, "a handler for one", errOf(e.client.Worker(task.WorkerOptions{}, plain)), "HandleBatch")
	for _, c := range []struct {
		want string
		def  func()
	}{
		{"MaxSize 1001", func() { noteType("x", task.Aggregate[note]{MaxSize: 1001}) }},
		{"MaxDelay", func() { noteType("x", task.Aggregate[note]{MaxDelay: -1}) }},
		{"Grace", func() { noteType("x", task.Aggregate[note]{Grace: -1}) }},
		{"not Unique", func() { noteType("x", task.Aggregate[note]{}, task.Unique(0)) }},
		{"no result", func() { task.Define[note, int]("x", task.Aggregate[note]{}) }},
		{"Aggregate is of a", func() { task.Define[double, task.None]("x", task.Positional(), task.Aggregate[note]{}) }},
	} {
		panics(t, c.want, c.def)
	}
}
