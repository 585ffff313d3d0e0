package board

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testenv.LibraryGoroutines()...) }

// fake is a board in memory whose server can be away. Methods that a test does not need are missing.
type fake struct {
	driver.Store
	mu       sync.Mutex
	rows     []Row
	extends  []time.Duration // that were asked for
	extend   error           // what Extend says
	finish   error           // what Consume, Abandon and Trash say
	finished []string
	lists    int
	onList   func(n int)   // called with lists
	slow     time.Duration // of List
	away     error         // what List says

	slowClaim time.Duration // of the reply to Claim
	newest    int64         // that Claim tells
}

func (f *fake) do(change func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return change()
}

func (f *fake) Claim(ctx context.Context, r driver.Request) (all []driver.Grant, err error) {
	defer func() {
		if !lifecycle.Sleep(ctx, f.slowClaim) {
			all, err = nil, ctx.Err() // nobody hears of it
		}
	}()
	err = f.do(func() error {
		for i, p := range r.Candidates {
			for j := range f.rows {
				if f.rows[j].Ref == p.Ref && f.rows[j].Owner == "" {
					f.rows[j].Owner, f.rows[j].State = r.Owner, Claimed
					if all = append(all, driver.Grant{Index: i, Newest: f.newest, Fence: 1, Attempt: 1}); len(all) == r.Max {
						return nil
					}
				}
			}
		}
		if len(all) > 0 {
			return nil
		}
		return driver.ErrNotFound
	})
	return all, err
}

func (f *fake) Extend(_ context.Context, _ *Posting, _ string, ttl time.Duration, _ bool) error {
	return f.do(func() error {
		f.extends = append(f.extends, ttl)
		return f.extend
	})
}

func (f *fake) List(context.Context) (rows []Row, _ []Malformed, _ error) {
	time.Sleep(f.slow)
	return rows, nil, f.do(func() error {
		f.lists++
		rows = append(rows, f.rows...)
		if f.onList != nil {
			f.onList(f.lists)
		}
		return f.away
	})
}

func (f *fake) Finish(_ context.Context, how driver.Ending, all []driver.Held) (errs []error) {
	for range all {
		errs = append(errs, f.do(func() error {
			f.finished = append(f.finished, string(how))
			return f.finish
		}))
	}
	return errs
}

func (f *fake) Watch(ctx context.Context, changed func(free bool)) error {
	changed(true)
	<-ctx.Done()
	return ctx.Err()
}

func (f *fake) Close() error { return nil }

func (f *fake) Register(context.Context, Entity, bool) error { return driver.ErrUnsupported }

func (f *fake) set(change func()) { _ = f.do(func() error { change(); return nil }) }

func (f *fake) asked() (n int) {
	f.set(func() { n = len(f.extends) })
	return n
}

// posting is one that is there, unclaimed.
func posting(ref string, sequence int64) Row {
	return Row{Posting: &Posting{UUID: ref, Ref: ref, Name: ref, Sequence: sequence}, State: Unclaimed}
}

func claimed(r Row, owner string) Row {
	r.State, r.Owner = Claimed, owner
	return r
}

// fakeBoard is a board of one posting, "a".
func fakeBoard(t *testing.T) (*fake, *Board) {
	t.Helper()
	f := &fake{rows: []Row{posting("a", 1)}}
	b := New(f, nil)
	t.Cleanup(func() { b.Close() })
	return f, b
}

func mustClaim(t *testing.T, b *Board, o ClaimOptions) *Claim {
	t.Helper()
	c, err := b.ClaimNext(t.Context(), "w", o)
	testenv.Must(t, err)
	return c
}

