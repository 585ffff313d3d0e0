package sfc

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/recipe"
)

// impatient is one command with a time-out in seconds, and so many attempts.
func impatient(seconds, attempts string) []byte {
	return []byte(`{"Steps": [{"Name": "S", "Initial": true}], "Transitions": [], "Actions": [
	  {"Name": "go", "Step": "S", "Qualifier": "N", "Interaction": "push_command", "TypeId": "go.v1", "TimeoutSeconds": ` + seconds + `, "MaxAttempts": ` + attempts + `}]}`)
}

// A timer that nothing needs is removed.
func TestTimerOfNoOrderIsRemoved(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	key := keys.New(s.prefix).SfcTimers()
	s.redis.Must(t, "ZADD", key, "1", "ghost")
	_, err := s.a.tickDue(t.Context())
	s.must(err)
	if n := s.redis.Number(t, "ZCARD", key); n != 0 || s.a.counts.of(OpTimer, Dropped) != 1 {
		t.Errorf("%d timers; dropped %d", n, s.a.counts.of(OpTimer, Dropped))
	}
}

// Steps of the clock of Redis by an hour neither hurry nor stop the times of a recipe. A silent station is asked again when a third of the time-out has
// passed by any watch, and is timed out in time, within one round of redelivery. A condition over step.t does not hold early.
func TestClockStepsChangeNoTimes(t *testing.T) {
	long.Test(t, "waits for time-outs")
	t.Parallel()
	for name, step := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSilent(t)
			p.workMaster("WM", impatient("6", "1"))
			p.workMaster("WM-dwell", []byte(`{
			  "Steps": [{"Name": "Wait", "Initial": true}, {"Name": "Done", "Initial": false}],
			  "Transitions": [{"Source": "Wait", "Target": "Done", "Condition": "step.t >= 3", "Priority": 0}], "Actions": []}`))
			p.start("a", setup{})
			begin := time.Now()
			p.order("JO", "WM")
			p.order("DWELL", "WM-dwell")
			eventually(t, "it is sent", func() bool { return p.cell.published("JO", "go") >= 1 && p.state("DWELL") == "Running" })
			// To due.lua an offset that is smaller by an hour is a clock that is ahead by an hour more.
			p.redis.Must(t, "HINCRBY", keys.New(p.prefix).SfcClock(), "offset", fmt.Sprint(-step.Milliseconds()))
			eventually(t, "it is sent again", func() bool { return p.cell.published("JO", "go") >= 2 })
			if after := time.Since(begin); after < 1500*time.Millisecond {
				t.Errorf("it was sent again after %v, a third of the time-out is 2 s", after)
			}
			p.await("DWELL", "End", "ResultUpdate")
			if after := time.Since(begin); after < 2500*time.Millisecond {
				t.Errorf("step.t >= 3 held after %v", after)
			}
			p.await("JO", "Abort", "ResultUpdate")
			if after := time.Since(begin); after < 5500*time.Millisecond {
				t.Errorf("aborted after %v, may take 6 s", after)
			}
			if n := p.cell.published("JO", "go"); n > 3 || n < 2 { // at each third, if the machine is quick enough: after the step it went out, so no last call is due
				t.Errorf("sent %d times", n)
			}
			p.settled()
		})
	}
}

// A last call that waits behind other commands costs no order whose machine would answer it: its time counts from when the broker has it. A silent machine has one
// round from then on. A last call that the broker has is not sent once more because Redis, out of memory, does not take when that was: the outbox
// would do so without end.
func TestLastCallCountsFromTheBroker(t *testing.T) {
	long.Test(t, "waits for a time-out")
	t.Parallel()
	for _, how := range []string{"answered", "silent", "Redis is full"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := newSteps(t)
			s.workMaster("WM", impatient("3", "1"))
			s.ordered("JO")
			s.sent(s.a, s.outbox()[0]) // and the answer is lost with a
			ctx := t.Context()
			tick := func() recipe.ActionEntry {
				_, err := s.b.tickDue(ctx)
				s.must(err)
				return *s.load("JO").Execution.Action("go")
			}
			eventually(t, "the last call is in the outbox", func() bool { return tick().LastCall })
			called := s.b.store.InstallationTime()
			eventually(t, "twice its round is over", func() bool {
				tick()
				return s.b.store.InstallationTime().Sub(called) > 2*time.Second
			})
			if state := s.state("JO"); state != "Running" {
				t.Fatalf("%s, and the broker does not have the last call", state)
			}
			all := s.outbox()
			last := all[len(all)-1]
			if how == "Redis is full" {
				s.cell.after = func(string, int) error { s.redis.Must(t, "CONFIG", "SET", "maxmemory", "1"); return nil }
				s.sent(s.b, last)
				s.redis.Must(t, "CONFIG", "SET", "maxmemory", "0")
				s.must(s.b.Answer(ctx, answerTo(last.ID, `{"done":1}`)))
				if state := s.state("JO"); state != "Ended_Completed" {
					t.Errorf("%s, want Ended_Completed", state)
				}
				return
			}
			s.sent(s.b, last)
			left := time.UnixMilli(s.load("JO").Execution.Action("go").Deadline).Sub(s.b.store.InstallationTime())
			if last.LastCall <= 0 || left > last.LastCall {
				t.Errorf("%v are left after the send of %+v", left, last)
			}
			if how == "silent" {
				eventually(t, "it is given up", func() bool { tick(); return s.state("JO") == "Aborted" })
				return
			}
			s.must(s.b.Answer(ctx, answerTo(last.ID, `{"done":1}`)))
			s.sent(s.b, last) // the entry once more, as if b had died before it could take it out
			if state := s.state("JO"); state != "Ended_Completed" {
				t.Errorf("%s, want Ended_Completed", state)
			}
		})
	}
}

// While Redis is full each second look for timers fails, and the log says so once.
func TestFullRedisIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	rdb, ctx := s.redis.Client, t.Context()
	s.must(rdb.Do(ctx, rdb.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "1").Build()).Error())
	var log bytes.Buffer
	s.a.log = slog.New(slog.NewTextHandler(&log, nil))
	s.a.opt.TimerEvery = time.Millisecond
	looking, end := context.WithCancel(ctx)
	looks := 0
	s.a.opt.Intake = func() bool {
		if looks++; looks == 20 {
			end()
		}
		return true
	}
	s.must(s.a.runTimers(looking))
	if n := strings.Count(log.String(), "OOM"); n != 1 {
		t.Errorf("%d lines, want one:\n%s", n, &log)
	}
}
