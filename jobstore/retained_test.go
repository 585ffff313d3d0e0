package jobstore_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

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
	s.lease = testenv.Take(t, "lease", h.got)
	t.Cleanup(func() {
		h.stop()
		testenv.Take(t, "end of the lease", h.done)
	})
	return s
}

// do sends a command as an operator would.
func (s *topicStore) do(words ...string) rueidis.RedisResult {
	s.t.Helper()
	return s.srv.Must(s.t, words...)
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

// Each rule of seq.
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

// Who lost the lease is told so by each call, and buries nothing. What else the scripts leave alone is shown by TestScriptsRefuse.
func TestLostLeaseIsSaid(t *testing.T) {
	s := newTopicStore(t)
	s.do("SET", s.lease.Key, "another")
	_, settle := s.Settle(t.Context(), s.lease, jobstore.Settlement{Scope: "m42", Force: true})
	_, changes := s.PublishedChanges(t.Context(), s.lease, jobstore.ChangesQuery{After: "0-0", Cursor: "9-9", Count: 10, Block: time.Millisecond})
	for what, err := range map[string]error{
		"settle": settle, "changes": changes, "cursor": s.SaveCursor(t.Context(), s.lease, "9-9"),
		"dead letter": s.BuryChanges(t.Context(), s.lease, jobstore.DeadLetter{Reason: "test"}),
	} {
		if !errors.Is(err, jobstore.ErrLeaseLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n, err := s.do("XLEN", s.keys.PublisherDeadLetter()).AsInt64(); n != 0 || err != nil {
		t.Errorf("%d dead letters, %v", n, err)
	}
}

// A trimmed change stream is noticed.
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

// The cost does not depend on the number of job orders or scopes.
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