// A claim is extended every third of its time. While the server is away it is tried more often, and when nine tenths of the time have passed since the last success was sent, the context ends.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := fakeBoard(t)
		defer b.Close()
		begin := time.Now()
		c := mustClaim(t, b, ClaimOptions{TTL: 30 * time.Second})
		time.Sleep(time.Minute + time.Second)
		if n := f.asked(); n != 6 || c.Context().Err() != nil {
			t.Errorf("%d extensions in a minute, %v", n, c.Context().Err())
		}
		f.set(func() { f.extend = fmt.Errorf("%w: cut", driver.ErrAway) })
		time.Sleep(20 * time.Second) // away, and back in time
		if n := f.asked(); n < 8 || n > 20 || c.Context().Err() != nil {
			t.Errorf("%d extensions, %v", n, c.Context().Err())
		}
		f.set(func() { f.extend = nil })
		time.Sleep(15 * time.Second)
		if c.Context().Err() != nil {
			t.Fatalf("lost after an outage that was short enough: %v", context.Cause(c.Context()))
		}
		f.set(func() { f.extend, f.extends = driver.ErrAway, nil })
		last := time.Now()
		<-c.Context().Done()
		var lost *LostError
		if err := context.Cause(c.Context()); !errors.As(err, &lost) || !errors.Is(err, driver.ErrAway) || !errors.Is(err, ErrClaimLost) {
			t.Errorf("cause is %v", err)
		}
		if took := time.Since(last); took < 17*time.Second || took > 27*time.Second {
			t.Errorf("ended after %v, %v after the claim", took, time.Since(begin))
		}
		n := f.asked()
		time.Sleep(time.Minute)
		if f.asked() != n {
			t.Error("a lost claim is extended")
		}
	})
}

func TestKeepAliveRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := fakeBoard(t)
		defer b.Close()
		c := mustClaim(t, b, ClaimOptions{TTL: 30 * time.Second})
		f.set(func() { f.extend = driver.ErrClaimLost })
		begin := time.Now()
		<-c.Context().Done()
		var lost *LostError
		if err := context.Cause(c.Context()); !errors.As(err, &lost) || lost.Err != nil || lost.Ref != "a" || time.Since(begin) > 10*time.Second {
			t.Errorf("cause is %v after %v", err, time.Since(begin))
		}
	})
}

// Without keep-alive a claim ends by the local clock, as Extend moves it, and nothing is sent.
func TestNoKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := fakeBoard(t)
		defer b.Close()
		begin := time.Now()
		c := mustClaim(t, b, ClaimOptions{TTL: 10 * time.Second, NoKeepAlive: true})
		time.Sleep(5 * time.Second)
		testenv.Must(t, c.Extend(t.Context(), 20*time.Second))
		<-c.Context().Done()
		if took := time.Since(begin); took != 23*time.Second { // 5 s and nine tenths of 20 s
			t.Errorf("ended after %v", took)
		}
		if n := f.asked(); n != 1 {
			t.Errorf("%d extensions", n)
		}
	})
}

// Extend says how long from then on, and the keep-alive follows. The context ends with the board.
func TestExtendDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := fakeBoard(t)
		c := mustClaim(t, b, ClaimOptions{TTL: 30 * time.Second})
		for _, step := range []struct {
			ttl, during time.Duration
			want        int // keep-alives meanwhile
		}{{time.Hour, 19 * time.Minute, 0}, {NoTTL, 24 * time.Hour, 0}, {30 * time.Second, time.Minute + time.Second, 6}} {
			testenv.Must(t, c.Extend(t.Context(), step.ttl))
			f.set(func() { f.extends = nil })
			if time.Sleep(step.during); f.asked() != step.want {
				t.Errorf("%v: kept alive %d times, want %d", step.ttl, f.asked(), step.want)
			}
		}
		b.Close()
		<-c.Context().Done()
		if err := context.Cause(c.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("cause is %v", err)
		}
	})
}

