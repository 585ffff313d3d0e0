package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// Property: producers add, workers handle, some are cut off in the middle of it. Every entry is handled at least once and
// settled exactly once, and nothing is left: no entry, nothing pending, no consumer of the dead.
func TestNothingIsLostWhenWorkersDie(t *testing.T) {
	long.Test(t, "waits for leases to end")
	for _, seed := range []uint64{1, 2, 3, uint64(time.Now().UnixNano())} {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			var (
				producers, each = 1 + rnd.IntN(4), 50 + rnd.IntN(150)
				workers         = 2 + rnd.IntN(3)
				kills           = 1 + rnd.IntN(3)
				slots           = 1 + rnd.IntN(8)
				ready           = []int{0, -1, 10}[rnd.IntN(3)]
				total           = producers * each
				progress        = make(chan struct{}, 10*total)
			)
			t.Logf("%d producers of %d, %d workers of %d slots and %d ready, %d kills", producers, each, workers, slots, ready, kills)
			e := newEnv(t, testenv.Redis(t))
			settled := func(v string) string { return e.keys.PubSeq("settled-" + v) }
			var handled sync.Map
			join := func(i int) *member {
				var m *member
				there := make(chan struct{})
				m = e.joinTTL(fmt.Sprintf("w%d", i), victimTTL, Group{Slots: slots, Ready: ready, MaxDeliveries: -1, Handle: func(_ context.Context, en *Entry) (Result, error) {
					<-there
					handled.Store(en.Fields["v"], true)
					c := commit.New()
					en.Settle(c)
					c.Incr(settled(en.Fields["v"]))
					if _, err := c.Run(context.Background(), m.rdb); err != nil {
						return Ack, err
					}
					progress <- struct{}{}
					return Settled, nil
				}})
				close(there)
				return m
			}
			alive := make([]*member, workers)
			for i := range alive {
				alive[i] = join(i)
			}
			var adding sync.WaitGroup
			for p := range producers {
				adding.Go(func() {
					for i := range each {
						e.add(fmt.Sprintf("%d-%d", p, i))
					}
				})
			}
			for k := range kills {
				for range total / (kills + 1) { // somewhere in the middle of the work
					testenv.Take(t, "progress", progress)
				}
				victim := rnd.IntN(len(alive))
				alive[victim].kill()
				alive[victim] = join(workers + k)
			}
			adding.Wait()
			e.empty()
			var names []string
			for _, m := range alive {
				names = append(names, m.worker.ID())
			}
			e.eventually("none of the dead is a consumer", func() bool { // one that was never given an entry is not listed
				return !slices.ContainsFunc(e.consumerNames(), func(n string) bool { return !slices.Contains(names, n) })
			})
			for p := range producers {
				for i := range each {
					v := fmt.Sprintf("%d-%d", p, i)
					if _, ok := handled.Load(v); !ok {
						t.Errorf("%s was never handled", v)
					}
					if n := e.number("GET", settled(v)); n != 1 {
						t.Errorf("%s was settled %d times", v, n)
					}
				}
			}
			for _, m := range alive {
				m.leave()
			}
			if names := e.consumerNames(); len(names) != 0 {
				t.Errorf("consumers left: %q", names)
			}
		})
	}
}

func (e *env) deadLetters() (letters []map[string]string) {
	e.t.Helper()
	list, err := e.must("XRANGE", e.keys.DeadLetter(e.stream), "-", "+").AsXRange()
	testenv.Must(e.t, err)
	for _, x := range list {
		letters = append(letters, x.FieldValues)
	}
	return letters
}

