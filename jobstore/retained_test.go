package jobstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// topicStore is a store whose lease of the publisher is held by the test.
type topicStore struct {
	*jobstore.Store
	t     testing.TB
	srv   *testenv.RedisServer
	keys  keys.Keys
	lease *jobstore.Lease
}

func newTopicStore(t testing.TB) *topicStore {
	t.Helper()
	srv := testenv.Redis(t)
	s := &topicStore{t: t, srv: srv, keys: keys.New(srv.Prefix(t))}
	s.Store = leaseStore(t, srv.URL, s.keys.Prefix(), "publisher")
	h := holdLease(t, s.Store, jobstore.RolePublisher, time.Minute)
	s.lease = receive(t, "lease", h.got)
	t.Cleanup(func() {
		h.stop()
		receive(t, "end of the lease", h.done)
	})
	return s
}

// do sends a command as an operator would.
func (s *topicStore) do(words ...string) rueidis.RedisResult {
	s.t.Helper()
	r := s.srv.Client.Do(s.t.Context(), s.srv.Client.B().Arbitrary(words...).Build())
	if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
		s.t.Fatalf("%q: %v", words, err)
	}
	return r
}

func (s *topicStore) text(words ...string) string {
	s.t.Helper()
	text, _ := s.do(words...).ToString()
	return text
}

// commit stores a job order, or moves one on.
func (s *topicStore) commit(scope isa95.Scope, id isa95.JobOrderID, state isa95.State, response *isa95.JobResponse) {
	s.t.Helper()
	snap, err := s.Load(s.t.Context(), jobstore.Query{JobOrderID: id, Scope: scope})
	if err != nil {
		s.t.Fatal(err)
	}
	transition := &jobstore.Transition{Method: "Test", State: state}
	if snap.Job == nil {
		priority := 3
		transition.Order = &isa95.JobOrder{JobOrderID: string(id), Priority: &priority}
	}
	if err := s.Commit(s.t.Context(), snap, jobstore.Change{Transition: transition, Response: response, Now: s.Now()}); err != nil {
		s.t.Fatal(err)
	}
}

var (
	ready   = isa95.State{Top: isa95.NotAllowedToStart, Sub: isa95.Ready}
	aborted = isa95.State{Top: isa95.Aborted}
	ended   = isa95.State{Top: isa95.EndState}
)

func (s *topicStore) retained(q jobstore.RetainedQuery) jobstore.RetainedScope {
	s.t.Helper()
	read, err := s.Retained(s.t.Context(), q)
	if err != nil {
		s.t.Fatal(err)
	}
	return read[0]
}

func (s *topicStore) settle(settlement jobstore.Settlement) *jobstore.ScopeIndex {
	s.t.Helper()
	settlement.Index = true
	indexes, err := s.Settle(s.t.Context(), s.lease, settlement)
	if err != nil || len(indexes) != 1 {
		s.t.Fatalf("settle: %d indexes, %v", len(indexes), err)
	}
	return indexes[0]
}

