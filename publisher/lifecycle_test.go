package publisher_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
)

// Every transition of the machine, on its way from Store to EndState: what is retained afterwards.
func TestLifecycles(t *testing.T) {
	for _, path := range [][]isa95.Method{
		{isa95.Store, isa95.Start, isa95.Run, isa95.Stop, isa95.Clear},
		{isa95.Store, isa95.Update, isa95.Start, isa95.Update, isa95.RevokeStart, isa95.Cancel},
		{isa95.StoreAndStart, isa95.Run, isa95.Pause, isa95.Resume, isa95.End, isa95.Clear},
		{isa95.StoreAndStart, isa95.Cancel, isa95.StoreAndStart, isa95.Abort, isa95.Clear}, // the id is used again
		{isa95.Store, isa95.Abort, isa95.Clear, isa95.Store, isa95.Cancel},
		{isa95.StoreAndStart, isa95.Run, isa95.Abort, isa95.Clear},
		{isa95.StoreAndStart, isa95.Run, isa95.Pause, isa95.Abort, isa95.Clear},
		{isa95.StoreAndStart, isa95.Run, isa95.Pause, isa95.Stop, isa95.Clear},
		{isa95.Store, isa95.NotAllowedToStartFromReadyToLoaded, isa95.NotAllowedToStartFromLoadedToWaiting, isa95.Cancel},
	} {
		names := make([]string, len(path))
		for i, m := range path {
			names[i] = string(m)
		}
		t.Run(strings.Join(names, "-"), func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			p.start()
			seq, state := int64(0), isa95.Initial
			for _, m := range path {
				if state.IsEnd() {
					state = isa95.Initial
				}
				state, _ = isa95.Next(state, m)
				p.move(scope, "JO-7", m)
				p.inSync()
				has := p.retained()
				want := []string{"m42/order/JO-7", "m42/state-index"}
				switch {
				case state.IsEnd():
					want = want[1:]
				case state.Clearable():
					want = []string{"m42/order/JO-7", "m42/result/JO-7", "m42/state-index"}
				}
				if d := cmp.Diff(want, topics(has)); d != "" {
					t.Errorf("%s: topics: %s", m, d)
				}
				x := p.index(scope)
				if unchanged := m == isa95.Update; x.Seq < seq || x.Seq == seq && !unchanged { // these replace an order by the same
					t.Errorf("%s: seq %d after %d", m, x.Seq, seq)
				}
				seq = x.Seq
				e := entry(x, "JO-7")
				if d := cmp.Diff(state.Elements(), e.State); !state.IsEnd() && (d != "" || e.HasResult != state.Clearable()) {
					t.Errorf("%s: has result %v, state: %s", m, e.HasResult, d)
				}
				if state.IsEnd() && len(x.Jobs) != 0 {
					t.Errorf("%s: the index still has %v", m, x.Jobs)
				}
			}
			for _, m := range p.messages("") {
				expiry := 48 * time.Hour
				if len(m.Payload) == 0 {
					expiry = 0
				}
				if !m.Retain || m.QoS != 1 || m.ContentType != "" || m.UTF8 || m.User != nil || m.CorrelationData != nil || m.ResponseTopic != "" || m.Expiry != expiry {
					t.Errorf("%s: retain %v, QoS %d, expiry %v, content type %q, user properties %v", m.Topic, m.Retain, m.QoS, m.Expiry, m.ContentType, m.User)
				}
			}
			p.seqs(scope)
			for _, key := range []string{p.keys.PubIndex("m42"), p.keys.PubDone("m42"), p.keys.PubDirty()} {
				if n, _ := p.redisDo("EXISTS", key).AsInt64(); n != 0 {
					t.Errorf("left behind: %s", key)
				}
			}
		})
	}
}

