package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// three are the streams of a test, high to low.
func (e *env) three() []string { return []string{e.stream + "0", e.stream + "1", e.stream + "2"} }

func (e *env) fill(stream string, n int) {
	e.t.Helper()
	for i := range n {
		e.must("XADD", stream, "*", "v", fmt.Sprintf("%s-%d", stream[len(stream)-1:], i))
	}
}

// calls is how often the server has run a command.
func (e *env) calls(command string) (n int) {
	e.t.Helper()
	text, err := e.must("INFO", "commandstats").ToString()
	testenv.Must(e.t, err)
	if _, rest, ok := strings.Cut(text, "cmdstat_"+command+":calls="); ok {
		number, _, _ := strings.Cut(rest, ",")
		n, err = strconv.Atoi(number)
		testenv.Must(e.t, err)
	}
	return n
}

// fetched waits until all of the stream is ready to be handled: the reader has it when it reads again, with read.lua, which looks at the clock.
func (e *env) fetched(stream string) {
	e.t.Helper()
	e.eventually("fetched", func() bool { return e.number("XLEN", stream) == e.pendingOf(stream) })
	reads := e.calls("time")
	e.eventually("the next read", func() bool { return e.calls("time") > reads })
}

// gate is a handler that lets the test see, and end, every start.
type gate struct {
	begun chan string
	pass  chan struct{}
}

func newGate() *gate { return &gate{begun: make(chan string, 1000), pass: make(chan struct{})} }

func (g *gate) handle(ctx context.Context, en *Entry) (Result, error) {
	g.begun <- en.Fields["v"]
	select {
	case <-g.pass:
		return Ack, nil
	case <-ctx.Done():
		return Ack, ctx.Err()
	}
}

// An entry of an earlier stream is begun as soon as one slot is free, however much of later streams waits, in Redis or already fetched.
func TestEarlierStreamOvertakes(t *testing.T) {
	for _, ready := range []int{-1, 64} {
		t.Run(fmt.Sprintf("ready %d", ready), func(t *testing.T) {
			e := newEnv(t, testenv.Redis(t))
			streams := e.three()
			e.fill(streams[2], 400)
			g := newGate()
			e.join("w", Group{Streams: streams, Slots: 2, Ready: ready, Handle: g.handle})
			testenv.Take(t, "start", g.begun)
			testenv.Take(t, "start", g.begun)
			e.fill(streams[0], 1)
			if ready > 0 { // fetched past all that is fetched of the last stream
				e.fetched(streams[0])
			}
			g.pass <- struct{}{}
			if v := testenv.Take(t, "start", g.begun); v != "0-0" {
				t.Errorf("%s was begun before the entry of the first stream", v)
			}
			close(g.pass)
		})
	}
}

// So it is while reads are plain, amid entries that are handled as quickly as they are read.
func TestEarlierStreamOvertakesPlainReads(t *testing.T) {
	long.Test(t, "depends on how quickly entries are handled")
	e := newEnv(t, testenv.Redis(t))
	streams := e.three()
	e.fill(streams[2], 3000)
	g := newGate()
	var starts atomic.Int64
	e.join("w", Group{Streams: streams, Slots: 2, Ready: DefaultReady, Handle: func(ctx context.Context, en *Entry) (Result, error) {
		if starts.Add(1) < 2000 {
			return Ack, nil
		}
		return g.handle(ctx, en)
	}})
	testenv.Take(t, "start", g.begun)
	testenv.Take(t, "start", g.begun)
	// read.lua looks at the clock, and here reads three streams. The heartbeat looks twice when it begins.
	if reads, scripts := e.calls("xreadgroup"), e.calls("time")-2; reads <= 3*scripts {
		t.Errorf("%d reads in %d scripts: none of them was plain", reads, scripts)
	}
	e.fill(streams[0], 1)
	e.fetched(streams[0])
	g.pass <- struct{}{}
	if v := testenv.Take(t, "start", g.begun); v != "0-0" {
		t.Errorf("%s was begun before the entry of the first stream", v)
	}
	close(g.pass)
}

// With Ready below 0 nothing is held beside what is handled.
func TestFetchesFreeSlotsOnly(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	e.fill(e.stream, 50)
	g := newGate()
	e.join("w", Group{Slots: 3, Ready: -1, Handle: g.handle})
	for range 3 {
		testenv.Take(t, "start", g.begun)
	}
	if n := e.pending(); n != 3 {
		t.Errorf("%d pending with 3 slots", n)
	}
	g.pass <- struct{}{}
	testenv.Take(t, "start", g.begun)
	e.eventually("3 pending", func() bool { return e.pending() == 3 })
	close(g.pass)
}