// An entry whose handler fails is neither forgotten nor tried for ever: after the limit it is a dead letter, told first to who cares; at the first failure if no
// repetition can mend it. A panic counts, as does the end of the goroutine, and ends nothing: the slot goes on.
func TestPoison(t *testing.T) {
	unusable := errors.New("unusable")
	for name, c := range map[string]struct {
		fail   func() error
		tries  int
		reason string
		says   string
	}{
		"error":    {func() error { return errors.New("cannot be done") }, 3, "failed", "cannot be done"},
		"hopeless": {func() error { return fmt.Errorf("decode: %w", unusable) }, 1, "failed", "decode: unusable"},
		"panic":    {func() error { panic("on the floor") }, 3, "panic", "stream: the handler panicked: on the floor"},
		"goexit":   {func() error { runtime.Goexit(); return nil }, 3, "failed", ErrExited.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, testenv.Redis(t))
			var tries atomic.Int32
			told, good := make(chan error, 10), make(chan string, 10)
			outcomes := make(chan Outcome, 100)
			e.join("w", Group{MaxDeliveries: 3, Hopeless: func(err error) bool { return errors.Is(err, unusable) },
				Handle: func(_ context.Context, en *Entry) (Result, error) {
					if en.Fields["v"] == "poison" {
						if got := int(tries.Add(1)); en.Failures != got-1 || en.Deliveries != 1 {
							t.Errorf("try %d: %d failures, delivery %d", got, en.Failures, en.Deliveries)
						}
						return Ack, c.fail()
					}
					good <- en.Fields["v"]
					return Ack, nil
				},
				Dead: func(_ context.Context, en *Entry, err error) error {
					if en.Fields["v"] != "poison" {
						t.Errorf("told of %+v", en)
					}
					told <- err
					return nil
				},
				Observe: func(o Outcome, n int) {
					for range n {
						outcomes <- o
					}
				},
			})
			ids := e.add("poison", "good")
			if v := testenv.Take(t, "the other entry", good); v != "good" {
				t.Errorf("got %s", v)
			}
			if err := testenv.Take(t, "Dead", told); err == nil || err.Error() != c.says {
				t.Errorf("told %v", err)
			}
			e.empty()
			letters := e.deadLetters()
			if len(letters) != 1 {
				t.Fatalf("dead letters: %v", letters)
			}
			for field, want := range map[string]string{"v": "poison", "dead-reason": c.reason, "dead-error": c.says, "dead-id": ids[0],
				"dead-stream": e.stream, "dead-group": "g", "dead-deliveries": "1", "dead-failures": strconv.Itoa(c.tries)} {
				if got := letters[0][field]; got != want {
					t.Errorf("%s: %q, want %q", field, got, want)
				}
			}
			if n := int(tries.Load()); n != c.tries {
				t.Errorf("tried %d times", n)
			}
			count := map[Outcome]int{}
			for range c.tries + 2 {
				count[testenv.Take(t, "outcome", outcomes)]++
			}
			if count[Failed] != c.tries || count[Dead] != 1 || count[Handled] != 1 || len(outcomes) != 0 {
				t.Errorf("outcomes %v, and %d more", count, len(outcomes))
			}
		})
	}
}

// An error that is nobody's fault is tried again without counting, and the loop can be stopped meanwhile.
func TestTransientErrorsDoNotCount(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	away := errors.New("the broker is away")
	var tries atomic.Int32
	done := make(chan int, 1)
	m := e.join("w", Group{MaxDeliveries: 1, Transient: func(err error) bool { return errors.Is(err, away) },
		Handle: func(_ context.Context, en *Entry) (Result, error) {
			if tries.Add(1) < 4 {
				return Ack, fmt.Errorf("publish: %w", away)
			}
			done <- en.Failures
			return Ack, nil
		}})
	e.add("v")
	if n := testenv.Take(t, "success", done); n != 0 {
		t.Errorf("%d failures counted", n)
	}
	e.empty()
	tries.Store(-1000)
	e.add("w")
	e.eventually("trying", func() bool { return tries.Load() > -999 })
	m.leave()
	if n := e.pending(); n != 1 {
		t.Errorf("%d entries handed back, want 1", n)
	}
}

