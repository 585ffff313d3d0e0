package sfc

import (
	"testing"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// An Abort does not know in which mailboxes the recipe waits, so the work entry that comes with it takes the job out of
// them: no event is kept for it, and nothing is left over.
func TestAbortedJobLeavesTheMailboxes(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	s.running("JO")
	snap := s.load("JO")
	snap.Scope = scope
	next, _ := isa95.Next(snap.Job.State, isa95.Abort)
	abort := change(isa95.Abort, next, s.mes.Now())
	abort.Execution = snap.Execution.Abort("aborted by a test", s.mes.Now())
	abort.Response = jobstore.NewResponse(snap.Job, abort.Execution, next, s.mes.Now())
	abort.Work = []string{jobstore.WorkResume}
	if types := abort.Execution.WaitingTypes(); len(types) != 1 || types[0] != "probe.v1" {
		t.Fatalf("waits for %v", types)
	}
	s.must(s.mes.Commit(t.Context(), snap, abort))
	box := keys.New(s.prefix).SfcMailbox(string(scope), "probe.v1")
	exists := func() bool { return s.redis.Number(t, "EXISTS", box) == 1 }
	if !exists() {
		t.Fatal("nobody waits in the mailbox: this test shows nothing")
	}
	s.a.stop()
	s.start("c", setup{})
	s.settled()
	if exists() {
		t.Error("the aborted job still waits in the mailbox")
	}
}