func TestRetainedReadsOneJobOrder(t *testing.T) {
	s := newTopicStore(t)
	s.commit("m42", "JO-1", ready, nil)
	s.commit("m42", "JO-2", aborted, &isa95.JobResponse{JobResponseID: "JO-2-response", JobOrderID: "JO-2", JobState: aborted.Elements()})
	s.commit("m42", "JO-3", ready, nil)
	s.commit("m42", "JO-3", ended, nil)

	scope := s.retained(jobstore.RetainedQuery{Scope: "m42", JobOrderIDs: []isa95.JobOrderID{"JO-1", "JO-2", "JO-3", "JO-4"}})
	if scope.Err != nil || len(scope.Jobs) != 4 {
		t.Fatalf("%+v", scope)
	}
	live, over, gone, unknown := scope.Jobs[0], scope.Jobs[1], scope.Jobs[2], scope.Jobs[3]
	if live.Err != nil || !live.Listed || live.Want.Priority != 3 || live.Want.Result != "" || live.Job.State != ready || live.Response != nil || live.Done != (jobstore.Published{}) {
		t.Errorf("live: %+v", live)
	}
	order, _ := isa95.Marshal(live.Job.JobOrder)
	if jobstore.Revision(order) != live.Want.Order {
		t.Errorf("revision %s of the document, %s in the index", jobstore.Revision(order), live.Want.Order)
	}
	if over.Err != nil || over.Response == nil || over.ResultRevision != over.Want.Result {
		t.Errorf("over: %+v", over)
	}
	payload, _ := isa95.Marshal(over.Response)
	if revisions, err := jobstore.ResultRevisions(payload, "m42"); err != nil || !slices.Contains(revisions, over.Want.Result) {
		t.Errorf("revisions of the payload %q, %v", revisions, err)
	}
	if revisions, err := jobstore.ResultRevisions([]byte("{"), "m42"); err == nil {
		t.Errorf("revisions of no payload %q", revisions)
	}
	if !gone.Want.Gone || !gone.Listed || gone.Err != nil {
		t.Errorf("gone: %+v", gone)
	}
	if unknown.Listed || unknown.Job != nil || unknown.Err != nil {
		t.Errorf("unknown: %+v", unknown)
	}
	whole := s.retained(jobstore.RetainedQuery{Scope: "m42"})
	var ids []string
	for _, j := range whole.Jobs {
		ids = append(ids, string(j.JobOrderID))
	}
	if !slices.Equal(ids, []string{"JO-1", "JO-2", "JO-3"}) || whole.Seq != 0 || whole.Jobs[0].Job != nil {
		t.Errorf("whole scope: %q, seq %d", ids, whole.Seq)
	}
	if err := s.RetainedDocuments(t.Context(), whole.Jobs); err != nil || whole.Jobs[0].Job == nil {
		t.Errorf("documents: %v", err)
	}
	if err := s.RetainedDocuments(t.Context(), nil); err != nil {
		t.Errorf("no documents: %v", err)
	}
}

// E-P9, D6: what cannot be read is an error of one job order or of one scope, never of the whole read.
func TestRetainedMeetsGarbage(t *testing.T) {
	s := newTopicStore(t)
	for _, id := range []isa95.JobOrderID{"cut", "foreign", "list", "field", "good"} {
		s.commit("m42", id, ready, nil)
	}
	s.commit("other.line", "JO-9", ready, nil)
	s.do("SET", s.keys.JobOrder("cut"), `{"JobOrder":{"JobOrd`)
	s.do("SET", s.keys.JobOrder("foreign"), s.text("GET", s.keys.JobOrder("JO-9")))
	s.do("DEL", s.keys.JobOrder("list"))
	s.do("LPUSH", s.keys.JobOrder("list"), "x")
	s.do("HSET", s.keys.PubIndex("m42"), "field", "not json")
	s.do("HSET", s.keys.PubDone("m42"), "good", "not json")
	for _, scope := range []string{"idx", "done", "seq"} {
		s.commit(isa95.Scope(scope), isa95.JobOrderID("JO-"+scope), ready, nil)
	}
	for _, key := range []string{s.keys.PubIndex("idx"), s.keys.PubDone("done")} {
		s.do("DEL", key)
		s.do("SET", key, "x")
	}
	s.do("SET", s.keys.PubSeq("seq"), "many")

	ids := []isa95.JobOrderID{"cut", "foreign", "list", "field", "good"}
	for i, j := range s.retained(jobstore.RetainedQuery{Scope: "m42", JobOrderIDs: ids}).Jobs {
		switch bad := j.Err != nil; {
		case ids[i] == "list":
			if bad || j.Job != nil {
				t.Errorf("%s: %v, %+v", ids[i], j.Err, j.Job)
			}
		case bad != (i < 4):
			t.Errorf("%s: %v", ids[i], j.Err)
		}
	}
	for _, q := range []jobstore.RetainedQuery{{Scope: "idx"}, {Scope: "done"}, {Scope: "seq"}, {Scope: "idx", JobOrderIDs: ids}, {Scope: "done", JobOrderIDs: ids}} {
		var doc *jobstore.DocumentError
		if scope := s.retained(q); !errors.As(scope.Err, &doc) || !strings.HasPrefix(doc.Key, s.keys.Prefix()+":pub") {
			t.Errorf("%s: %v", q.Scope, scope.Err)
		}
	}
	for _, settlement := range []jobstore.Settlement{{Scope: "idx"}, {Scope: "done"}, {Scope: "seq"}} {
		if index := s.settle(settlement); index.Err == nil {
			t.Errorf("settled %s: %+v", settlement.Scope, index)
		}
	}
}