// A finish is tried until it is known what became of it, and a claim that may be another's is not taken for finished.
func TestFinishUnknown(t *testing.T) {
	away := fmt.Errorf("%w: cut", driver.ErrAway)
	for name, c := range map[string]struct {
		do      func(*Claim, context.Context) error
		then    error         // what the server says after an outage
		outage  time.Duration // the claim is trusted for 9 s
		success bool
	}{
		"consumed, the reply lost":      {(*Claim).Consume, driver.ErrNotFound, time.Second, true},
		"consumed after all":            {(*Claim).Consume, nil, time.Second, true},
		"another may have consumed it":  {(*Claim).Consume, driver.ErrNotFound, 20 * time.Second, false}, // the first try may not have arrived
		"given back by the server":      {(*Claim).Consume, driver.ErrUnowned, 20 * time.Second, false},
		"another has it":                {(*Claim).Consume, &NotOwnerError{Ref: "a", Owner: "v", Who: "w"}, 20 * time.Second, false},
		"abandoned, the reply lost":     {(*Claim).Abandon, driver.ErrUnowned, time.Second, true},
		"abandoned, and another has it": {(*Claim).Abandon, &NotOwnerError{Ref: "a", Owner: "v", Who: "w"}, time.Second, true},
		"trashed, the reply lost":       {(*Claim).Trash, driver.ErrNotFound, time.Second, true},
		"another may have trashed it":   {(*Claim).Trash, driver.ErrNotFound, 20 * time.Second, false},
		"not trashed":                   {(*Claim).Trash, driver.ErrUnowned, 20 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, b := fakeBoard(t)
				defer b.Close()
				claim := mustClaim(t, b, ClaimOptions{TTL: 10 * time.Second})
				f.set(func() { f.finish, f.extend = away, away })
				time.AfterFunc(c.outage, func() { f.set(func() { f.finish = c.then }) })
				err := c.do(claim, t.Context())
				if c.success != (err == nil) || err != nil && !errors.Is(err, ErrClaimLost) {
					t.Errorf("got %v", err)
				}
				var lost *LostError
				if doubt := strings.HasPrefix(name, "another may"); doubt != (errors.As(err, &lost) && lost.Err != nil) {
					t.Errorf("%v: says that it is unknown: %v, want %v", err, !doubt, doubt)
				}
				if claim.Context().Err() == nil {
					t.Error("the context has not ended")
				}
			})
		})
	}
}

// What was not tried while it was trusted was refused for what it is.
func TestFinishTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := fakeBoard(t)
		defer b.Close()
		c := mustClaim(t, b, ClaimOptions{TTL: 10 * time.Second, NoKeepAlive: true})
		time.Sleep(11 * time.Second)
		f.set(func() { f.finish = driver.ErrAway })
		time.AfterFunc(time.Second, func() { f.set(func() { f.finish = driver.ErrNotFound }) })
		if err := c.Consume(t.Context()); !errors.Is(err, ErrClaimLost) {
			t.Errorf("got %v", err)
		}
	})
}

// A conductor that cannot finish a posting lets go of it: it is not kept alive any more.
func TestConductorLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := fakeBoard(t)
		defer b.Close()
		f.finish = fmt.Errorf("%w: OOM", driver.ErrAway) // while Extend works
		var events []Outcome
		conductor, err := b.Conductor(func(context.Context, *Claim) error { return AbandonWith(errors.New("no book")) },
			ConductorOptions{TTL: 3 * time.Second, MaxDispatches: 1, Observe: func(e ConductorEvent) { events = append(events, e.Outcome) }})
		testenv.Must(t, err)
		testenv.Must(t, conductor.Run(t.Context()))
		synctest.Wait() // an extension may be due at the instant at which it lets go
		n := f.asked()
		time.Sleep(time.Minute)
		if n == 0 || f.asked() != n || !reflect.DeepEqual(events, []Outcome{Started, Lost}) {
			t.Errorf("%d extensions, then %d; %v", n, f.asked(), events)
		}
	})
}

