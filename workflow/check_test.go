package workflow_test

import (
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// Each invariant that is broken by hand is found, and nothing before.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil []string // a command; keys begin with K:, ids of entries are made of E: and the key, I: is the instance and X: its execution
		want  string
	}{
		"document gone":         {[]string{"DEL", "K:doc:run:X:"}, "the document of execution"},
		"document of another":   {[]string{"SET", "K:doc:run:X:", `{"id":"run","execution":"other","queue":"q","state":"active"}`}, "its document says"},
		"document unreadable":   {[]string{"SET", "K:doc:run:X:", `{`}, "cannot be read"},
		"not in active":         {[]string{"DEL", "K:active"}, "is not in the index of active ones"},
		"not in created":        {[]string{"DEL", "K:created"}, "is not in the index"},
		"not in ended":          {[]string{"DEL", "K:ended"}, "has ended and is not in the index"},
		"not the newest":        {[]string{"SET", "K:last:run", "other"}, "is noted as the newest"},
		"run gone":              {[]string{"DEL", "K:run:run"}, "says that it is active"},
		"task gone":             {[]string{"DEL", "K:tasks:q"}, "its task is not entry"},
		"task forgotten":        {[]string{"HSET", "K:run:run", "e", ""}, "events and no task"},
		"task without events":   {[]string{"DEL", "K:in:run"}, "and no events"},
		"task of nobody":        {[]string{"XADD", "K:tasks:q", "*", "i", "nobody"}, "of instance nobody is wanted by nobody"},
		"activity gone":         {[]string{"DEL", "K:activities:q"}, "activity 1 is not entry"},
		"activity forgotten":    {[]string{"HDEL", "K:run:run", "a:1"}, "of instance run is wanted by nobody"},
		"timer gone":            {[]string{"DEL", "K:timers"}, "timer 2 is not in the set"},
		"timer forgotten":       {[]string{"HDEL", "K:run:run", "t:2"}, "is wanted by nobody"},
		"timer overdue":         {[]string{"ZADD", "K:timers", "1000", "2:X::run"}, "is due since 1970"},
		"events of nobody":      {[]string{"XADD", "K:in:nobody", "*", "e", "{}"}, "no execution is active"},
		"history gone":          {[]string{"DEL", "K:his:run:X:"}, "its last event has number 1, that of its history 0"},
		"history of nobody":     {[]string{"RPUSH", "K:his:nobody:x", "{}"}, "belongs to no document"},
		"newest of nobody":      {[]string{"SET", "K:last:nobody", "x"}, "the document of execution x is missing"},
		"active of nobody":      {[]string{"ZADD", "K:active", "1", "nobody:x"}, "nobody:x is not active"},
		"ended of nobody":       {[]string{"ZADD", "K:ended", "99999999999999", "nobody:x"}, "nobody:x has not ended, or was removed"},
		"created of nobody":     {[]string{"ZADD", "K:created", "1", "nobody:x"}, "nobody:x was removed"},
		"created at other time": {[]string{"ZADD", "K:created", "1", "run:X:"}, "not at 1"},
		"held, not paused":      {[]string{"XADD", "K:held:tasks:q", "*", "i", "run"}, "and the queue is not paused"},
		"outbox":                {[]string{"XADD", "K:out", "1-1", "s", "1", "1", "event", "2", "far"}, "message 1-1 (event for far) waits"},
		"outbox, no messages":   {[]string{"XADD", "K:out:dead", "*", "dead-reason", "failed"}, "holds 1 entries of the outbox that are no messages"},
		"gate of nobody":        {[]string{"ZADD", "K:gate:g", "0", ":x:nobody"}, "nobody:x is at the gate and not active"},
		"gate left":             {[]string{"DEL", "K:gate:g"}, "which does not know of it"},
		"gate by itself":        {[]string{"HDEL", "K:run:waits", "g"}, "by its own account false"},
		"gate with a place":     {[]string{"HSET", "K:gates", "g", "5"}, "1 of 5 are through, and 1 wait"},
		"limit of no gate":      {[]string{"HSET", "K:gates", "none", "5"}, "nobody is at gate none"},
		"foreign key":           {[]string{"SET", "K:what", "ever"}, "is not a key of Takt"},
		"foreign type":          {[]string{"LPUSH", "K:in:foreign", "x"}, "cannot be read"},
		"pending and deleted":   {[]string{"XDEL", "K:tasks:q", "E:tasks:q"}, "is with a worker and was deleted"},
		"worker gone":           {[]string{"DEL", "W:"}, "which is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "timer overdue" {
				long.Test(t, "compares times of the machine: a worker looks at timers, too")
			}
			t.Parallel()
			e := newEnv(t)
			e.broken = true
			w, _ := e.worker(workflow.WorkerOptions{Name: "w", Lease: hang, Drain: -1})
			e.begin("done")
			e.step(e.task(w), finished)
			e.begin("in", gate("g", 1))
			e.step(e.task(w))
			e.begin("waits", gate("g", 1))
			i := e.begin("run")
			e.step(e.task(w), schedules(1), timer(2, time.Hour))
			e.ok(e.Signal(e.ctx(), "run", event("S", 0)))
			e.task(w)
			e.check()
			for k, word := range c.spoil {
				word = strings.ReplaceAll(word, "X:", i.Execution)
				switch {
				case strings.HasPrefix(word, "K:"):
					word = e.key(word[2:])
				case strings.HasPrefix(word, "W:"):
					word = e.opts.Prefix + ":worker:w"
				case strings.HasPrefix(word, "E:"):
					first, err := e.do("XRANGE", e.key(word[2:]), "-", "+", "COUNT", "1").AsXRange()
					e.ok(err)
					word = first[0].ID
				}
				c.spoil[k] = word
			}
			e.ok(e.do(c.spoil...).Error())
			grace := grace
			if name == "worker gone" {
				grace = -time.Second
			}
			found, err := e.Check(e.ctx(), grace)
			e.ok(err)
			all := ""
			for _, v := range found {
				all += v.String() + "\n"
				if v.Key == "" || v.Problem == "" || v.Next == "" {
					t.Errorf("violation %+v", v)
				}
			}
			if !strings.Contains(all, c.want) {
				t.Errorf("found %q, want %q", all, c.want)
			}
		})
	}
}