// Ahead: handlers that take long have nothing fetched for them beside the free slots; quick ones have.
func TestFetchesAheadByTime(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	e.fill(e.stream, 300)
	g := newGate()
	var quick atomic.Bool
	quick.Store(true)
	var most atomic.Int64
	e.join("w", Group{Slots: 2, Ahead: 50 * time.Millisecond, Handle: func(ctx context.Context, en *Entry) (Result, error) {
		if quick.Load() {
			most.Store(max(most.Load(), e.pending()))
			return Ack, nil
		}
		return g.handle(ctx, en)
	}})
	e.empty()
	if n := most.Load(); n <= 2 {
		t.Errorf("no more than %d entries were fetched at once for quick handlers with 2 slots", n)
	}
	quick.Store(false)
	e.fill(e.stream, 100)
	testenv.Take(t, "start", g.begun)
	testenv.Take(t, "start", g.begun)
	for range 20 { // the pace is known after a few
		g.pass <- struct{}{}
		testenv.Take(t, "start", g.begun)
	}
	close(g.pass)
	e.empty()
}

// What was fetched at the pace of quick handlers is given back when the next ones take long: another worker has it, begun for the first time.
func TestHoardIsGivenBack(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	slow := make(chan struct{})
	begun := make(chan string, 1000)
	e.fill(e.stream, 5000)
	for range 20 {
		e.must("XADD", e.stream, "*", "v", "slow")
	}
	group := func(name string) Group {
		return Group{Slots: 1, Ahead: 5 * time.Millisecond, Handle: func(ctx context.Context, en *Entry) (Result, error) {
			if en.Fields["v"] != "slow" {
				return Ack, nil
			}
			if en.Deliveries != 1 {
				t.Errorf("start number %d, want 1", en.Deliveries)
			}
			begun <- name
			select {
			case <-slow:
			case <-ctx.Done():
			}
			return Ack, ctx.Err()
		}}
	}
	e.join("a", group("a"))
	if v := testenv.Take(t, "start of a slow one", begun); v != "a" {
		t.Fatalf("begun by %s", v)
	}
	if n := e.number("XLEN", e.stream); n < 20 {
		t.Fatalf("%d entries left", n)
	}
	e.join("b", group("b"))
	if v := testenv.Take(t, "start of another slow one", begun); v != "b" {
		t.Errorf("begun by %s", v)
	}
	close(slow)
	e.empty()
	e.eventually("no consumer has what was given back", func() bool { return len(e.consumerNames()) <= 2 })
}

// Order decides which stream is looked at first.
func TestOrderSharesSlots(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	streams := e.three()
	for _, s := range streams {
		e.fill(s, 40)
	}
	turn := 0
	orders := [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}}
	var mu sync.Mutex
	var got []string
	e.join("w", Group{Streams: streams, Slots: 1, Ready: -1, Order: func() []int {
		turn++
		return orders[turn/2%3] // read and handled in the same order
	}, Handle: func(_ context.Context, en *Entry) (Result, error) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, en.Stream)
		return Ack, nil
	}})
	for _, s := range streams {
		e.eventually("empty", func() bool { return e.number("XLEN", s) == 0 })
	}
	mu.Lock()
	defer mu.Unlock()
	first := got[:60]
	for _, s := range streams {
		if n := len(first) - len(slices.DeleteFunc(slices.Clone(first), func(x string) bool { return x == s })); n < 10 {
			t.Errorf("%s had %d of the first 60 starts", s, n)
		}
	}
}

// A stream that is closed while a read waits for it, or after its entries were fetched, has nothing begun until it is open again.
func TestClosedHoldsAtOnce(t *testing.T) {
	for name, told := range map[string]bool{"told": true, "not told": false} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, testenv.Redis(t))
			streams := e.three()
			var closed atomic.Bool
			changed := make(chan struct{}, 1)
			g := newGate()
			e.join("w", Group{Streams: streams, Slots: 1, Changed: changed, Closed: func(i int) bool { return i == 0 && closed.Load() }, Handle: g.handle})
			e.fill(streams[0], 10)
			testenv.Take(t, "start", g.begun)
			e.eventually("fetched", func() bool { return e.pendingOf(streams[0]) == 10 })
			closed.Store(true)
			if told {
				changed <- struct{}{}
			}
			e.fill(streams[0], 2) // are not even read
			e.fill(streams[1], 3)
			for range 3 {
				g.pass <- struct{}{}
				if v := testenv.Take(t, "start", g.begun); v[0] != '1' {
					t.Fatalf("%s of a closed stream was begun", v)
				}
			}
			g.pass <- struct{}{}
			e.eventually("nothing to do, and 11 left in the closed stream", func() bool {
				return e.number("XLEN", streams[1]) == 0 && e.number("XLEN", streams[0]) == 11
			})
			closed.Store(false)
			if told {
				changed <- struct{}{}
			}
			close(g.pass)
			e.eventually("the rest", func() bool { return e.number("XLEN", streams[0]) == 0 })
		})
	}
}