// The first error that is trouble is a warning, and one that is none is not.
func TestExpectedErrorsAreNoWarning(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	away, conflict := errors.New("the broker is away"), errors.New("another was first")
	errs := []error{conflict, conflict, away, away, conflict}
	var log testenv.Log
	e.join("w", Group{
		Log:       slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Transient: func(error) bool { return true }, Expected: func(err error) bool { return errors.Is(err, conflict) },
		Handle: func(context.Context, *Entry) (Result, error) {
			if len(errs) == 0 {
				return Ack, nil
			}
			err := errs[0]
			errs = errs[1:]
			return Ack, err
		},
	})
	e.add("v")
	e.empty()
	if log.Count("waits to be tried again") != 1 || log.Count("the broker is away") != 1 {
		t.Error("want one warning, of the broker")
	}
}

// An entry that each process died with is dead without being begun again; others that were only near are not.
func TestKillerOfProcesses(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	e.must("XGROUP", "CREATE", e.stream, "g", "0", "MKSTREAM")
	ids := e.add("killer", "near")
	e.must("XREADGROUP", "GROUP", "g", "dead", "COUNT", "2", "STREAMS", e.stream, ">")
	e.must("XCLAIM", e.stream, "g", "dead", "0", ids[0], "RETRYCOUNT", "5", "JUSTID")
	e.must("XCLAIM", e.stream, "g", "dead", "0", ids[1], "RETRYCOUNT", "4", "JUSTID")
	got := make(chan string, 10)
	told := make(chan error, 10)
	e.join("w", Group{
		Handle: func(_ context.Context, en *Entry) (Result, error) {
			got <- fmt.Sprintf("%s %d", en.Fields["v"], en.Deliveries)
			return Ack, nil
		},
		Dead: func(_ context.Context, en *Entry, err error) error { told <- err; return nil },
	})
	if err := testenv.Take(t, "Dead", told); !errors.Is(err, ErrDeliveries) {
		t.Errorf("told %v", err)
	}
	if v := testenv.Take(t, "the other", got); v != "near 5" {
		t.Errorf("got %s", v)
	}
	e.empty()
	if l := e.deadLetters(); len(l) != 1 || l[0]["v"] != "killer" || l[0]["dead-reason"] != "deliveries" || l[0]["dead-deliveries"] != "5" {
		t.Errorf("dead letters %v", l)
	}
}

// Entries that outlived two processes are handled one at a time, so that the next death counts for one of them only.
func TestSuspectsRunAlone(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	ids := e.ofTheDead(2, "1", "2", "3", "4")
	var running, worst atomic.Int32
	proceed, begun := make(chan struct{}), make(chan struct{}, 10)
	e.join("w", Group{Slots: 8, Handle: func(_ context.Context, en *Entry) (Result, error) {
		worst.Store(max(worst.Load(), running.Add(1)))
		defer running.Add(-1)
		begun <- struct{}{}
		<-proceed
		return Ack, nil
	}})
	for range ids {
		testenv.Take(t, "start", begun)
		proceed <- struct{}{}
	}
	e.empty()
	if n := worst.Load(); n != 1 {
		t.Errorf("%d ran at once", n)
	}
}

// What cannot be told is told again; what fails for good is recorded with the letter.
func TestDeadFails(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	away := errors.New("away")
	var calls atomic.Int32
	e.join("w", Group{MaxDeliveries: 1, Transient: func(err error) bool { return errors.Is(err, away) },
		Handle: func(context.Context, *Entry) (Result, error) { return Ack, errors.New("bad") },
		Dead: func(context.Context, *Entry, error) error {
			if calls.Add(1) < 3 {
				return away
			}
			panic("no ear")
		}})
	e.add("v")
	e.eventually("dead letter", func() bool { return len(e.deadLetters()) == 1 })
	e.empty()
	if l := e.deadLetters()[0]["dead-error"]; l != "bad; telling of it failed: stream: the handler panicked: no ear" {
		t.Errorf("recorded %q", l)
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("told %d times", n)
	}
}