// A conductor that has given a posting back rests when others take or finish it meanwhile: it does not read the board again and again.
func TestConductorRestsWhenOthersFinish(t *testing.T) {
	for name, change := range map[string]func(*fake){
		"it is gone":     func(f *fake) { f.rows = nil },
		"another has it": func(f *fake) { f.rows = []Row{claimed(posting("a", 1), "v")} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, b := fakeBoard(t)
				defer b.Close()
				ended := make(chan struct{}, 1)
				conductor, err := b.Conductor(func(context.Context, *Claim) error { return AbandonWith(errors.New("not yet")) },
					ConductorOptions{Backoff: 10 * time.Second, Observe: func(e ConductorEvent) {
						if e.Outcome == Abandoned {
							f.set(func() { change(f) })
							ended <- struct{}{}
						}
					}})
				testenv.Must(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				stopped := make(chan error, 1)
				go func() { stopped <- conductor.Run(ctx) }()
				<-ended
				const far = 1000
				f.set(func() {
					f.lists, f.onList = 0, func(n int) {
						if n > far {
							cancel()
						}
					}
				})
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
				}
				cancel()
				if err := <-stopped; err != nil {
					t.Error(err)
				}
				f.set(func() {
					if f.lists > 10 {
						t.Errorf("%d listings in a minute without a change", f.lists)
					}
				})
			})
		})
	}
}

// Who waits is not told of an outage, but the log is, once.
func TestOutageIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		f := &fake{away: fmt.Errorf("%w: cut", driver.ErrAway)}
		b := New(f, slog.New(slog.NewTextHandler(&text, nil)))
		defer b.Close()
		time.AfterFunc(time.Minute, func() { f.set(func() { f.away, f.rows = nil, []Row{posting("a", 1)} }) })
		testenv.Must(t, b.WaitUnclaimed(t.Context()))
		b.Close()
		if got := text.String(); strings.Count(got, "cannot be read") != 1 || strings.Count(got, "answers again") != 1 {
			t.Errorf("the log says\n%s", got)
		}
	})
}

// A conductor that is stopped while its claim is on its way gives the posting back.
func TestConductorStopsWhileClaiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := fakeBoard(t)
		defer b.Close()
		f.slowClaim = 100 * time.Millisecond
		conductor, err := b.Conductor(func(context.Context, *Claim) error { return errors.New("called") }, ConductorOptions{})
		testenv.Must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if err := conductor.Run(ctx); err != nil {
			t.Error(err)
		}
		if !reflect.DeepEqual(f.finished, []string{"abandon"}) {
			t.Errorf("finished: %q", f.finished)
		}
	})
}

// A line that was read for a claim is tried however long the reading took.
func TestSlowLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := fakeBoard(t)
		defer b.Close()
		f.slow = time.Minute
		if c := mustClaim(t, b, ClaimOptions{}); c.Posting().Ref != "a" {
			t.Errorf("got %s", c.Posting().Ref)
		}
		if _, err := b.ClaimNext(t.Context(), "w", ClaimOptions{}); !errors.Is(err, ErrNothing) {
			t.Errorf("got %v", err)
		}
		if f.lists != 2 {
			t.Errorf("%d listings", f.lists)
		}
	})
}

// What is urgent does not wait until all that was listed before it is claimed: a claim tells that something was posted since.
func TestUrgentIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := fakeBoard(t)
		defer b.Close()
		f.newest = 1
		f.rows = append(f.rows, posting("b", 2), posting("c", 3))
		mustClaim(t, b, ClaimOptions{})
		urgent := posting("urgent", 4)
		urgent.Priority = VeryHigh
		f.set(func() { f.newest, f.rows = 2, append(f.rows, urgent) })
		time.Sleep(soonStale + time.Millisecond)
		for _, want := range []string{"b", "urgent", "c"} {
			if c := mustClaim(t, b, ClaimOptions{}); c.Posting().Ref != want {
				t.Errorf("got %s, want %s", c.Posting().Ref, want)
			}
		}
	})
}

// A context that ends while candidates are away is heard.
func TestLineAwaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b := fakeBoard(t)
		defer b.Close()
		testenv.Must(t, b.line.refill(t.Context(), b, time.Now()))
		taken, read := b.line.take(time.Now(), 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if more, err := b.line.await(ctx); more || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("more %v, %v", more, err)
		}
		time.AfterFunc(time.Second, func() { b.line.giveBack(len(taken), taken, read) })
		if more, err := b.line.await(t.Context()); !more || err != nil {
			t.Errorf("more %v, %v", more, err)
		}
		if more, err := b.line.await(t.Context()); !more || err != nil {
			t.Errorf("of what is there: more %v, %v", more, err)
		}
	})
}