// E-P4, E-P13, D26: each rule of seq.
func TestSeqMovesOnlyWhenSomethingChanged(t *testing.T) {
	s := newTopicStore(t)
	s.commit("m42", "JO-1", ready, nil)
	job := func() *jobstore.RetainedJob {
		return s.retained(jobstore.RetainedQuery{Scope: "m42", JobOrderIDs: []isa95.JobOrderID{"JO-1"}}).Jobs[0]
	}
	done := func(order, result string, shown bool) jobstore.Settlement {
		return jobstore.Settlement{Scope: "m42", Jobs: []jobstore.SettledJob{{Job: job(), Published: jobstore.Published{Order: order, Result: result}, Shown: shown}}}
	}
	for _, step := range []struct {
		what       string
		before     func()
		settlement jobstore.Settlement
		seq        int64
	}{
		{"the first", nil, jobstore.Settlement{Scope: "m42"}, 1},
		{"nothing changed", nil, jobstore.Settlement{Scope: "m42"}, 1},
		{"an order was acknowledged, which the index does not show", nil, done("r1", "", false), 1},
		{"a result was acknowledged", nil, done("r1", "r2", true), 2},
		{"the same again, its reply was lost", nil, done("r1", "r2", true), 2},
		{"a commit", func() { s.commit("m42", "JO-1", aborted, nil) }, jobstore.Settlement{Scope: "m42"}, 3},
		{"two commits", func() { s.commit("m42", "JO-2", ready, nil); s.commit("m42", "JO-2", aborted, nil) }, jobstore.Settlement{Scope: "m42"}, 4},
		{"a commit elsewhere", func() { s.commit("m43", "JO-3", ready, nil) }, jobstore.Settlement{Scope: "m42"}, 4},
		{"a floor below", nil, jobstore.Settlement{Scope: "m42", Floor: 2}, 4},
		{"a floor as high", nil, jobstore.Settlement{Scope: "m42", Floor: 4}, 4},
		{"a floor above", nil, jobstore.Settlement{Scope: "m42", Floor: 90}, 91},
		{"forced", nil, jobstore.Settlement{Scope: "m42", Force: true}, 92},
		{"all was lost", func() { s.do("DEL", s.keys.PubSeq("m42")) }, jobstore.Settlement{Scope: "m42", Floor: 92}, 93},
		{"the field of an order is gone", nil, done("", "", true), 94},
	} {
		if step.before != nil {
			step.before()
		}
		if index := s.settle(step.settlement); index.Err != nil || index.Seq != step.seq {
			t.Errorf("%s: seq %d (%v), want %d", step.what, index.Seq, index.Err, step.seq)
		}
	}
	if n, err := s.do("EXISTS", s.keys.PubDone("m42")).AsInt64(); n != 0 || err != nil {
		t.Errorf("pubdone is left: %d, %v", n, err)
	}
	// What is only noted moves seq with the next index.
	s.commit("m43", "JO-4", ready, nil)
	s.settle(jobstore.Settlement{Scope: "m43"})
	note := jobstore.Settlement{Scope: "m43", Jobs: []jobstore.SettledJob{{Job: &jobstore.RetainedJob{Scope: "m43", JobOrderID: "JO-4"}, Published: jobstore.Published{Result: "r"}, Shown: true}}}
	if indexes, err := s.Settle(t.Context(), s.lease, note); err != nil || len(indexes) != 0 {
		t.Fatalf("noted: %v, %v", indexes, err)
	}
	if index := s.settle(jobstore.Settlement{Scope: "m43"}); index.Seq != 2 || index.Jobs[1].Done.Result+index.Jobs[0].Done.Result != "r" {
		t.Errorf("after a note: %+v", index)
	}
}

