package jobstore

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// What is remembered of running orders stays within its memory, whatever they are made of, and none of them takes the place of many.
func TestRecallIsBounded(t *testing.T) {
	const limit = recallBytes / 4
	elements := func(n int, element string) string { return "[" + strings.Repeat(element+",", n) + element + "]" }
	random := make([]byte, 1000)
	for i := range random {
		random[i] = 'a' + byte(rand.N(26))
	}
	for name, c := range map[string]struct{ order, result string }{
		"small":          {`"JobOrderParameters": [{"ID": "force", "Value": 12.5}]`, `{"ok": true}`},
		"many elements":  {`"MaterialRequirements": ` + elements(500, "{}"), `{}`},
		"many members":   {`"JobOrderParameters": ` + elements(200, `{"ID":"a"}`), `{}`},
		"padded results": {`"Priority": 1`, `{"ok":` + strings.Repeat(" ", 12<<10) + `true}`},
		"large results":  {`"Priority": 1`, `{"text": "` + strings.Repeat(string(random), 12) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecall(limit)
			s := &Store{recall: r}
			heap := func() int {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return int(m.HeapAlloc)
			}
			before := heap()
			order := []byte(`{"JobOrder":{"JobOrderID":"JO",` + c.order + `},"State":[{"StateText":{"Text":"Running"},"StateNumber":3}],"_scope":"cell"}`)
			execution := []byte(`{"job_id":"JO","current_step":"S","recipe":"x","actions":{"a":{"name":"a","state":"completed","attempt":1,"result":` + c.result + `}},"steps":{}}`)
			held, turnover := 0, 1
			for i := 0; i < turnover; i++ {
				id := isa95.JobOrderID(fmt.Sprint("JO-", i))
				keys := s.orderKeys(id)
				snap := &Snapshot{JobOrderID: id, keys: keys, read: []stringRead{{key: keys.job, value: slices.Clone(order)}, {key: keys.execution, value: slices.Clone(execution)}}}
				var err error
				if snap.Job, err = s.decodeJob(id, order); err != nil {
					t.Fatal(err)
				}
				if snap.Execution, err = s.decodeExecution(id, execution); err != nil {
					t.Fatal(err)
				}
				s.rememberRead(snap, nil)
				turnover = 5 * limit / 2 / r.of(id).size()
				if i%(turnover/10+1) == 0 {
					held = max(held, heap()-before)
				}
			}
			t.Logf("%d kB", held/1000)
			if held > limit+limit/4 {
				t.Errorf("it takes %d kB", held/1000)
			}
			runtime.KeepAlive(r)
		})
	}
}

// An order that is cleared, or grows large, is forgotten.
func TestRecallForgets(t *testing.T) {
	t.Parallel()
	order := func(bytes int) *running {
		return &running{
			job: &StoredOrder{State: isa95.State{Top: isa95.Running}}, execution: &recipe.Execution{},
			jobDoc: []byte(strings.Repeat("j", bytes/2)), executionDoc: []byte(strings.Repeat("x", bytes/2)),
		}
	}
	for name, change := range map[string]func(*running){
		"large":    func(r *running) { *r = *order(recallBytes / 16) },
		"EndState": func(r *running) { r.job.State = isa95.State{Top: isa95.EndState} },
	} {
		c, is := newRecall(recallBytes), order(1000)
		if c.keep("JO", is); c.of("JO") == nil {
			t.Errorf("%s: it is not remembered", name)
		}
		is = order(1000)
		change(is)
		if c.keep("JO", is); c.of("JO") != nil {
			t.Errorf("%s: it is remembered", name)
		}
	}
}