// What is given back after the line was read again does not stand before what came meanwhile.
func TestLineReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b := fakeBoard(t)
		defer b.Close()
		for range 2 {
			time.Sleep(time.Second)
			testenv.Must(t, b.line.refill(t.Context(), b, time.Now()))
			taken, read := b.line.take(time.Now(), 1)
			testenv.Must(t, b.line.refill(t.Context(), b, time.Now().Add(time.Nanosecond)))
			b.line.giveBack(len(taken), taken, read)
			if len(b.line.back) != 0 || len(b.line.waiting) != len(taken) {
				t.Errorf("%d given back, %d waiting, of %d", len(b.line.back), len(b.line.waiting), len(taken))
			}
		}
	})
}

// Who waits for work does not read the board because others have done theirs; who waits for the end of a posting does.
func TestWorkThatEndsWakesWhoWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := fakeBoard(t)
		defer b.Close()
		f.rows = []Row{claimed(posting("a", 1), "w")}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		lists := func(free bool) (n int) {
			time.Sleep(time.Second)
			f.set(func() { f.lists = 0 })
			b.hub.change(free)
			time.Sleep(time.Second)
			f.set(func() { n = f.lists })
			return n
		}
		go b.WaitUnclaimed(ctx)
		if without, with := lists(false), lists(true); without != 0 || with != 1 {
			t.Errorf("%d listings when work has ended, %d when some is free", without, with)
		}
		go b.WaitFor(ctx, f.rows[0].Posting)
		if n := lists(false); n != 1 {
			t.Errorf("%d listings when somebody waits for the end", n)
		}
	})
}

func TestDifferences(t *testing.T) {
	a, b := posting("a", 1), posting("b", 2)
	event := func(kind EventKind, r Row) Event { return Event{kind, r} }
	for name, c := range map[string]struct {
		before, now []Row
		want        []Event
	}{
		"nothing":             {nil, nil, nil},
		"the same":            {[]Row{a, claimed(b, "w")}, []Row{a, claimed(b, "w")}, nil},
		"posted":              {nil, []Row{a, b}, []Event{event(EventPosted, a), event(EventPosted, b)}},
		"posted and claimed":  {nil, []Row{claimed(a, "w")}, []Event{event(EventPosted, claimed(a, "w")), event(EventClaimed, claimed(a, "w"))}},
		"claimed":             {[]Row{a}, []Row{claimed(a, "w")}, []Event{event(EventClaimed, claimed(a, "w"))}},
		"released":            {[]Row{claimed(a, "w")}, []Row{a}, []Event{event(EventReleased, a)}},
		"another has it":      {[]Row{claimed(a, "w")}, []Row{claimed(a, "v")}, []Event{event(EventReleased, claimed(a, "v")), event(EventClaimed, claimed(a, "v"))}},
		"removed, in order":   {[]Row{b, claimed(a, "w")}, nil, []Event{event(EventRemoved, claimed(a, "w")), event(EventRemoved, b)}},
		"removed, and posted": {[]Row{a}, []Row{b}, []Event{event(EventPosted, b), event(EventRemoved, a)}},
	} {
		t.Run(name, func(t *testing.T) {
			known := map[string]Row{}
			differences(known, c.before)
			if got := differences(known, c.now); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if got := differences(known, c.now); len(got) != 0 {
				t.Errorf("again: %v", got)
			}
		})
	}
}

// URLs that name no board are refused before anything is dialled.
func TestOpenRefuses(t *testing.T) {
	for _, url := range []string{"", "http://host", "host:6379", "etcd://host"} {
		var invalid *InvalidError
		if _, err := Open(t.Context(), url); !errors.As(err, &invalid) || invalid.Field != "URL" {
			t.Errorf("%q: %v", url, err)
		}
	}
}