// All pages of a dead worker's entries are taken over, and its consumer goes.
func TestPagesOfTheDead(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	e.must("XGROUP", "CREATE", e.stream, "g", "0", "MKSTREAM")
	const n = 2*ownPage + 88
	var values []string
	for i := range n {
		values = append(values, strconv.Itoa(i))
	}
	e.add(values...)
	e.must("XREADGROUP", "GROUP", "g", "dead", "COUNT", strconv.Itoa(n), "STREAMS", e.stream, ">")
	e.must("XGROUP", "CREATECONSUMER", e.stream, "g", "dead and empty")
	got := make(chan string, n)
	e.join("w", Group{Slots: 4, Handle: tell(got)})
	seen := map[string]bool{}
	for range n {
		seen[testenv.Take(t, "entry of the dead", got)] = true
	}
	if len(seen) != n {
		t.Errorf("%d of %d", len(seen), n)
	}
	e.empty()
	e.eventually("only the living are consumers", func() bool { return slices.Equal(e.consumerNames(), []string{"w"}) })
}

// An entry that waits until it may run alone has not begun: the deaths that others cause meanwhile do not count for it. While it runs alone nobody else does, until
// it is settled. W5.
func TestWaitingToRunAloneIsNoStart(t *testing.T) {
	long.Test(t, "waits until a worker looks for the dead")
	e := newEnv(t, testenv.Redis(t))
	e.ofTheDead(2, "killer", "innocent", "innocent")
	ran := make(chan int64, 10)
	for try := range 3 {
		begun := make(chan struct{}, 10)
		m := e.join(fmt.Sprint("w", try), Group{Slots: 8, Handle: func(ctx context.Context, en *Entry) (Result, error) {
			if en.Fields["v"] == "killer" {
				begun <- struct{}{}
				<-ctx.Done()
				return Ack, ctx.Err()
			}
			ran <- en.Deliveries
			return Ack, nil
		}})
		testenv.Take(t, "start of the killer", begun)
		m.die()
	}
	e.join("last", Group{Slots: 8, Handle: func(_ context.Context, en *Entry) (Result, error) {
		ran <- en.Deliveries
		return Ack, nil
	}})
	for range 2 {
		if n := testenv.Take(t, "run of an innocent", ran); n != 3 {
			t.Errorf("its start is number %d, want 3", n)
		}
	}
	e.empty()
	if l := e.deadLetters(); len(l) != 1 || l[0]["v"] != "killer" {
		t.Errorf("dead letters %v", l)
	}
}

// Suspects that wait until they may run alone take no slot, and no room, from others. Nor do suspects that failed and are to be tried again, while another of them runs.
func TestSuspectsTakeNoSlot(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	e.ofTheDead(2, "fails", "fails", "long", "waits")
	long, others, proceed := make(chan struct{}), make(chan string, 10), make(chan struct{})
	var failures atomic.Int32
	e.join("w", Group{Slots: 3, Ready: -1, MaxDeliveries: 10, Handle: func(ctx context.Context, en *Entry) (Result, error) {
		switch v := en.Fields["v"]; v {
		case "fails":
			if en.Failures == 0 {
				failures.Add(1)
				return Ack, errors.New("once")
			}
		case "long":
			close(long)
			select {
			case <-proceed:
			case <-ctx.Done():
				return Ack, ctx.Err()
			}
		default:
			others <- v
		}
		return Ack, nil
	}})
	testenv.Take(t, "start of the one that takes long", long)
	if n := failures.Load(); n != 2 {
		t.Fatalf("%d failed before", n)
	}
	for _, v := range []string{"a", "b", "c"} {
		e.add(v)
		if got := testenv.Take(t, v, others); got != v {
			t.Errorf("got %s, want %s", got, v)
		}
	}
	close(proceed)
	if got := testenv.Take(t, "the one that waited", others); got != "waits" {
		t.Errorf("got %s", got)
	}
	e.empty()
	if l := e.deadLetters(); len(l) != 0 {
		t.Errorf("dead letters %v", l)
	}
}

