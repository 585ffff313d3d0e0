package jobcontrol_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
)

// sized is a job order of so many bytes as it is stored.
func sized(id string, size int) string {
	text := fmt.Sprintf(`{"JobOrderID":%q,"JobOrderParameters":[{"ID":"program","Value":""}]}`, id)
	return strings.Replace(text, `""`, `"`+strings.Repeat("x", size-len(text))+`"`, 1)
}

// counted is how many bytes the scope has stored, as Takt counts them.
func (p *plant) counted(t testing.TB) int64 {
	t.Helper()
	n, err := p.redis(t, "GET", p.keys.JobBytes(scope)).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A scope has a limit of bytes: an order beyond it is refused, and the refusal says what is there, what the limit is and what to do. An order that ends makes
// room when it is cleared, an Update counts the difference, a result counts too, and another scope has its own limit.
func TestScopeBytes(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{ScopeBytes: 10_000})
	wants := func(n int64) {
		t.Helper()
		if has := p.counted(t); has != n {
			t.Errorf("%d bytes are counted, want %d", has, n)
		}
		p.wantSound(t)
	}
	p.do(t, isa95.Store, sized("JO-1", 6000), isa95.NoError)
	wants(6000)
	before := p.snapshot(t)
	for _, m := range []isa95.Method{isa95.Store, isa95.StoreAndStart} {
		reply := p.do(t, m, sized("JO-2", 4001), isa95.UnableToAccept)
		for _, part := range []string{"6000 bytes", "with this order 10001", "the limit is 10000", "--scope-bytes", "clear orders"} {
			if !strings.Contains(reply.ErrorMessage, part) {
				t.Errorf("%s: %q lacks %q", m, reply.ErrorMessage, part)
			}
		}
	}
	for key, dump := range p.snapshot(t) {
		if before[key] != dump {
			t.Errorf("a refusal changed %s", key)
		}
	}
	p.do(t, isa95.StoreAndStart, sized("JO-2", 4000), isa95.NoError)
	wants(10_000)
	e := call(isa95.Store, sized("JO-3", 10_000))
	e.Subject, e.Delivery.Topic = "m43", ""
	wantStatus(t, p.answer(t, e), isa95.NoError)

	p.do(t, isa95.Update, sized("JO-1", 6001), isa95.UnableToAccept)
	p.do(t, isa95.Update, sized("JO-1", 5000), isa95.NoError)
	p.do(t, isa95.Update, sized("JO-1", 6000), isa95.NoError)
	wants(10_000)
	p.do(t, isa95.Abort, "JO-2", isa95.NoError) // beyond the limit: what ends is never refused
	response, err := p.redis(t, "GET", p.keys.JobResponse(string(jobstore.ResponseID("JO-2")))).ToString()
	if err != nil {
		t.Fatal(err)
	}
	wants(10_000 + int64(len(response)))
	p.do(t, isa95.Clear, "JO-2", isa95.NoError)
	wants(6000)
	p.do(t, isa95.Store, sized("JO-2", 4000), isa95.NoError) // used again
	p.do(t, isa95.Cancel, "JO-2", isa95.NoError)
	p.do(t, isa95.Cancel, "JO-1", isa95.NoError)
	wants(0)

	free := plantOn(t, p.env, storeOptions(), jobcontrol.Options{})
	free.do(t, isa95.Store, sized("JO-4", 20_000), isa95.NoError)
}

// With room for five orders, five of forty that come at once pass.
func TestScopeBytesAreExact(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{ScopeBytes: 5 * 2000})
	var all sync.WaitGroup
	replies := make(chan isa95.ReturnStatus, 40)
	for i := range 40 {
		all.Go(func() {
			replies <- status(t, p.answer(t, call(isa95.Store, sized(fmt.Sprintf("JO-%02d", i), 2000))))
		})
	}
	all.Wait()
	close(replies)
	count := make(map[isa95.ReturnStatus]int)
	for s := range replies {
		count[s]++
	}
	if count[isa95.NoError] != 5 || count[isa95.UnableToAccept] != 35 || p.counted(t) != 5*2000 {
		t.Errorf("%v, want 5 and 35; %d bytes are counted", count, p.counted(t))
	}
	p.wantSound(t)
}

// Orders of a version that does not count: those that it stored are not counted and end as ever. Of those that it ended or changed the sum is too high, until an
// order would be refused for it: then it is counted anew.
func TestScopeBytesBesideAnEarlierVersion(t *testing.T) {
	p := newPlant(t, jobcontrol.Options{ScopeBytes: 10_000})
	forget := func(id string) { // what an earlier version leaves out when it changes an order
		t.Helper()
		for _, words := range [][]string{{"GET", p.keys.JobOrder(id)}, {"HGET", p.keys.PubIndex(scope), id}} {
			text, err := p.redis(t, words...).ToString()
			if err != nil || !strings.Contains(text, `bytes":`) {
				t.Fatalf("%s: %v", text, err)
			}
			for _, name := range []string{`,"_bytes":`, `,"bytes":`} {
				if head, _, ok := strings.Cut(text, name); ok {
					text = head + "}"
				}
			}
			set := append([]string{"SET", words[1]}, text)
			if words[0] == "HGET" {
				set = []string{"HSET", words[1], id, text}
			}
			p.redis(t, set...)
		}
	}
	p.do(t, isa95.Store, sized("OLD", 3000), isa95.NoError)
	forget("OLD")
	p.redis(t, "DEL", p.keys.JobBytes(scope)) // that version stored it
	p.do(t, isa95.Update, sized("OLD", 3000), isa95.NoError)
	if n := p.counted(t); n != 3000 {
		t.Errorf("an order that is updated counts %d bytes", n)
	}
	forget("OLD")
	p.wantSound(t)
	p.do(t, isa95.Cancel, "OLD", isa95.NoError)
	if n := p.counted(t); n != 3000 {
		t.Errorf("%d bytes are counted, want those that the earlier version left", n)
	}
	p.do(t, isa95.Store, sized("NEW", 9000), isa95.NoError) // counted anew
	if n := p.counted(t); n != 9000 {
		t.Errorf("%d bytes are counted, want 9000", n)
	}
	p.wantSound(t)
	p.redis(t, "SET", p.keys.JobBytes(scope), "10")
	violations, err := p.store.Check(t.Context(), jobstore.CheckOptions{Grace: time.Hour, AnyScope: true})
	if err != nil || len(violations) != 1 || violations[0].Key != p.keys.JobBytes(scope) {
		t.Errorf("too few bytes: %v, %v", violations, err)
	}
}
