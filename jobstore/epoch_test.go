package jobstore_test

import (
	"context"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/jobstore"
)

// The store has an epoch from the first index on. It is another one after a seq that is above the stored one, and after nothing else.
func TestEpochChangesWithALoss(t *testing.T) {
	s := newTopicStore(t)
	s.commit("m42", "JO-1", ready, nil)
	for _, step := range []struct {
		what       string
		before     func()
		settlement jobstore.Settlement
		epoch      string
	}{
		{"no process has one to give", nil, jobstore.Settlement{}, ""},
		{"the first", nil, jobstore.Settlement{Epoch: "e1"}, "e1"},
		{"nothing lost", func() { s.commit("m42", "JO-2", ready, nil) }, jobstore.Settlement{Epoch: "e2", Floor: 1}, "e1"},
		{"one number, two contents", nil, jobstore.Settlement{Epoch: "e2", Floor: 2, Force: true}, "e1"},
		{"a seq above the stored one", nil, jobstore.Settlement{Epoch: "e2", Floor: 9}, "e2"},
		{"the same loss in another scope", nil, jobstore.Settlement{Scope: "m43", Epoch: "e2", Floor: 9}, "e2"},
		{"the seq is lost", func() { s.do("DEL", s.keys.PubSeq("m42")) }, jobstore.Settlement{Epoch: "e3", Floor: 10}, "e3"},
		{"everything is lost", func() { s.do("DEL", s.keys.PubEpoch()) }, jobstore.Settlement{Epoch: "e4"}, "e4"},
		{"another program's key", func() { s.do("DEL", s.keys.PubEpoch()); s.do("LPUSH", s.keys.PubEpoch(), "x") }, jobstore.Settlement{Epoch: "e5", Floor: 99}, ""},
	} {
		if step.before != nil {
			step.before()
		}
		if step.settlement.Scope == "" {
			step.settlement.Scope = "m42"
		}
		if index := s.settle(step.settlement); index.Err != nil || index.Epoch != step.epoch {
			t.Errorf("%s: epoch %q (%v), want %q", step.what, index.Epoch, index.Err, step.epoch)
		}
		if epoch, err := s.Epoch(t.Context()); err != nil || epoch != step.epoch {
			t.Errorf("%s: epoch %q is stored (%v), want %q", step.what, epoch, err, step.epoch)
		}
	}
}

// A process looks whether Redis still has what it committed. A replica that lacks it gives the store another epoch when it becomes the
// master; a replica that has it, and a change stream that was trimmed or deleted, do not.
func TestEpochAfterFailover(t *testing.T) {
	long.Test(t, "runs a failover")
	for _, c := range []struct {
		what string
		lose func(s *shop, replica *testenv.Node)
		lost bool
	}{
		{"the replica has everything", func(*shop, *testenv.Node) {}, false},
		{"the replica lags", func(_ *shop, replica *testenv.Node) { replica.Do(t, "REPLICAOF", "NO", "ONE") }, true},
		{"the changes are trimmed", func(s *shop, _ *testenv.Node) { s.do("XADD", s.keys.ChangesAll(), "MAXLEN", "1", "*", "a", "b") }, false},
		{"the changes are deleted", func(s *shop, _ *testenv.Node) { s.do("DEL", s.keys.ChangesAll()) }, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.do("SET", s.keys.PubEpoch(), "before")
			epoch := func() string {
				t.Helper()
				if err := s.CheckLosses(t.Context()); err != nil {
					t.Fatal(err)
				}
				epoch, err := s.Epoch(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return epoch
			}
			s.move("m42", "JO-1", 0, released)
			replica := testenv.StartReplica(t, s.srv.Addr)
			if got := epoch(); got != "before" {
				t.Fatalf("epoch %q before anything happened", got)
			}
			if c.lost {
				c.lose(s, replica)
			}
			s.move("m42", "JO-2", 0, released)
			if !c.lost {
				eventually(t, "the replica has it", func() bool {
					return replica.Says(t, "JO-2", "GET", s.keys.JobOrder("JO-2"))
				})
				c.lose(s, replica)
				replica.Do(t, "REPLICAOF", "NO", "ONE")
			}
			// The server takes over what the replica has, as clients see it that follow the master.
			host, port, _ := strings.Cut(replica.Addr, ":")
			s.do("REPLICAOF", host, port)
			eventually(t, "the server has what the replica had", func() bool {
				text, err := s.do("INFO", "replication").ToString()
				return err == nil && strings.Contains(text, "master_link_status:up")
			})
			s.do("REPLICAOF", "NO", "ONE")
			first := epoch()
			if lost := first != "before"; lost != c.lost {
				t.Errorf("epoch %q", first)
			}
			s.move("m42", "JO-3", 0, released)
			if again := epoch(); again != first {
				t.Errorf("epoch %q, and %q without another loss", first, again)
			}
		})
	}
}

// RunWorker looks from time to time, as long as it runs.
func TestWorkerWatchesForLosses(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.do("SET", s.keys.PubEpoch(), "before")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.RunWorker(ctx) }()
	s.move("m42", "JO-1", 0, released)
	s.move("m42", "JO-2", 0, released)
	last, err := s.LastChange(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	s.do("XDEL", s.keys.ChangesAll(), last) // as an older copy
	eventually(t, "another epoch", func() bool {
		epoch, err := s.Epoch(t.Context())
		return err == nil && epoch != "before"
	})
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
