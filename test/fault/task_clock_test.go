package fault_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/test/rig"
)

// clock is that of a Redis, as it differs from that of everybody else.
type clock struct {
	t    *testing.T
	file string
}

// wrongClock lets the next redis-server be started with a clock that a file sets: for it, all others have the wrong time. It changes PATH, so the test
// cannot run beside others.
func wrongClock(t *testing.T) *clock {
	t.Helper()
	server, err := exec.LookPath("redis-server")
	testenv.Must(t, err)
	dir := t.TempDir()
	library := filepath.Join(dir, "clock.so")
	source, err := os.Open("testdata/clock.c") // by the test itself, for go test to know that its result depends on it
	testenv.Must(t, err)
	defer source.Close()
	gcc := exec.Command("gcc", "-shared", "-fPIC", "-O2", "-o", library, "-x", "c", "-")
	gcc.Stdin = source
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	c := &clock{t: t, file: filepath.Join(dir, "offset")}
	c.set(0)
	script := fmt.Sprintf("#!/bin/sh\nLD_PRELOAD=%q CLOCK=%q exec %q \"$@\"\n", library, c.file, server)
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "redis-server"), []byte(script), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return c
}

// set lets the clock jump.
func (c *clock) set(offset time.Duration) {
	c.t.Helper()
	f, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600) // in place: the server has it mapped
	testenv.Must(c.t, err)
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(offset/time.Second))), 0)
	testenv.Must(c.t, errors.Join(err, f.Close()))
}

// differsBy checks that the clock of Redis differs so much from ours, and returns its time.
func (w *taskWorld) differsBy(offset time.Duration) (now time.Time) {
	w.t.Helper()
	now, err := w.client.Now(w.ctx())
	testenv.Must(w.t, err)
	if wrong := now.Sub(time.Now().Add(offset)).Abs(); wrong > time.Minute {
		w.t.Fatalf("the clock of Redis says %v", now)
	}
	return now
}

// Fault 12: the clocks of all workers and producers differ from that of Redis by an hour. Delayed tasks are neither early nor late, deadlines mean the
// moment that they say, and no lease is lost.
func TestTaskFault12WorkersAnHourWrong(t *testing.T) {
	for _, offset := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(offset.String(), func(t *testing.T) {
			wrongClock(t).set(offset)
			w := newTaskWorld(t, embedded.RedisOptions{})
			now := w.differsBy(offset)
			workers := []*rig.Process{w.worker(taskConfig{Lease: calm}), w.worker(taskConfig{Lease: calm})}
			w.produce(taskConfig{Count: scaled(200, 5000), Later: true, Work: taskWork{Takes: time.Millisecond}})
			in := w.submit("in", 5, taskWork{}, task.In(700*time.Millisecond))
			at := w.submit("at", 5, taskWork{}, task.At(now.Add(900*time.Millisecond)))
			begin := time.Now()
			far := w.submit("far", 5, taskWork{}, task.Deadline(now.Add(time.Minute)))
			cut := w.submit("cut", 2, taskWork{Takes: time.Hour}, task.Deadline(now.Add(3*time.Second)))
			past := w.submit("past", 2, taskWork{}, task.Deadline(now.Add(-time.Minute)))
			for _, set := range []struct {
				what string
				hs   []*task.Handle[taskResult]
				want string
			}{{"far from its deadline", far, ""}, {"past its deadline", past, "timeout"}, {"in", in, ""}, {"at", at, ""}, {"cut at its deadline", cut, "timeout"}} {
				for _, end := range w.ends(set.hs) {
					if end != set.want {
						t.Errorf("a task %s ended with %q, want %q", set.what, end, set.want)
					}
				}
			}
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("all of it took %v", took)
			}
			w.until(noteOK, scaled(200, 5000)+19)
			if v := w.verify(); v.repeats != 0 {
				t.Errorf("%d repetitions", v.repeats)
			}
			for name, l := range w.logicals() { // not early, by the server's clock
				for _, r := range l.runs {
					if late := r.time().Add(offset).Sub(now); len(name) > 3 && name[:3] == "at-" && late < 850*time.Millisecond {
						t.Errorf("%s was begun %v after the start, and was due at 900ms", name, late)
					}
				}
			}
			stillUp(t, workers...)
		})
	}
}

// Fault 12: the clock of Redis jumps while tasks run, an hour forth and back. All leases are over at once, then last for ever; nothing is lost, and entries go
// on in their order.
func TestTaskFault12RedisClockJumps(t *testing.T) {
	c := wrongClock(t)
	w := newTaskWorld(t, embedded.RedisOptions{})
	tasks := scaled(600, 10_000)
	workers := []*rig.Process{w.worker(taskConfig{}), w.worker(taskConfig{})}
	for _, p := range workers {
		w.fault(p)
	}
	w.produce(taskConfig{Count: tasks, Every: time.Millisecond, Work: taskWork{Takes: 5 * time.Millisecond}})
	for i, offset := range []time.Duration{time.Hour, 0, -time.Hour, 0} {
		w.until(noteStart, (i+1)*tasks/6)
		c.set(offset)
	}
	w.until(noteOK, tasks)
	w.verify().within(t, late)
	soon := w.submit("soon", 1, taskWork{}, task.In(100*time.Millisecond))[0]
	if _, err := soon.Await(w.ctx()); err != nil {
		t.Errorf("after the clock is right again: %v", err)
	}
	if _, err := soon.Result(w.ctx()); errors.Is(err, task.ErrResultMissing) {
		t.Error(err)
	}
	w.verify()
	stillUp(t, workers...)
}
