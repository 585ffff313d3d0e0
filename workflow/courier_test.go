package workflow_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
)

// deaf is a connection on which nobody answers to what is for one shard, until open is closed.
type deaf struct {
	rueidis.Client
	hash, base string
	open       chan struct{}
}

func (d *deaf) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := cmd.Commands()
	if slices.Contains(words, d.hash) && slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, d.base) }) {
		select {
		case <-ctx.Done():
			return rueidis.NewErrorResult(context.Cause(ctx))
		case <-d.open:
		}
	}
	return d.Client.Do(ctx, cmd)
}

// Messages for a shard whose master does not answer do not keep those for other shards; they come once when it does.
func TestCourierPastADeadShard(t *testing.T) {
	t.Parallel()
	e := newEnv(t, shards(3))
	from, far, near := e.onShard(0, "from"), e.onShard(1, "far"), e.onShard(2, "near")
	d := &deaf{Client: e.srv.Connect(t, redis.Options{}), hash: workflow.Hashes()["act"], base: shardPrefix(e.opts.Prefix, 1), open: make(chan struct{})}
	w, _ := on(t, e.srv, d, e.opts).worker(workflow.WorkerOptions{})
	to := e.begin(far)
	e.step(e.task(w))
	e.begin(from)
	const n = 600 // more than are on their way at once, and read ahead
	task := e.task(w)
	e.step(task, func(cp *workflow.Checkpoint) {
		for k := range n {
			tells(to, event(fmt.Sprint("E", k), 0))(cp)
		}
	}, child(task, starting(near), 1))
	if task := e.task(w); task.ID != near {
		t.Fatalf("a task of %s", task.Instance)
	} else {
		e.step(task)
	}
	e.until("nothing but the others is on its way", func() bool { return e.stats().Outbox == n })
	close(d.open)
	got := map[string]int{}
	for len(got) < n {
		task := e.task(w)
		for _, event := range task.Events {
			got[event.Type]++
		}
		e.step(task)
	}
	for what, times := range got {
		if times != 1 {
			t.Errorf("%s came %d times", what, times)
		}
	}
	e.until("the outbox is empty", func() bool { return e.stats().Outbox == 0 })
}

// carries has an instance on one shard tell one on another something, and waits until that has it.
func (e *env) carries(w *workflow.Worker, from, to string) {
	e.t.Helper()
	good := e.begin(to)
	e.step(e.task(w))
	e.begin(from, func(s *workflow.Start) { s.Queue = "sender" })
	e.step(e.task(w, "sender"), tells(good, event("E", 1)))
	task := e.task(w)
	if types(task.Events) != "E/1" {
		e.t.Fatalf("events: %s", types(task.Events))
	}
	e.step(task)
}

// What is no message becomes a dead letter, as much as there is of it, and what comes behind it is carried. The log says so, and Check shows it.
func TestCourierPastWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	log := &testenv.Log{}
	e := newEnv(t, shards(2), func(o *workflow.Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
	from, to := e.onShard(0, "from"), e.onShard(1, "to")
	out := shardPrefix(e.opts.Prefix, 0) + ":workflow:out"
	none := [][]string{
		{"garbage", "1"},
		{"s", "1"},
		{"s", "one", "1", "event", "2", to, "3", "x", "4", "{}", "5", "0"},
		{"s", "-1", "1", "event", "2", to, "3", "x", "4", "{}", "5", "0"},
		{"s", "1", "1", "surprise", "2", to, "3", "x", "4", "{}", "5", "0"},
		{"s", "1", "1", "event", "2", to},
		{"s", "1", "1", "event", "2", to, "3", "x", "4", "{}", "six", "0"},
	}
	const n = 70 // more than are handled at once
	for k := range n {
		e.ok(e.do(append([]string{"XADD", out, "*"}, none[k%len(none)]...)...).Error())
	}
	w, _ := e.worker(workflow.WorkerOptions{})
	e.carries(w, from, to)
	e.until("all are dead letters", func() bool { return e.int("XLEN", out+":dead") == n && e.stats().Outbox == 0 })
	if got := log.Count("stream: entry moved to the dead letters"); got != n {
		t.Errorf("the log tells of %d dead letters, want %d", got, n)
	}
	if got := log.Count("stream: handler failed"); got != n {
		t.Errorf("%d tries, want one of each of %d", got, n)
	}
	if !e.finds(out+":dead", "holds 70 entries") {
		t.Error("Check does not find them")
	}
	e.ok(e.do("DEL", out+":dead").Error())
}

// A message for a shard that this process does not know of keeps no other from its shard, and stays in the outbox for those who know it.
func TestCourierPastUnknownShard(t *testing.T) {
	t.Parallel()
	log := &testenv.Log{}
	e := newEnv(t, shards(2), func(o *workflow.Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
	from, to := e.onShard(0, "from"), e.onShard(1, "to")
	out := shardPrefix(e.opts.Prefix, 0) + ":workflow:out"
	const n = 64 // as many as are handled at once
	for range n {
		e.ok(e.do("XADD", out, "*", "s", "2", "1", "release", "2", "g", "3", "0", "4", "a", "5", "x").Error())
	}
	w, stop := e.worker(workflow.WorkerOptions{})
	e.carries(w, from, to)
	e.until("only the others are left", func() bool { return e.stats().Outbox == n })
	stop()
	if got := log.Count("for a shard that there is not"); got != n {
		t.Errorf("the log tells of %d messages, want %d", got, n)
	}
	if got := e.stats().Outbox; got != n {
		t.Errorf("%d messages are left, want %d", got, n)
	}
	e.ok(e.do("DEL", out).Error())
}

// The dead letters of the outboxes are counted over all shards.
func TestCountDead(t *testing.T) {
	e := newEnv(t, shards(2))
	e.broken = true // Check reports them
	for _, shard := range []int{0, 1, 1} {
		e.srv.Must(t, "XADD", shardPrefix(e.opts.Prefix, shard)+":workflow:out:dead", "*", "dead-reason", "failed")
	}
	if n, err := e.CountDead(t.Context()); n != 3 || err != nil {
		t.Errorf("%d dead letters, %v", n, err)
	}
}
