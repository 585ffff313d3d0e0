package jobstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// live runs the worker of the shop and one of its loops until stop, or the end of the test.
func (s *shop) live(loop func(context.Context) error) (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	worker, stopWorker := context.WithCancel(context.Background())
	var loops, beat sync.WaitGroup
	beat.Go(func() {
		if err := s.RunWorker(worker); err != nil {
			s.t.Error(err)
		}
	})
	loops.Go(func() {
		if err := loop(ctx); err != nil {
			s.t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		loops.Wait()
		stopWorker()
		beat.Wait()
	})
	s.t.Cleanup(stop)
	return stop
}

// wantEmpty waits until a stream has no entry, and fails if its group holds ghosts.
func (s *shop) wantEmpty(stream string) {
	s.t.Helper()
	eventually(s.t, stream+" is empty", func() bool { return s.number("XLEN", stream) == 0 })
	groups, err := s.do("XINFO", "GROUPS", stream).ToArray()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, group := range groups {
		info, err := group.AsMap()
		if err != nil {
			s.t.Fatal(err)
		}
		pending := info["pending"]
		if n, _ := pending.AsInt64(); n != 0 {
			s.t.Errorf("%s: %d entries are pending for ever", stream, n)
		}
	}
}

// Commands and events leave their outbox when they are sent, once each, and leave no ghost behind: nothing in the stream, nothing
// pending.
func TestOutboxesLeaveNoGhosts(t *testing.T) {
	s := newShop(t)
	var want []string
	for i := range 30 {
		x := s.run("m42", isa95.JobOrderID(fmt.Sprintf("JO-%d", i)))
		want = append(want, x.Actions[0].CommandID)
		snap := s.load(jobstore.Query{JobOrderID: isa95.JobOrderID(x.JobID), Scope: "m42", Mailboxes: []string{pullType}})
		s.commit(snap, jobstore.Change{Mailboxes: map[string]*recipe.Mailbox{pullType: {}}})
	}
	s.finishAll(30)
	var mu sync.Mutex
	var sent []string
	tries := 0
	s.live(func(ctx context.Context) error {
		return s.RunOutbox(ctx, 8, nil, func(_ context.Context, c recipe.Command) error {
			mu.Lock()
			defer mu.Unlock()
			if tries++; tries == 5 {
				return errors.New("the broker is away")
			}
			sent = append(sent, c.ID)
			return nil
		})
	})
	s.wantEmpty(s.keys.SfcOutbox())
	mu.Lock()
	slices.Sort(sent)
	slices.Sort(want)
	if !slices.Equal(sent, want) {
		t.Errorf("sent %d commands, want %d: %v", len(sent), len(want), sent)
	}
	mu.Unlock()

	other := openShop(t, s.srv, jobstore.Options{Prefix: s.keys.Prefix()})
	events := make(map[string]int)
	other.live(func(ctx context.Context) error {
		return other.RunEvents(ctx, 8, nil, func(_ context.Context, scope isa95.Scope, e cloudevent.Event) error {
			mu.Lock()
			defer mu.Unlock()
			events[e.ID]++
			if scope != "m42" || e.Subject != "m42" {
				t.Errorf("event of %s for %s", e.Subject, scope)
			}
			return nil
		})
	})
	s.wantEmpty(s.keys.EventReceiver())
	mu.Lock()
	defer mu.Unlock()
	if len(events) != 90 { // AllowedToStart, Running, Ended
		t.Errorf("%d events, want 90", len(events))
	}
	for id, n := range events {
		if n != 1 {
			t.Errorf("event %s was sent %d times", id, n)
		}
	}
}

// A command is sent with parameters of any length and depth, which other builds may have stored.
func TestCommandsBeyondTheLimitsOfBodies(t *testing.T) {
	s := newShop(t)
	want := []string{
		`{"program":[` + strings.Repeat("1,", 20_000) + `1]}`,
		strings.Repeat(`{"a":`, 80) + "1" + strings.Repeat("}", 80),
		"null",
	}
	for _, parameters := range want {
		s.do("XADD", s.keys.SfcOutbox(), "*", "scope", "m42", "job_id", "JO-1", "command", `{"ID":"C-1","JobID":"JO-1","Parameters":`+parameters+`,"Deadline":"2026-03-01T08:00:00.5Z"}`)
	}
	var sent []string
	s.live(func(ctx context.Context) error {
		return s.RunOutbox(ctx, 1, nil, func(_ context.Context, c recipe.Command) error {
			if c.ID != "C-1" || c.JobID != "JO-1" || !c.Deadline.Equal(time.Date(2026, 3, 1, 8, 0, 0, 5e8, time.UTC)) {
				t.Errorf("%+v", c)
			}
			sent = append(sent, cmp.Or(string(c.Parameters), "null"))
			return nil
		})
	})
	s.wantEmpty(s.keys.SfcOutbox())
	if !slices.Equal(sent, want) {
		t.Errorf("%d commands are sent, want %d with their parameters", len(sent), len(want))
	}
}

func (s *shop) finishAll(n int) {
	s.t.Helper()
	for i := range n {
		s.finish("m42", isa95.JobOrderID(fmt.Sprintf("JO-%d", i)))
	}
}

// worker is a WorkHandler of functions.
type worker struct {
	work   func(context.Context, *jobstore.WorkItem) error
	giveUp func(context.Context, *jobstore.WorkItem, error) error
}

func (w worker) Work(ctx context.Context, item *jobstore.WorkItem) error { return w.work(ctx, item) }
func (w worker) GiveUp(ctx context.Context, item *jobstore.WorkItem, cause error) error {
	return w.giveUp(ctx, item, cause)
}
func (w worker) Lost(int) {}

// enqueue puts work on the stream, as Start does.
func (s *shop) enqueue(id isa95.JobOrderID) {
	s.t.Helper()
	s.commit(s.load(jobstore.Query{JobOrderID: id, Scope: "m42"}), jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.StoreAndStart, Order: &isa95.JobOrder{JobOrderID: string(id)}, State: released},
		Work:       []string{jobstore.WorkStart},
	})
}