// What Changed tells ends the wait for new entries: the next one is for the streams that are open now.
func TestChangedEndsTheWait(t *testing.T) {
	long.Test(t, "compares times of the machine")
	e := newEnv(t, testenv.Redis(t))
	streams := e.three()
	var closed atomic.Int32
	closed.Store(1)
	changed := make(chan struct{}, 1)
	got := make(chan string, 10)
	e.join("w", Group{Streams: streams, Slots: 2, Changed: changed, Closed: func(i int) bool { return int32(i) == closed.Load() }, Handle: tell(got)})
	e.fill(streams[0], 1)
	testenv.Take(t, "entry", got)
	testenv.OnceWithin(t, longestBlock/2, func(try int) time.Duration { // without it, each waits up to longestBlock
		open := (try + 1) % 2
		closed.Store(int32(1 - open))
		changed <- struct{}{}
		begun := time.Now()
		e.fill(streams[open], 1)
		if v := testenv.Take(t, "entry", got); v[0] != byte('0'+open) {
			t.Fatalf("%s of a closed stream was begun", v)
		}
		took := time.Since(begun)
		e.eventually("empty", func() bool { return e.number("XLEN", streams[open]) == 0 })
		return took
	})
}

// The rate of a stream holds for all workers together.
func TestRateIsShared(t *testing.T) {
	long.Test(t, "waits for the rate of a stream")
	e := newEnv(t, testenv.Redis(t))
	const rate, n = 100, 60
	e.fill(e.stream, n)
	var mu sync.Mutex
	var at []time.Time
	g := Group{Slots: 10, Rate: func(int) (float64, string) { return rate, e.keys.TaskRate("q") }, Handle: func(context.Context, *Entry) (Result, error) {
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Now())
		return Ack, nil
	}}
	begun := time.Now() // not the first handler: a busy machine may call it long after it was let
	e.join("a", g)
	e.join("b", g)
	e.empty()
	mu.Lock()
	defer mu.Unlock()
	if took, least := at[n-1].Sub(begun), time.Duration(n-1-rate/10)*time.Second/rate; took < least-50*time.Millisecond {
		t.Errorf("%d entries in %v at %d/s, want at least %v", n, took, rate, least)
	}
	if n := e.number("EXISTS", e.keys.TaskRate("q")); n != 1 {
		t.Errorf("no bucket")
	}
	if ttl := e.number("PTTL", e.keys.TaskRate("q")); ttl <= 0 || ttl > 2000 {
		t.Errorf("the bucket lives for %d ms", ttl)
	}
}

// Finish has the handled entries with their effects, and those that are given up.
func TestFinishSettlesBatches(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	e.add("good", "bad", "good")
	var mu sync.Mutex
	effects := map[string]int{}
	tries := 0
	e.join("w", Group{Slots: 1, MaxDeliveries: 1, Field: "v",
		Handle: func(_ context.Context, en *Entry) (Result, error) {
			if en.Fields != nil {
				t.Errorf("a map was made: %v", en.Fields)
			}
			en.Effect = en.Data
			if en.Data == "bad" {
				return Ack, errors.New("no")
			}
			return Ack, nil
		},
		Doom: func(en *Entry, err error) { en.Effect = "doomed: " + err.Error() },
		Finish: func(ctx context.Context, b Batch) error {
			mu.Lock()
			defer mu.Unlock()
			if tries++; tries == 1 {
				return errors.New("once more")
			}
			args := []string{"XACK", b.Stream, b.Group}
			for _, en := range b.Entries {
				effects[en.Effect.(string)]++
				args = append(args, en.ID)
			}
			e.must(args...)
			args = append([]string{"XDEL", b.Stream}, args[3:]...)
			e.must(args...)
			return nil
		}})
	e.empty()
	mu.Lock()
	defer mu.Unlock()
	if effects["good"] != 2 || effects["doomed: no"] != 1 || len(effects) != 2 {
		t.Errorf("effects %v", effects)
	}
	if n := e.number("EXISTS", e.keys.DeadLetter(e.stream)); n != 0 {
		t.Error("there is a dead letter stream, though Doom has it")
	}
}

// ErrLost of Finish lets the worker look at its heartbeat, and the batch go.
func TestFinishLost(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	e.add("x")
	var handled atomic.Int64
	e.join("w", Group{Slots: 1,
		Handle: func(context.Context, *Entry) (Result, error) { handled.Add(1); return Ack, nil },
		Doom:   func(*Entry, error) {},
		Finish: func(ctx context.Context, b Batch) error {
			if handled.Load() == 1 {
				e.must("SET", b.Heartbeat, "takeover:test") // somebody else takes over
				return ErrLost
			}
			e.must("XACK", b.Stream, b.Group, b.Entries[0].ID)
			e.must("XDEL", b.Stream, b.Entries[0].ID)
			return nil
		}})
	e.empty()
	if n := handled.Load(); n != 2 {
		t.Errorf("handled %d times, want 2", n)
	}
}

// Ids compare by number, not by text.
func TestCompareIDs(t *testing.T) {
	ids := []string{"9-9", "9-10", "10-0", "100-1", "100-2", "100-10"}
	for i, a := range ids {
		for j, b := range ids {
			if got, want := compareIDs(a, b), i-j; got*want < 0 || (got == 0) != (want == 0) {
				t.Errorf("compareIDs(%s, %s) = %s", a, b, strconv.Itoa(got))
			}
		}
	}
}
