package task_test

import (
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/task"
)

func (e *env) text(args ...string) string {
	e.t.Helper()
	s, err := e.do(args...).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		e.t.Fatalf("%q: %v", args, err)
	}
	return s
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
	e.do("ZADD", e.key("tasks:cancelled"), strconv.FormatInt(time.Now().UnixMilli(), 10), id)
	e.do("PUBLISH", e.key("tasks:control"), "")
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