// Panics of Doom and Finish end neither the process nor the entry: they are called again.
func TestPanicsAreTriedAgain(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	e.add("bad")
	var dooms, finishes atomic.Int32
	e.join("w", Group{MaxDeliveries: 1,
		Handle: func(context.Context, *Entry) (Result, error) { return Ack, errors.New("no") },
		Doom: func(en *Entry, _ error) {
			if dooms.Add(1) == 1 {
				panic("doom")
			}
			en.Effect = "doomed"
		},
		Finish: func(_ context.Context, b Batch) error {
			if finishes.Add(1) == 1 {
				panic("finish")
			}
			if b.Entries[0].Effect != "doomed" {
				t.Errorf("effect %v", b.Entries[0].Effect)
			}
			e.must("XACK", b.Stream, b.Group, b.Entries[0].ID)
			e.must("XDEL", b.Stream, b.Entries[0].ID)
			return nil
		}})
	e.empty()
	if d, f := dooms.Load(), finishes.Load(); d != 2 || f != 2 {
		t.Errorf("%d calls of Doom and %d of Finish, want 2 of each", d, f)
	}
}

// Another server becomes the master while the old one lives on: what is there is read, and not what the old one still gives out.
func TestOldMasterLivesOn(t *testing.T) {
	long.Test(t, "replaces a master")
	s := testenv.StartSentinels(t)
	e := newEnv(t, s.RedisServer)
	w := NewWorker(s.Client, e.keys, "w", survivorTTL, testLog(t))
	got := make(chan string, 10)
	g := &Group{Streams: []string{e.stream}, Name: "g", Worker: w, Log: testLog(t), Handle: tell(got)}
	e.running(w, g)
	e.add("before")
	testenv.Take(t, "the first one", got)
	s.Replace(t)
	s.AwaitFailover(t)
	e.eventually("the client turns to the new master", func() bool { _, old := s.Client.Nodes()[s.Master.Addr]; return !old })
	for _, one := range s.Sentinels {
		one.Pause(t) // none of them makes a replica of the old master
		defer one.Continue(t)
	}
	e.add("after")
	if v := testenv.Take(t, "the one on the new master", got); v != "after" {
		t.Errorf("%q was handled", v)
	}
	if !s.Master.Says(t, "role:master", "INFO", "replication") {
		t.Error("the old master is none any more: this test shows nothing")
	}
}

// Starts under an ID that an entry had before count with its own, also those that no process survived.
func TestBegunUnderAnotherID(t *testing.T) {
	long.Test(t, "waits until a worker looks for the dead")
	t.Parallel()
	e := newEnv(t, testenv.Redis(t))
	e.add("new")
	for _, f := range [][2]string{{"odd", "x"}, {"over", "5"}, {"often", "3"}} {
		e.must("XADD", e.stream, "*", "v", f[0], "n", f[1])
	}
	begun, dead := make(chan string, 20), make(chan string, 20)
	group := func(handle func(context.Context, *Entry) (Result, error)) Group {
		return Group{Slots: 10, Before: "n", MaxDeliveries: 5, Handle: func(ctx context.Context, en *Entry) (Result, error) {
			begun <- fmt.Sprint(en.Fields["v"], " ", en.Deliveries)
			return handle(ctx, en)
		}, Dead: func(_ context.Context, en *Entry, err error) error {
			if !errors.Is(err, ErrDeliveries) {
				t.Errorf("%s: %v", en.Fields["v"], err)
			}
			dead <- en.Fields["v"]
			return nil
		}}
	}
	want := func(c <-chan string, all ...string) {
		t.Helper()
		var got []string
		for range all {
			got = append(got, testenv.Take(t, "one more", c))
		}
		if slices.Sort(got); !slices.Equal(got, all) {
			t.Errorf("%q, want %q", got, all)
		}
	}
	victim := e.join("victim", group(func(ctx context.Context, _ *Entry) (Result, error) {
		<-ctx.Done()
		return Ack, ctx.Err()
	}))
	want(dead, "over")
	want(begun, "new 1", "odd 1", "often 4")
	victim.die()
	e.join("survivor", group(acks))
	want(begun, "new 2", "odd 2", "often 5")
	e.empty()
}
