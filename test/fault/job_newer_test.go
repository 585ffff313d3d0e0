package fault_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/test/rig"
)

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