// A response that was stored before its job ended is published with the end, whatever the change is called.
func TestResultStoredBeforeTheEnd(t *testing.T) {
	p := newPlant(t)
	p.start()
	p.move(scope, "JO-1", isa95.StoreAndStart, isa95.Run, isa95.End)
	p.inSync()
	over, _ := p.redisDo("HGET", p.keys.PubIndex("m42"), "JO-1").ToString()
	running := strings.Replace(over, `"Text":"Ended"},"StateNumber":5`, `"Text":"Running"},"StateNumber":3`, 1)
	running = strings.Replace(running, `,{"StateText":{"Locale":"en","Text":"Completed"},"StateNumber":1}`, "", 1)
	if running == over {
		t.Fatalf("index entry %s", over)
	}
	put := func(value, changeType string) {
		t.Helper()
		p.redisDo("HSET", p.keys.PubIndex("m42"), "JO-1", value)
		p.redisDo("SADD", p.keys.PubDirty(), "m42")
		p.redisDo("XADD", p.keys.ChangesAll(), "*", "change_type", changeType, "job_order_id", "JO-1", "scope", "m42", "ts", "x")
	}
	put(running, "ResultUpdate")
	p.inSync()
	if has := p.retained(); slices.Contains(topics(has), "m42/result/JO-1") || entry(p.index(scope), "JO-1").HasResult {
		t.Errorf("a running job has a result: %v", topics(has))
	}
	put(over, "Stop") // nothing that speaks of a response
	p.inSync()
	if has := p.retained(); !slices.Contains(topics(has), "m42/result/JO-1") || !entry(p.index(scope), "JO-1").HasResult {
		t.Errorf("the result is lost: %v", topics(has))
	}
	p.seqs(scope)
}

// Entries that are read again publish what is, not what was.
func TestReplayOfOldChanges(t *testing.T) {
	p := newPlant(t)
	i := p.start()
	p.move(scope, "JO-1", isa95.Store, isa95.Start, isa95.Run, isa95.End, isa95.Clear)
	p.move(scope, "JO-2", isa95.Store, isa95.Start)
	p.inSync()
	i.stop()
	changes, err := p.redisDo("XRANGE", p.keys.ChangesAll(), "-", "+").AsXRange()
	testenv.Must(t, err)
	i = p.working()
	p.forget()
	before := p.index(scope).Seq
	for _, c := range changes {
		p.redisDo("XADD", p.keys.ChangesAll(), "*", "change_type", c.FieldValues["change_type"], "job_order_id", c.FieldValues["job_order_id"],
			"scope", c.FieldValues["scope"], "ts", c.FieldValues["ts"])
	}
	p.inSync()
	for _, m := range p.messages("m42/order/", "m42/result/") {
		t.Errorf("a replay published %s: %s", m.Topic, m.Payload)
	}
	if after := p.index(scope).Seq; after != before {
		t.Errorf("a replay moved seq from %d to %d", before, after)
	}
	i.stop()
}

// An id that another scope uses after its order was cancelled here: the topics here are deleted all the same.
func TestIDMovesToAnotherScope(t *testing.T) {
	p := newPlant(t)
	i := p.start()
	p.move(scope, "JO-1", isa95.Store)
	p.move(scope, "JO-2", isa95.Store)
	p.inSync()
	g := new(gate)
	i.stop()
	p.working(g.through)
	release := make(chan struct{})
	g.set(func() { g.before = func(context.Context, string) { <-release } })
	p.move(scope, "JO-2", isa95.Cancel) // holds the publisher up, so that the next two are one batch
	p.move(scope, "JO-1", isa95.Cancel)
	p.move("elsewhere", "JO-1", isa95.Store)
	g.set(func() { g.before = nil })
	close(release)
	p.inSync()
	if got := fmt.Sprint(topics(p.retained())); got != "[elsewhere/order/JO-1 elsewhere/state-index m42/state-index]" {
		t.Errorf("retained: %s", got)
	}
}

// A scope stands verbatim in its topics, and so does every id.
func TestNames(t *testing.T) {
	p := newPlant(t)
	p.start()
	scopes := []isa95.Scope{"other.line", "a.b.c", "Werk 3", "ä:ö", "order", "state-index"}
	ids := []isa95.JobOrderID{"JO.1", `JO "quoted"`, "JO 2", "JO:ü", "result", "state-index", "日本"}
	for _, s := range scopes {
		for _, id := range ids {
			p.move(s, isa95.JobOrderID(string(s)+"|")+id, isa95.Store)
		}
	}
	p.inSync()
	var want []string
	for _, s := range scopes {
		want = append(want, string(s)+"/state-index")
		for _, id := range ids {
			want = append(want, string(s)+"/order/"+string(s)+"|"+string(id))
		}
	}
	slices.Sort(want)
	if d := cmp.Diff(want, topics(p.retained())); d != "" {
		t.Error(d)
	}
	if i, err := p.reader.Retained(t.Context(), prefix+"/a.b.c/order/+"); err != nil || len(i) != len(ids) {
		t.Errorf("%d orders of a.b.c, %v", len(i), err)
	}
}
