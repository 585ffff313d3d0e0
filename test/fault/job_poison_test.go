package fault_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/test/rig"
)

// Fault 15: another station has the orders that cost most: of a thousand steps, with results of 150 KiB and conditions with a pattern of the greatest size that is taken, and with
// commands that nothing ever answers. They end as they should, and the orders of this station go on beside them.
func TestFault15CostlyOrders(t *testing.T) {
	t.Parallel()
	const scope isa95.Scope = "costly-cell"
	jobFault{do: func(w *jobWorld) {
		alone := w.median(time.Time{}, time.Now())
		dir := t.TempDir()
		rig.Write(t, filepath.Join(dir, "equipment.yaml"), fmt.Sprintf("scope: %s\ncommands:\n  - {type: com.acme.test.costly.v1, takes: 1ms..2ms, result: {text: %s}}\n", scope, strings.Repeat("a", 150<<10)))
		rig.StartCommand(t, rig.Command{Path: rig.PlainBinary(t), Args: []string{"station", "simulate", filepath.Join(dir, "equipment.yaml"), "--log", filepath.Join(dir, "station.jsonl"), "--mqtt", w.Broker.URL, "--topic-prefix", w.TopicPrefix}})
		ctx, client := testenv.Within(t), w.mes.Client
		const costly, silent = "WM-COSTLY", "WM-SILENT"
		for id, text := range map[string]string{costly: thousandSteps(), silent: silentStep} {
			if _, err := client.Apply(ctx, scope, isa95.ConfigWorkMaster, isa95.WorkMaster{ID: id, DataSchema: recipe.SchemaURI, Data: json.RawMessage(text)}); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		const each = 20
		name := func(master string, i int) isa95.JobOrderID {
			return isa95.JobOrderID(fmt.Sprintf("%s-%02d", master, i))
		}
		for i := range each {
			for _, master := range []string{costly, silent} {
				o := &isa95.JobOrder{JobOrderID: string(name(master, i)), WorkMasterID: []isa95.WorkMasterRef{{ID: master}}}
				if _, err := client.Call(ctx, mes.Call{Scope: scope, Method: isa95.StoreAndStart, JobOrder: o}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range each {
			for master, want := range map[string]string{costly: "Ended_Completed", silent: "Aborted"} {
				var state isa95.State
				w.Until(master+" has ended", func() bool {
					r, err := client.JobResponse(ctx, scope, name(master, i))
					if err == nil {
						state, err = isa95.ParseState(r.JobState)
					}
					return err == nil && state.Clearable()
				})
				if state.String() != want {
					t.Errorf("%s ended as %s, want %s", name(master, i), state, want)
				}
				if _, err := client.Clear(ctx, scope, name(master, i)); err != nil {
					t.Error(err)
				}
			}
		}
		t.Logf("half of the orders took more than %v alone, and more than %v beside %d costly ones", alone, w.median(begin, time.Now()), 2*each)
	}}.run(t)
}

// thousandSteps is a recipe of 1,000 steps. The condition behind its command looks at the result with a large pattern.
func thousandSteps() string {
	var steps, transitions []string
	for i := range 1000 {
		steps = append(steps, fmt.Sprintf(`{"Name": "S%d", "Initial": %v}`, i, i == 0))
		if i > 1 {
			transitions = append(transitions, fmt.Sprintf(`{"Source": "S%d", "Target": "S%d", "Condition": "always", "Priority": 0}`, i-1, i))
		}
	}
	return fmt.Sprintf(`{"Steps": [%s], "Transitions": [
  {"Source": "S0", "Target": "S1", "Condition": "not (actions.go.result.text matches 'a{0,8}a{0,8}b')", "Priority": 0}, %s],
"Actions": [{"Name": "go", "Step": "S0", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.acme.test.costly.v1", "TimeoutSeconds": 3600}]}`,
		strings.Join(steps, ", "), strings.Join(transitions, ", "))
}

// silentStep has a command that no equipment knows.
const silentStep = `{"Steps": [{"Name": "S", "Initial": true}], "Transitions": [],
"Actions": [{"Name": "go", "Step": "S", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.acme.test.unheard.v1", "TimeoutSeconds": 5}]}`

// median is how long half of the orders took at the machine that began and ended then.
func (w *jobWorld) median(from, to time.Time) time.Duration {
	w.t.Helper()
	type span struct{ first, last time.Time }
	spans := map[string]*span{}
	for _, e := range w.StationLog() {
		if e.Order == "" {
			continue
		}
		if spans[e.Order] == nil {
			spans[e.Order] = &span{first: e.Time}
		}
		spans[e.Order].last = e.Time
	}
	var took []time.Duration
	for _, s := range spans {
		if s.first.After(from) && s.last.Before(to) {
			took = append(took, s.last.Sub(s.first))
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)/2].Round(time.Millisecond)
}

// Fault 30: all orders are under way, and while Redis answers nothing the machine answers all of them, with results of 128 KiB, over links of 100 Mbit/s. Orders end one after the
// other, no heartbeat is lost, and the memory of the instances is bounded.
func TestFault30LargeResults(t *testing.T) {
	t.Parallel()
	const link, most = 100_000_000 / 8, 400 << 20 // bytes per second; of memory
	orders := scaled(100, 500)
	jobFault{commands: true, bulk: 128 << 10, orders: orders, underWay: orders, takes: "3s..5s", flags: []string{"--http", "127.0.0.1:0"}, do: func(w *jobWorld) {
		w.redis.Throttle(link)
		w.broker.Throttle(link)
		due := w.strikes("all answers are due at once")
		w.redis.Stall(true)
		w.lasts(5 * time.Second) // and a third of a heartbeat before: some are due, and none is over, though a busy machine adds a second
		held := w.gauge(w.serves["a"])
		w.redis.Stall(false)
		due.ends(jobTTL) // a command takes half of that
		w.mes.UntilDone(orders)
		came := []time.Time{due.over}
		for _, e := range w.StationLog() {
			if e.Time.After(due.over) {
				came = append(came, e.Time)
			}
		}
		slices.SortFunc(came, time.Time.Compare)
		var silence time.Duration
		for i, at := range came[1:] {
			silence = max(silence, at.Sub(came[i]))
		}
		t.Logf("the machine was busy again after %v at most, the aim is 5 s; an instance had %v with all answers on their way, and has %v", silence.Round(10*time.Millisecond), held, w.gauge(w.serves["a"]))
		if silence > 5*time.Second+busy {
			t.Errorf("I6: nothing went on for %v, want 5 s, and on a busy machine at most %v more", silence, busy)
		}
		for name := range w.serves {
			if g := max(held.memory, w.gauge(w.serves[name]).memory); g > most {
				t.Errorf("I7: %s had %d MB, want at most %d", name, g>>20, most>>20)
			}
		}
		t.Logf("%d leases were lost", w.said("lease lost")) // Redis is silent for 5 s, and a busy machine adds to it
		if heartbeats := w.said("heartbeat was lost"); heartbeats > 0 {
			t.Errorf("%d heartbeats were lost", heartbeats)
		}
	}}.run(t)
}

// Fault 16: a newer version works on the same Redis. What it adds to the documents of orders under way, this version carries along. Orders that it has brought into a state
// that this version does not know are left alone, byte for byte: takt check names them, they hold up no other, and they end when they can be read again.
func TestFault16NewerVersion(t *testing.T) {
	t.Parallel()
	const unknown, known, added = `"state":"offered"`, `"state":"dispatched"`, `"quorum":{"of":[2,3]}`
	jobFault{commands: true, do: func(w *jobWorld) {
		extended := map[string]bool{}
		for len(extended) < 50 {
			for _, id := range w.underWay() {
				key := w.Keys.SfcExecution(id)
				if doc := w.text(key); doc != "" && !strings.Contains(doc, added) && w.swap(key, doc, "{"+added+","+doc[1:]) {
					extended[key] = true
				}
			}
		}
		newer := map[string]string{} // by order
		for len(newer) < 10 {
			for _, id := range w.underWay() {
				key := w.Keys.SfcExecution(id)
				doc := w.text(key)
				later := strings.ReplaceAll(doc, known, unknown)
				if newer[id] == "" && later != doc && strings.Contains(doc, "resend_at") && len(newer) < 10 && w.swap(key, doc, later) {
					newer[id] = later
				}
			}
		}
		w.mes.Until("all others end", func(l rig.Ledger) bool { return len(l.Results) >= w.f.orders-len(newer) })
		check := w.Takt("check", "--json").Stdout
		for id, later := range newer {
			key := w.Keys.SfcExecution(id)
			if !strings.Contains(check, key) || !strings.Contains(check, "offered") {
				t.Errorf("takt check does not name %s", key)
			}
			if doc := w.text(key); doc != later {
				t.Errorf("%s was rewritten:\n%s\n%s", key, later, doc)
			}
		}
		again := w.strikes("documents can be read again")
		deadline := regexp.MustCompile(`"deadline":\d+`)
		for id, later := range newer { // as a commit of the newer version does it: the document, with time left, and its due time. An instance that met the document before does not put that off
			left := fmt.Sprintf(`"deadline":%d`, time.Now().Add(time.Hour).UnixMilli())
			w.must("SET", w.Keys.SfcExecution(id), deadline.ReplaceAllString(strings.ReplaceAll(later, unknown, known), left))
			w.must("ZADD", w.Keys.SfcTimers(), "1", id)
		}
		again.ends(jobTTL)
		w.mes.UntilDone(w.f.orders)
		kept := 0
		for key := range extended {
			switch doc := w.text(key); {
			case strings.Contains(doc, added):
				kept++
			case doc != "":
				t.Errorf("%s has lost what was added: %s", key, doc)
			}
		}
		t.Logf("%d of %d documents are there and have what was added", kept, len(extended))
		if kept < len(extended)/2 {
			t.Error("too few to judge")
		}
		w.must("DEL", w.Keys.IntakeDead(), w.Keys.DeadLetter(w.Keys.SfcWork()), w.Keys.DeadLetter(w.Keys.SfcOutbox()))
	}}.run(t)
}

// text is the value of a key, "" if there is none.
func (w *jobWorld) text(key string) string {
	w.t.Helper()
	text, err := w.must("GET", key).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		w.t.Fatal(err)
	}
	return text
}

// swap writes a document unless it has changed meanwhile.
func (w *jobWorld) swap(key, from, to string) bool {
	w.t.Helper()
	const script = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL') return 1"
	return w.number("EVAL", script, "1", key, from, to) == 1
}
