package lifecycle

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal notes what happens in which order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// part runs until its context ends and then takes a while to stop.
func (j *journal) part(name string, stopping time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		j.add(name + " stops")
		<-time.After(stopping)
		j.add(name + " stopped")
		return nil
	}
}

func TestStagesStopInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		begun := time.Now()
		err := Run(ctx, time.Minute,
			Stage{"commands": j.part("commands", time.Second)},
			Stage{"work": j.part("work", 3*time.Second)},
			Stage{},
			Stage{"mqtt": j.part("mqtt", 0)})
		if err != nil {
			t.Error(err)
		}
		want := []string{"commands stops", "commands stopped", "work stops", "work stopped", "mqtt stops", "mqtt stopped"}
		if d := cmp.Diff(want, j.lines); d != "" {
			t.Error(d)
		}
		if took := time.Since(begun); took != time.Minute+4*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestPartsOfAStageStopTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		if err := Run(ctx, time.Minute, Stage{"a": j.part("a", time.Second), "b": j.part("b", 2*time.Second)}); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// The context of ctx's values is kept, its end is not: a later stage works on while an earlier one stops.
func TestLaterStagesLiveLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		asked := make(chan struct{})
		time.AfterFunc(time.Second, cancel)
		err := Run(ctx, time.Minute,
			Stage{"first": func(ctx context.Context) error {
				<-ctx.Done()
				asked <- struct{}{} // needs the other
				return nil
			}},
			Stage{"second": func(ctx context.Context) error {
				if ctx.Value(key{}) != "value" {
					t.Error("the value is lost")
				}
				select {
				case <-asked:
				case <-ctx.Done():
					t.Error("stopped before it was asked")
				}
				<-ctx.Done()
				return nil
			}})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestAPartThatEndsStopsTheOthers(t *testing.T) {
	broken := errors.New("broken")
	for says, result := range map[string]error{"b: broken": broken, "b: stopped by itself": nil, "b: context canceled": context.Canceled} {
		synctest.Test(t, func(t *testing.T) {
			var j journal
			err := Run(t.Context(), time.Minute,
				Stage{"a": j.part("a", time.Second)},
				Stage{"b": func(context.Context) error { return result }, "c": j.part("c", time.Second)})
			if err == nil || err.Error() != says || result != nil && !errors.Is(err, result) {
				t.Errorf("%v, want %s", err, says)
			}
			if d := cmp.Diff([]string{"a stops", "a stopped", "c stops", "c stopped"}, j.lines); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestErrorsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := Run(ctx, time.Minute,
			Stage{"a": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, // as good as nil
			Stage{"b": func(ctx context.Context) error { <-ctx.Done(); return errors.New("one") }},
			Stage{"c": func(ctx context.Context) error { <-ctx.Done(); return errors.New("two") }})
		if err == nil || err.Error() != "b: one\nc: two" {
			t.Error(err)
		}
	})
}

// When the time to drain is over, all stages are told to end, and those who do not are named.
func TestDrainBoundsTheWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		release := make(chan struct{})
		stuck := func(ctx context.Context) error { <-release; return nil }
		begun := time.Now()
		err := Run(ctx, 10*time.Second,
			Stage{"slow": j.part("slow", 6*time.Second)},
			Stage{"stuck": stuck, "slower": j.part("slower", 5*time.Second)},
			Stage{"never told": j.part("never told", 0)},
			Stage{"stuck too": stuck})
		if took := time.Since(begun); took != 10*time.Second+lastWait {
			t.Errorf("took %v", took)
		}
		if err == nil || !strings.HasSuffix(err.Error(), "15s after being told to: stuck, stuck too") {
			t.Error(err)
		}
		close(release)
	})
}

// Parts that end once their connections do are waited for.
func TestLateButClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		cut := make(chan struct{})
		err := Run(ctx, time.Second,
			Stage{"work": func(context.Context) error { <-cut; return nil }},
			Stage{"mqtt": func(ctx context.Context) error { <-ctx.Done(); close(cut); return nil }})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for name, c := range map[string]struct {
			ctx  context.Context
			d    time.Duration
			want bool
		}{
			"to the end": {t.Context(), time.Second, true}, "nothing": {t.Context(), 0, true}, "less": {t.Context(), -1, true},
			"ended before": {ended, time.Second, false}, "ended, nothing": {ended, 0, false}, "ends first": {short, time.Minute, false},
		} {
			if got := Sleep(c.ctx, c.d); got != c.want {
				t.Errorf("%s: %v", name, got)
			}
		}
	})
}
