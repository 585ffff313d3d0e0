package task_test

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/task"
)

// raw sends one command; keys are written without the prefix's colon, see key.
func (e *env) raw(args ...string) rueidis.RedisResult {
	e.t.Helper()
	return e.srv.Client.Do(context.Background(), e.srv.Client.B().Arbitrary(args...).Build())
}

func (e *env) key(rest string) string { return e.prefix + ":" + rest }

func (e *env) number(args ...string) int64 {
	e.t.Helper()
	n, err := e.raw(args...).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		e.t.Fatalf("%q: %v", args, err)
	}
	return n
}

func (e *env) text(args ...string) string {
	e.t.Helper()
	s, err := e.raw(args...).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		e.t.Fatalf("%q: %v", args, err)
	}
	return s
}

// soon polls until cond holds.
func (e *env) soon(what string, cond func() bool) {
	e.t.Helper()
	for end := time.Now().Add(patience); !cond(); {
		if time.Now().After(end) {
			e.t.Fatalf("not so in %v: %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// left is how many tasks are in all queues and the delayed set.
func (e *env) left() int64 {
	n := e.number("ZCARD", e.key("tasks:delayed"))
	for _, q := range task.Queues() {
		n += e.number("XLEN", e.key("tasks:"+string(q)))
	}
	return n
}

func (e *env) counter(kind task.Outcome, name string) int64 {
	return e.number("HGET", e.key("tasks:counters"), string(kind)+" type "+name)
}

// mark asks for the end of a task.
func (e *env) mark(id string) {
	e.raw("ZADD", e.key("tasks:cancelled"), strconv.FormatInt(time.Now().UnixMilli(), 10), id)
	e.raw("PUBLISH", e.key("tasks:control"), "")
}

// receive waits for something to happen in a handler.
func receive[T any](e *env, what string, ch <-chan T) T {
	e.t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		e.t.Fatalf("not so in %v: %s", patience, what)
		panic("unreachable")
	}
}
