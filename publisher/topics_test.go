package publisher

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// What a retained topic is taken apart into makes the same topic again, and can be published.
func FuzzParseTopic(f *testing.F) {
	for _, topic := range []string{"a/b/m42/state-index", "a/b/other.line/order/JO-7", "a/b/m42/result/JO 7", "a/b/m42/order/a/b", "a/b/equipment/order/x", "a/b//order/", "a/b/m42/order/list:x", "a"} {
		f.Add(topic)
	}
	o := Options{TopicPrefix: "a/b"}
	f.Fuzz(func(t *testing.T, topic string) {
		scope, kind, id, ok := o.parseTopic(topic)
		if !ok {
			return
		}
		again := map[string]string{kindIndex: o.indexTopic(scope), kindOrder: o.orderTopic(scope, id), kindResult: o.resultTopic(scope, id)}[kind]
		if again != topic || mqtt.CheckTopic(topic) != nil {
			t.Errorf("%q became %q %q %q, which is %q", topic, scope, kind, id, again)
		}
	})
}

// The state index lists the orders as the zset does, whatever the order they come in, without those that are gone and those whose topic is
// still to come; its content is what it says and nothing else.
func TestStateIndexOfAnyOrders(t *testing.T) {
	o := Options{TopicPrefix: "a"}.withDefaults()
	states := isa95.States()[1:]
	rapid.Check(t, func(t *rapid.T) {
		index := jobstore.ScopeIndex{Scope: "m42", Seq: rapid.Int64Range(1, 1<<40).Draw(t, "seq")}
		live := 0
		for i := range rapid.IntRange(0, 20).Draw(t, "orders") {
			state := rapid.SampledFrom(states).Draw(t, "state")
			j := &jobstore.RetainedJob{Scope: "m42", JobOrderID: isa95.JobOrderID(fmt.Sprint("JO-", i)), Listed: true}
			j.Want = jobstore.IndexEntry{State: state.Elements(), Priority: rapid.IntRange(-3, 3).Draw(t, "priority"), Gone: state.IsEnd(), Order: "o", Result: rapid.SampledFrom([]string{"", "r"}).Draw(t, "result")}
			j.Done.Result = rapid.SampledFrom([]string{"", "r", "old"}).Draw(t, "done")
			j.Done.Order = rapid.SampledFrom([]string{"", "o", "old"}).Draw(t, "done order")
			j.Done.Refused = j.Done.Order == "" && rapid.Bool().Draw(t, "refused")
			if !state.IsEnd() && (j.Done.Order != "" || j.Done.Refused) {
				live++
			}
			index.Jobs = append(index.Jobs, j)
		}
		slices.SortFunc(index.Jobs, jobstore.InListOrder)
		encode := func(seq int64, at time.Time) []byte {
			payload, err := o.join(isa95.StateIndex{Scope: "m42", Seq: seq, PublishedAt: publishedAt(at), Jobs: []isa95.StateIndexEntry{}}, index.Jobs)
			if err != nil || !json.Valid(payload) {
				t.Fatalf("%s, %v", payload, err)
			}
			return payload
		}
		var x isa95.StateIndex
		testenv.Must(t, isa95.Unmarshal(encode(1, time.UnixMilli(1)), &x))
		if len(x.Jobs) != live {
			t.Fatalf("%d of %d orders with a topic or a refusal", len(x.Jobs), live)
		}
		at := func(id string) *jobstore.RetainedJob {
			return index.Jobs[slices.IndexFunc(index.Jobs, func(j *jobstore.RetainedJob) bool { return string(j.JobOrderID) == id })]
		}
		for i, e := range x.Jobs {
			j := at(e.JobOrderID)
			state, err := isa95.ParseState(e.State)
			if want := err == nil && state.Clearable() && j.Want.Result == "r" && j.Done.Result == "r"; e.HasResult != want {
				t.Errorf("%s: has_result %v", e.JobOrderID, e.HasResult)
			}
			if i == 0 {
				continue
			}
			before := at(x.Jobs[i-1].JobOrderID)
			if before.Want.Priority > j.Want.Priority || before.Want.Priority == j.Want.Priority && before.JobOrderID >= j.JobOrderID {
				t.Errorf("%s (%d) before %s (%d)", before.JobOrderID, before.Want.Priority, j.JobOrderID, j.Want.Priority)
			}
		}
		if again, err := x.Encode(o.StateIndexKeys); err != nil || string(again) != string(encode(1, time.UnixMilli(1))) {
			t.Errorf("joined entries and a whole index differ: %s, %v", again, err)
		}
		one, two := encode(1, time.UnixMilli(1)), encode(index.Seq, time.Now())
		if contentOf(one) != contentOf(two) {
			t.Error("seq and time are part of the content")
		}
		if has := o.readIndex(&mqtt.Message{Payload: two, Expiry: o.RetainedTTL}, "m42"); has == nil || has.seq != index.Seq || has.content != contentOf(one) || has.missing {
			t.Errorf("read back as %+v", has)
		}
		if live > 0 {
			at(x.Jobs[0].JobOrderID).Encoded = []byte(`{}`)
			if contentOf(encode(1, time.UnixMilli(1))) == contentOf(one) {
				t.Error("another content is the same")
			}
		}
	})
}