// A cleared order leaves the index once its topics are deleted, unless it was stored again meanwhile.
func TestSettleGone(t *testing.T) {
	s := newTopicStore(t)
	for _, id := range []isa95.JobOrderID{"plain", "again"} {
		s.commit("m42", id, ready, nil)
		s.commit("m42", id, ended, nil)
	}
	s.do("HSET", s.keys.PubDone("m42"), "plain", `{"order":"x"}`, "again", `{"order":"x"}`)
	read := s.retained(jobstore.RetainedQuery{Scope: "m42", JobOrderIDs: []isa95.JobOrderID{"plain", "again"}})
	s.commit("m42", "again", ready, nil)
	index := s.settle(jobstore.Settlement{Scope: "m42", Jobs: []jobstore.SettledJob{{Job: read.Jobs[0], Gone: true}, {Job: read.Jobs[1], Gone: true}}})
	if len(index.Jobs) != 1 || index.Jobs[0].JobOrderID != "again" || index.Jobs[0].Want.Gone || index.Jobs[0].Done != (jobstore.Published{}) {
		t.Errorf("index: %+v", index.Jobs)
	}
}

// An index forgets an order that ended once the deletion of its topics is noted, so the memory of a publisher does not grow with the orders that are done. That is
// no change of the index. An order that was stored again meanwhile stays, or comes back.
func TestIndexForgetsEndedOrders(t *testing.T) {
	s := newTopicStore(t)
	ids := []isa95.JobOrderID{"again", "done", "live", "soon"}
	for _, id := range ids {
		s.commit("m42", id, ready, nil)
	}
	index := s.settle(jobstore.Settlement{Scope: "m42"})
	for _, id := range []isa95.JobOrderID{"again", "done", "soon"} {
		s.commit("m42", id, ended, nil)
	}
	read := func() []*jobstore.RetainedJob {
		return s.retained(jobstore.RetainedQuery{Scope: "m42", JobOrderIDs: ids}).Jobs
	}
	gone := read()
	if !index.Differs(gone) {
		t.Error("the end of orders is no difference")
	}
	index = s.settle(jobstore.Settlement{Scope: "m42", Last: index, Read: ids, Force: true})
	s.commit("m42", "again", ready, nil)
	index = s.settle(jobstore.Settlement{Scope: "m42", Last: index, Read: ids, Force: true})
	var settled []jobstore.SettledJob
	for _, i := range []int{0, 1, 3} {
		settled = append(settled, jobstore.SettledJob{Job: gone[i], Gone: true})
	}
	s.commit("m42", "soon", ready, nil)
	if _, err := s.Settle(t.Context(), s.lease, jobstore.Settlement{Scope: "m42", Jobs: settled}); err != nil {
		t.Fatal(err)
	}
	index.Forget(settled)
	if len(index.Jobs) != 2 || index.Job("again") == nil || index.Job("live") == nil {
		t.Errorf("%d orders are left", len(index.Jobs))
	}
	now := read()
	if done := now[1:2]; index.Differs(done) {
		t.Error("what is forgotten and gone is a difference")
	}
	if !index.Differs(now[3:]) {
		t.Error("an order that was stored again is no difference")
	}
	index = s.settle(jobstore.Settlement{Scope: "m42", Last: index, Read: ids, Force: true})
	if len(index.Jobs) != 3 || index.Job("soon") == nil {
		t.Errorf("%d orders after one was stored again", len(index.Jobs))
	}
	(*jobstore.ScopeIndex)(nil).Forget(settled)
}

// E-P13: without the lease nothing is written, whatever script writes it.
func TestLostLeaseWritesNothing(t *testing.T) {
	s := newTopicStore(t)
	s.commit("m42", "JO-1", ready, nil)
	s.settle(jobstore.Settlement{Scope: "m42"})
	if err := s.SaveCursor(t.Context(), s.lease, "1-1"); err != nil {
		t.Fatal(err)
	}
	s.do("SET", s.lease.Key, "another")
	before := dump(s)
	job := &jobstore.RetainedJob{Scope: "m42", JobOrderID: "JO-1"}
	for what, write := range map[string]func(ctx context.Context) error{
		"settle": func(ctx context.Context) error {
			_, err := s.Settle(ctx, s.lease, jobstore.Settlement{Scope: "m42", Force: true, Jobs: []jobstore.SettledJob{{Job: job, Gone: true}}})
			return err
		},
		"cursor": func(ctx context.Context) error { return s.SaveCursor(ctx, s.lease, "9-9") },
		"changes": func(ctx context.Context) error {
			_, err := s.PublishedChanges(ctx, s.lease, jobstore.ChangesQuery{After: "0-0", Cursor: "9-9", Count: 10, Block: time.Millisecond})
			return err
		},
		"dead letter": func(ctx context.Context) error {
			return s.BuryChanges(ctx, s.lease, jobstore.DeadLetter{Reason: "test"})
		},
	} {
		if err := write(t.Context()); !errors.Is(err, jobstore.ErrLeaseLost) {
			t.Errorf("%s: %v", what, err)
		}
		if d := cmp.Diff(before, dump(s)); d != "" {
			t.Errorf("%s wrote without the lease: %s", what, d)
		}
	}
}

