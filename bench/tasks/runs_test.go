package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/bench"
	"github.com/taktworks/takt/internal/testenv"
)

// fake is a peer in memory. It can lose a task and run one twice.
type fake struct {
	mu          sync.Mutex
	waiting     []string
	under       int
	stored      int
	come        chan struct{}
	lose, twice int // the task of this number; 0 = none
	slow        time.Duration
}

func newFake() *fake { return &fake{come: make(chan struct{}, 1)} }

var fakeEntry = entry{Side: bench.Side{Name: "fake", Library: "fake"}, Share: 1, Text: 50, Batches: true}

func (f *fake) Submit(_ context.Context, texts []string, _ bool) error {
	f.mu.Lock()
	for _, text := range texts {
		f.stored++
		switch f.stored {
		case f.lose:
		case f.twice:
			f.waiting = append(f.waiting, text, text)
		default:
			f.waiting = append(f.waiting, text)
		}
	}
	f.mu.Unlock()
	select {
	case f.come <- struct{}{}:
	default:
	}
	return nil
}

func (f *fake) Work(ctx context.Context, _ bool, handle func(string)) error {
	for {
		for {
			text, ok := f.next()
			if !ok {
				break
			}
			time.Sleep(f.slow)
			handle(text)
			f.mu.Lock()
			f.under--
			f.mu.Unlock()
		}
		select {
		case <-f.come:
		case <-ctx.Done():
			return nil
		}
	}
}

func (f *fake) next() (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 {
		return "", false
	}
	text := f.waiting[0]
	f.waiting = f.waiting[1:]
	f.under++
	return text, true
}

func (f *fake) Unsettled(context.Context) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiting) + f.under, nil
}

func (f *fake) Message(context.Context) (int, error) { return 50, nil }

func (f *fake) Bytes(context.Context) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return 1000 + 200*int64(len(f.waiting)), nil
}

func (f *fake) Reset(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting, f.stored = nil, 0
	return nil
}

func (f *fake) Usage(context.Context) (bench.Usage, error) { return bench.Usage{}, nil }
func (f *fake) Close() error                               { return nil }

var fakePlan = plan{Plan: bench.Plan{N: 500, Rounds: 1}, Idle: 5, IdleMax: time.Millisecond, Rate: 1000, Seconds: 0.1}

// Every measure finds all its figures.
func TestMeasuresOfAFake(t *testing.T) {
	for _, m := range measures {
		f, err := m.figures(t.Context(), fakePlan, fakeEntry, newFake())
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		for key, v := range f {
			if strings.HasSuffix(key, "_per_s") && !(v > 0) {
				t.Errorf("%s is %v", key, v)
			}
			if !slices.ContainsFunc(rows, func(r bench.Row) bool { return r.Figure == key || m.Paired && !strings.HasSuffix(key, "_per_s") }) {
				t.Errorf("%s is not in the table", key)
			}
		}
	}
}

// A run with a task lost or run twice is invalid, whatever is measured.
func TestWrongRunsAreInvalid(t *testing.T) {
	for name, f := range map[string]*fake{"lost": {come: make(chan struct{}, 1), lose: 7}, "twice": {come: make(chan struct{}, 1), twice: 7}} {
		for _, m := range measures {
			if m.Name == "latency_idle" { // with five tasks, none is the seventh
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			if _, err := m.run(ctx, fakePlan, fakeEntry, f); !errors.Is(err, errInvalid) {
				t.Errorf("%s, a task %s: %v, want %v", m.Name, name, err, errInvalid)
			}
			cancel()
		}
	}
}

// A worker slower than the rate does not slow the producer down: the tasks' waiting shows.
func TestRateDoesNotWaitForTheWorker(t *testing.T) {
	f := newFake()
	f.slow = 2 * time.Millisecond // 500 per second at most
	s, err := rateRun(t.Context(), fakeEntry, f, load{rate: 2000, n: 200})
	testenv.Must(t, err)
	if s.reached > 550 {
		t.Errorf("%.0f tasks per second of a worker that can do 500", s.reached)
	}
	if longest := bench.Quantile(s.took, 1); longest < 250*time.Millisecond { // 200 tasks take 400 ms and are due within 100 ms
		t.Errorf("the longest wait is %v: the clock of a task starts later than it is due", longest)
	}
}

func TestTally(t *testing.T) {
	other, tl := newTally(3, payloadBytes), newTally(3, payloadBytes)
	for _, text := range tl.texts(0, 3) {
		if len(text) != payloadBytes {
			t.Errorf("%q has %d bytes", text, len(text))
		}
		tl.handle(text)
	}
	select {
	case <-tl.all:
	default:
		t.Error("all were handled, and nobody says so")
	}
	if err := tl.check(); err != nil {
		t.Error(err)
	}
	for _, stray := range []string{"", "x", other.text(0), tl.text(3), strings.Repeat("x", payloadBytes), tl.text(1)[:50], tl.text(1) + "."} {
		before := tl.strays.Load()
		if tl.handle(stray); tl.strays.Load() != before+1 {
			t.Errorf("%q passes for a task of the run", stray)
		}
	}
	if err := tl.check(); !errors.Is(err, errInvalid) {
		t.Errorf("%v after strays", err)
	}
}