// An item is settled by the commit that names it, or when Work returns nil; it comes again, under the same id, after an error and
// after a conflict; what is given up is told, and goes to the dead letters.
func TestWorkES8(t *testing.T) {
	s := openShop(t, testenv.Redis(t), jobstore.Options{MaxDeliveries: 3})
	for _, id := range []isa95.JobOrderID{"commits", "nothing", "fails-once", "hopeless", "conflicts-once"} {
		s.enqueue(id)
	}
	s.do("XADD", s.keys.SfcWork(), "*", "action", "start_recipe") // no job
	var mu sync.Mutex
	seen := make(map[isa95.JobOrderID][]string)
	gaveUp := make(map[isa95.JobOrderID]error)
	begin := func(ctx context.Context, item *jobstore.WorkItem) error {
		snap, err := s.Load(ctx, jobstore.Query{JobOrderID: item.JobOrderID, Scope: item.Scope})
		if err != nil {
			return err
		}
		if item.JobOrderID == "conflicts-once" && len(seen[item.JobOrderID]) == 1 {
			s.move("m42", item.JobOrderID, 5, released)
		}
		return s.Commit(ctx, snap, jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Run, State: running}, Item: item, Now: s.Now()})
	}
	s.live(func(ctx context.Context) error {
		return s.RunWork(ctx, 4, worker{
			work: func(ctx context.Context, item *jobstore.WorkItem) error {
				mu.Lock()
				defer mu.Unlock()
				seen[item.JobOrderID] = append(seen[item.JobOrderID], item.ID)
				if item.Action != jobstore.WorkStart || item.Scope != "m42" {
					t.Errorf("item %+v", item)
				}
				switch {
				case item.JobOrderID == "nothing":
					return nil
				case item.JobOrderID == "hopeless", item.JobOrderID == "fails-once" && len(seen["fails-once"]) == 1:
					return errors.New("no")
				}
				return begin(ctx, item)
			},
			giveUp: func(_ context.Context, item *jobstore.WorkItem, cause error) error {
				mu.Lock()
				defer mu.Unlock()
				gaveUp[item.JobOrderID] = cause
				return nil
			},
		})
	})
	s.wantEmpty(s.keys.SfcWork())
	mu.Lock()
	defer mu.Unlock()
	for id, want := range map[isa95.JobOrderID]int{"commits": 1, "nothing": 1, "fails-once": 2, "hopeless": 3, "conflicts-once": 2} {
		if got := seen[id]; len(got) != want || len(slices.Compact(slices.Clone(got))) != 1 {
			t.Errorf("%s came as %v, want %d times the same id", id, got, want)
		}
	}
	if len(gaveUp) != 1 || gaveUp["hopeless"] == nil {
		t.Errorf("gave up %v", gaveUp)
	}
	for _, id := range []isa95.JobOrderID{"commits", "fails-once", "conflicts-once"} {
		if got := s.load(jobstore.Query{JobOrderID: id}).Job.State; got != running {
			t.Errorf("%s is %s", id, got)
		}
	}
	if dead := s.number("XLEN", s.keys.DeadLetter(s.keys.SfcWork())); dead != 2 {
		t.Errorf("%d dead letters, want 2: hopeless, and the one without a job", dead)
	}
}

// A due timer is handed to one caller, and to another only when nobody set the next one in time; those not due are left.
func TestDue(t *testing.T) {
	s := newShop(t)
	now := s.Now().UnixMilli()
	for i := range 5 {
		s.do("ZADD", s.keys.SfcTimers(), fmt.Sprint(now-int64(i)), fmt.Sprintf("JO-%d", i))
	}
	s.do("ZADD", s.keys.SfcTimers(), fmt.Sprint(now+60_000), "later")
	var all []string
	var mu sync.Mutex
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 3 {
				got, err := s.Due(t.Context(), 2, time.Minute, true)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for _, id := range got {
					all = append(all, string(id))
				}
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	slices.Sort(all)
	if want := []string{"JO-0", "JO-1", "JO-2", "JO-3", "JO-4"}; !slices.Equal(all, want) {
		t.Errorf("handed out %v, want each once", all)
	}
	if got, err := s.Due(t.Context(), 10, time.Minute, true); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	s.do("ZADD", s.keys.SfcTimers(), fmt.Sprint(now), "JO-9")
	if got, err := s.Due(t.Context(), 10, time.Millisecond, true); err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	eventually(t, "it is handed out again", func() bool {
		got, err := s.Due(t.Context(), 10, time.Minute, true)
		return err == nil && len(got) == 1 && got[0] == "JO-9"
	})
	if n := s.number("ZCARD", s.keys.SfcTimers()); n != 7 {
		t.Errorf("%d timers, want 7", n)
	}
	if d := time.Since(s.Now()); d < -time.Minute || d > time.Minute {
		t.Errorf("the server's clock differs by %v", d)
	}
}