// dump is everything that the publisher writes.
func dump(s *topicStore) map[string]string {
	all := make(map[string]string)
	for _, k := range []string{s.keys.PubIndex("m42"), s.keys.PubDone("m42"), s.keys.Cursors()} {
		fields, _ := s.do("HGETALL", k).AsStrMap()
		all[k] = fmt.Sprint(fields)
	}
	all["seq"] = s.text("GET", s.keys.PubSeq("m42"))
	members, _ := s.do("SMEMBERS", s.keys.PubDirty()).AsStrSlice()
	all["dirty"] = fmt.Sprint(members)
	letters, _ := s.do("XLEN", s.keys.PublisherDeadLetter()).AsInt64()
	all["letters"] = fmt.Sprint(letters)
	return all
}

// E-P7, D25: a trimmed change stream is noticed.
func TestChangesSayWhatWasMissed(t *testing.T) {
	s := newTopicStore(t)
	read := func(after string) ([]jobstore.ChangeEntry, bool) {
		t.Helper()
		changes, err := s.PublishedChanges(t.Context(), s.lease, jobstore.ChangesQuery{After: after, Cursor: after, Count: 3, Block: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return changes.Entries, changes.Missed
	}
	if changes, missed := read("0-0"); len(changes) != 0 || missed {
		t.Errorf("an empty stream: %v, missed %v", changes, missed)
	}
	for i := range 5 {
		s.commit("m42", isa95.JobOrderID(fmt.Sprint("JO-", i)), ready, nil)
	}
	changes, missed := read("0-0")
	if len(changes) != 3 || !missed {
		t.Errorf("from the beginning, where nothing can be known: %d, missed %v", len(changes), missed)
	}
	if c := changes[0]; c.JobOrderID != "JO-0" || c.Scope != "m42" || c.Type != "Test" {
		t.Errorf("entry: %+v", c)
	}
	last := changes[2].ID
	if changes, missed = read(last); len(changes) != 2 || missed {
		t.Errorf("the next: %d, missed %v", len(changes), missed)
	}
	end := changes[1].ID
	if changes, missed = read(end); len(changes) != 0 || missed {
		t.Errorf("the end: %d, missed %v", len(changes), missed)
	}
	if cursor, err := s.Cursor(t.Context()); err != nil || cursor != end {
		t.Errorf("cursor %q, %v, want %s", cursor, err, end)
	}
	s.do("XTRIM", s.keys.ChangesAll(), "MAXLEN", "1")
	if changes, missed = read(last); len(changes) != 1 || !missed {
		t.Errorf("trimmed: %d, missed %v", len(changes), missed)
	}
	s.do("DEL", s.keys.ChangesAll())
	if changes, missed = read(end); len(changes) != 0 || !missed {
		t.Errorf("deleted: %d, missed %v", len(changes), missed)
	}
}

// D9, E-P5: the cost does not depend on the number of job orders or scopes.
func TestRetainedRoundTrips(t *testing.T) {
	s := newTopicStore(t)
	var queries []jobstore.RetainedQuery
	var settlements []jobstore.Settlement
	for i := range 3 {
		scope := isa95.Scope(fmt.Sprint("cell-", i))
		q := jobstore.RetainedQuery{Scope: scope}
		for k := range 30 {
			id := isa95.JobOrderID(fmt.Sprintf("JO-%d-%d", i, k))
			s.commit(scope, id, ready, nil)
			q.JobOrderIDs = append(q.JobOrderIDs, id)
		}
		queries = append(queries, q)
		settlements = append(settlements, jobstore.Settlement{Scope: scope, Index: true})
	}
	proxy := testenv.CountingProxy(t, s.srv.URL)
	store := leaseStore(t, proxy.URL, s.keys.Prefix(), "counted")
	calls := []func() error{
		func() error { _, err := store.Retained(t.Context(), queries...); return err },
		func() error { _, err := store.Settle(t.Context(), s.lease, settlements...); return err },
		func() error {
			_, err := store.PublishedChanges(t.Context(), s.lease, jobstore.ChangesQuery{After: "0-0", Cursor: "0-0", Count: 500, Block: time.Second})
			return err
		},
	}
	for range 2 { // the second time with connections and scripts in place
		for i, call := range calls {
			proxy.Reset()
			if err := call(); err != nil {
				t.Fatal(err)
			}
			if trips := proxy.Trips(); trips < 1 {
				t.Errorf("call %d: %d round trips", i, trips)
			}
		}
	}
	for i, call := range calls {
		proxy.Reset()
		if err := call(); err != nil {
			t.Fatal(err)
		}
		if trips := proxy.Trips(); trips != 1 {
			t.Errorf("call %d: %d round trips, want 1", i, trips)
		}
	}
}

// E-S20: scripts that the server forgot are sent again, in pipelines too.
func TestRetainedScriptsAfterFlush(t *testing.T) {
	s := newTopicStore(t)
	s.commit("a", "JO-1", ready, nil)
	s.commit("b", "JO-2", ready, nil)
	s.do("SCRIPT", "FLUSH")
	indexes, err := s.Settle(t.Context(), s.lease, jobstore.Settlement{Scope: "a", Index: true}, jobstore.Settlement{Scope: "b", Index: true})
	if err != nil || len(indexes) != 2 || indexes[1].Scope != "b" || indexes[1].Seq != 1 {
		t.Errorf("%+v, %v", indexes, err)
	}
	s.do("SCRIPT", "FLUSH")
	changes, err := s.PublishedChanges(t.Context(), s.lease, jobstore.ChangesQuery{After: "0-0", Cursor: "1-1", Count: 10, Block: time.Millisecond})
	if err != nil || len(changes.Entries) != 2 {
		t.Errorf("%v, %v", changes, err)
	}
	if cursor, _ := s.Cursor(t.Context()); cursor != "1-1" {
		t.Errorf("cursor %q", cursor)
	}
}

// The scripts hold on the in-process store of demo and dev, too.
func TestRetainedOnMiniredis(t *testing.T) {
	srv := testenv.Miniredis(t)
	store, err := jobstore.Open(t.Context(), jobstore.Options{URL: srv.URL, Embedded: true, Prefix: srv.Prefix(t), Instance: "mini"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := &topicStore{Store: store, t: t, srv: srv}
	h := holdLease(t, store, jobstore.RolePublisher, time.Minute)
	s.lease = receive(t, "lease", h.got)
	s.commit("m42", "JO-1", ready, nil)
	s.commit("m42", "JO-2", aborted, &isa95.JobResponse{JobResponseID: "JO-2-response", JobOrderID: "JO-2"})
	read := s.retained(jobstore.RetainedQuery{Scope: "m42", JobOrderIDs: []isa95.JobOrderID{"JO-1", "JO-2"}})
	index := s.settle(jobstore.Settlement{Scope: "m42", Jobs: []jobstore.SettledJob{{Job: read.Jobs[1], Published: jobstore.Published{Result: read.Jobs[1].ResultRevision}, Shown: true}}})
	if index.Seq != 1 || len(index.Jobs) != 2 {
		t.Errorf("%+v", index)
	}
	changes, err := s.PublishedChanges(t.Context(), s.lease, jobstore.ChangesQuery{After: "0-0", Cursor: "1-1", Count: 10, Block: 10 * time.Millisecond})
	if err != nil || len(changes.Entries) != 3 || !changes.Missed {
		t.Fatalf("%v, %v", changes, err)
	}
	last := changes.Entries[2].ID
	if changes, err = s.PublishedChanges(t.Context(), s.lease, jobstore.ChangesQuery{After: last, Count: 10, Block: 10 * time.Millisecond}); err != nil || len(changes.Entries) != 0 || changes.Missed {
		t.Errorf("%v, %v", changes, err)
	}
	h.stop()
	if err := receive(t, "end", h.done); err != nil {
		t.Error(err)
	}
}
