package workflow_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
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
