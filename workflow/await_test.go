package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// Await answers before, at and after the end, to all who wait, of the execution that was meant.
func TestAwait(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	_, _, err := e.Await(e.ctx(), workflow.Instance{ID: "a"})
	e.is(err, workflow.ErrNotFound)
	_, _, err = e.Await(e.ctx(), workflow.Instance{ID: "a", Execution: "never"})
	e.is(err, workflow.ErrNotFound)
	i := e.begin("a")
	far := e.other()
	waits := []<-chan told{e.await(e, i), e.await(far, i), e.await(far, workflow.Instance{ID: "a"}), e.await(e.other(), i)}
	e.until("three processes wait", func() bool {
		text, _ := e.do("HGET", e.key("run:a"), "w").ToString()
		return strings.Count(text, ",") == 2
	})
	e.step(e.task(w), finished)
	for _, ch := range waits {
		if got := <-ch; got.err != nil || got.info.Instance != i || got.info.Outcome != workflow.Completed || got.last.Type != "Started" {
			t.Errorf("told: %+v", got)
		}
	}
	e.begin("a") // another is active now
	if info, last := e.ended(i); info.Instance != i || last.Type != "Started" {
		t.Errorf("after the end: %+v, %+v", info, last)
	}
	e.step(e.task(w), finished)
}

// Who waits is told at once, also in other processes.
func TestAwaitIsTold(t *testing.T) {
	long.Test(t, "compares times of the machine")
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	far := e.other()
	testenv.OnceWithin(t, 800*time.Millisecond, func(try int) time.Duration { // else they look every second
		i := e.begin(fmt.Sprint("quick", try))
		waits := []<-chan told{e.await(far, i), e.await(e.other(), i)}
		e.until("two processes wait", func() bool {
			text, _ := e.do("HGET", e.key("run:"+i.ID), "w").ToString()
			return strings.Count(text, ",") == 1
		})
		begun := time.Now()
		e.step(e.task(w), finished)
		for _, ch := range waits {
			if got := <-ch; got.err != nil {
				t.Errorf("told: %+v", got)
			}
		}
		return time.Since(begun)
	})
}

// One that is removed while somebody waits, or whose wait ends, says so.
func TestAwaitEnds(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	i := e.begin("a")
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	ch := make(chan error, 1)
	go func() {
		_, _, err := e.Await(ctx, i)
		ch <- err
	}()
	e.until("somebody waits", func() bool { return e.int("HEXISTS", e.key("run:a"), "w") == 1 })
	cancel(gone)
	if err := <-ch; !errors.Is(err, gone) {
		t.Errorf("error %v", err)
	}
	told := e.await(e, i)
	e.ok(e.do("DEL", e.key("doc:"+i.String())).Error()) // as if it had expired before it was told
	if got := <-told; !errors.Is(got.err, workflow.ErrNotFound) {
		t.Errorf("told: %+v", got)
	}
	e.ok(e.do("FLUSHALL").Error())
	e.begin("b")
	e.step(e.task(w), finished)
}

// Without the push, the end is found by looking: the subscription is cut, and comes again.
func TestAwaitWithoutPush(t *testing.T) {
	long.Test(t, "breaks links")
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	for n := range 3 {
		i := e.begin(fmt.Sprint("a", n))
		told := e.await(e, i)
		e.until("subscriptions are cut", func() bool {
			return e.int("CLIENT", "KILL", "TYPE", "pubsub") > 0
		})
		e.step(e.task(w), finished)
		if got := <-told; got.err != nil || got.info.Outcome != workflow.Completed {
			t.Errorf("told: %+v", got)
		}
	}
	// And through a time without Redis.
	far, p := e.far()
	i := e.begin("b")
	told := e.await(far, i)
	p.Refuse(true)
	p.Cut()
	e.step(e.task(w), finished)
	p.Refuse(false)
	if got := <-told; got.err != nil || got.info.Outcome != workflow.Completed {
		t.Errorf("told: %+v", got)
	}
}

// Who gave up is not remembered for ever.
func TestAwaitMany(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	i := e.begin("a")
	for range 50 {
		c, err := workflow.New(e.srv.Client, e.opts)
		e.ok(err)
		ctx, cancel := context.WithCancel(e.ctx())
		before, _ := e.do("HGET", e.key("run:a"), "w").ToString()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, _, err := c.Await(ctx, i); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		e.until("it waits", func() bool { now, _ := e.do("HGET", e.key("run:a"), "w").ToString(); return now != before })
		cancel()
		<-done
		c.Close()
	}
	text, err := e.do("HGET", e.key("run:a"), "w").ToString()
	e.ok(err)
	if n := strings.Count(text, ",") + 1; n != 32 {
		t.Errorf("%d are noted", n)
	}
	told := e.await(e, i)
	e.ok(e.Terminate(e.ctx(), i, ""))
	if got := <-told; got.err != nil {
		t.Error(got.err)
	}
}

// After Close there is no push, and Await still finds the end.
func TestAwaitAfterClose(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w, _ := e.worker(workflow.WorkerOptions{})
	c, err := workflow.New(e.srv.Client, e.opts)
	e.ok(err)
	c.Close()
	i := e.begin("a")
	done := make(chan error, 1)
	go func() {
		_, _, err := c.Await(e.ctx(), i)
		done <- err
	}()
	e.step(e.task(w), finished)
	e.ok(<-done)
}
