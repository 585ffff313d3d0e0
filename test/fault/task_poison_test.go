package fault_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/test/rig"
)

// ends is how each of some tasks ended: "" = done, otherwise the type of its error.
func (w *taskWorld) ends(hs []*task.Handle[taskResult]) (ends []string) {
	w.t.Helper()
	for _, h := range hs {
		_, err := h.Await(w.ctx())
		var said *task.Error
		switch {
		case err == nil:
			ends = append(ends, "")
		case errors.As(err, &said):
			ends = append(ends, said.Type)
		default:
			w.t.Fatal(err)
		}
	}
	return ends
}

// Fault 15, W5, plus-10: tasks that end the process that runs them, or take all its memory, are dead after five, all others run: none of them is dead with them.
func TestTaskFault15TasksThatKillTheirWorker(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]string{"exit": doExit, "memory": doHog} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killers(t, do)
		})
	}
}

func killers(t *testing.T, do string) {
	t.Helper()
	w := newTaskWorld(t, embedded.RedisOptions{})
	const killers = 2
	good := w.submit("good", 40, taskWork{Takes: 20 * time.Millisecond})
	bad := w.submit("bad", killers, taskWork{Do: do})
	more := w.submit("more", 40, taskWork{Takes: 20 * time.Millisecond})
	ended := make(chan struct{})
	var watch sync.WaitGroup
	var mu sync.Mutex
	deaths := 0
	for i := range 2 { // each worker is started again when it ends, as an operator's supervisor does it
		id := fmt.Sprintf("w%d", i)
		c := taskConfig{ID: id, Slots: 4, Hogs: do == doHog, Lease: calm} // it takes its own over again at once
		p := w.worker(c)
		watch.Go(func() {
			for {
				w.wait("end", func() bool {
					select {
					case <-ended:
						return true
					default:
						return p.Gone()
					}
				})
				if !p.Gone() {
					return
				}
				mu.Lock()
				deaths++
				w.fault(p)
				p = w.worker(c)
				mu.Unlock()
			}
		})
	}
	for i, end := range w.ends(bad) {
		if end != "deliveries" {
			t.Errorf("bad-%d ended with %q", i, end)
		}
	}
	for i, end := range w.ends(append(good, more...)) {
		if end != "" {
			t.Errorf("a good task, number %d, ended with %q", i, end)
		}
	}
	close(ended)
	watch.Wait()
	if deaths < 5 || deaths > 5*killers {
		t.Errorf("%d workers died of %d killers", deaths, killers)
	}
	w.verify()
}

// Fault 15, W10: tasks that panic, that fail, whose result is too large, or that never return harm nobody else.
func TestTaskFault15Poison(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	worker := w.worker(taskConfig{Slots: 6, Lease: 2 * taskLease, Drain: 300 * time.Millisecond, Margin: 300 * time.Millisecond})
	hang := w.submit("hang", 2, taskWork{Do: doHang})
	w.until(noteStart, 2)
	panics := w.submit("panic", 3, taskWork{Do: doPanic})
	fails := w.submit("fail", 3, taskWork{Do: doFail})
	large := w.submit("large", 1, taskWork{Do: doLarge})
	once := w.submit("once", 3, taskWork{Do: doFailOnce})
	good := w.submit("good", 200, taskWork{Takes: time.Millisecond})
	for _, set := range []struct {
		hs   []*task.Handle[taskResult]
		want string
	}{{good, ""}, {once, ""}, {panics, "task.PanicError"}, {fails, "errors.errorString"}, {large, "task.resultError"}} {
		for i, end := range w.ends(set.hs) {
			if end != set.want {
				t.Errorf("number %d of %s ended with %q, want %q", i, set.hs[0].ID, end, set.want)
			}
		}
	}
	if w.unfinished() != 2 {
		t.Errorf("%d tasks have not ended, want those that hang", w.unfinished())
	}
	// The process does not wait for them, says which they are, and they go to another.
	w.fault(worker)
	begin := terminate(worker)
	if code := worker.Exit(); code != 1 || !strings.Contains(worker.Stderr(), "2 handlers ignore the end of their context") {
		t.Errorf("exit status %d: %s", code, worker.Stderr())
	}
	t.Logf("the process with handlers that hang ended after %v", time.Since(begin).Round(time.Millisecond))
	w.worker(taskConfig{Lease: calm})
	for _, end := range w.ends(hang) {
		if end != "" {
			t.Errorf("ended with %q", end)
		}
	}
	w.verify()
}

// Fault 15, T10: a rolling deploy. Workers that do not know a new type put its tasks back until there are some that do; none is lost.
func TestTaskFault15UnknownNameDuringDeploy(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	old := []*rig.Process{w.worker(taskConfig{Lease: calm}), w.worker(taskConfig{Lease: calm})}
	w.submitOf(rareWork, "rare", 20, taskWork{})
	w.submit("known", 50, taskWork{})
	w.wait("put back", func() bool { return w.number("ZCARD", w.keys.TaskDelayed()) > 0 })
	w.worker(taskConfig{KnowsRare: true, Lease: calm})
	old[0].Stop()
	w.submitOf(rareWork, "rarelater", 20, taskWork{}, task.In(50*time.Millisecond))
	w.worker(taskConfig{KnowsRare: true, Lease: calm})
	w.until(noteEffect, 60)
	old[1].Stop()
	if v := w.verify(); v.dead != 0 || v.repeats != 0 {
		t.Errorf("%+v", v)
	}
}

// Fault 13, T13: entries are given to a second worker while the first still runs them, twice over. Each has one end; whoever comes second changes nothing.
func TestTaskFault13DeliveredTwice(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	w.anyRun = true // the first to end it
	first := w.worker(taskConfig{ID: "first", Lease: calm})
	hs := w.submit("twice", 10, taskWork{Do: doAwaitGate})
	w.until(noteStart, 10)
	second := w.worker(taskConfig{ID: "second", Lease: calm})
	w.fault(first)
	w.fault(second)
	claim := func(by string) {
		for _, h := range hs {
			w.must("XCLAIM", w.workStream(), w.keys.TaskGroup(), by, "0", h.Entry, "JUSTID")
		}
	}
	claim("second")
	w.until(noteStart, 20)
	claim("first")
	claim("second")
	<-time.After(2 * time.Second) // both look at what they hold meanwhile
	second.Pause()
	w.ledger.openGate()
	w.quiet() // by the first
	second.Continue()
	w.until(noteEffect, 20)
	if v := w.verify(); v.runs != 20 {
		t.Errorf("%d runs", v.runs)
	}
	for _, l := range w.logicals() {
		if len(l.runs) != 2 || l.runs[0].Fence >= l.runs[1].Fence {
			t.Errorf("%s: fences do not tell the runs apart: %v", l.name, l.describe())
		}
	}
}

// Fault 16, T9, T16: what is no message becomes a dead letter and stops nobody. A message of a later version runs, and what this one does not know of it is
// still in it after it was put back.
func TestTaskFault16GarbageAndTheFuture(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	var future [][]byte
	for _, work := range []taskWork{{N: "future-0", Do: doFailOnce}, {N: "future-1", Do: doFail}} {
		h := w.submitQuietly(work.N, 1, work)[0]
		entries, err := w.must("XRANGE", w.workStream(), h.Entry, h.Entry).AsXRange()
		if err != nil || len(entries) != 1 {
			t.Fatal(entries, err)
		}
		future = append(future, laterVersion(t, []byte(entries[0].FieldValues["data"])))
		w.must("XDEL", w.workStream(), h.Entry)
	}
	garbage := []string{"", "garbage", "\xc1", "\x80", "\xff\x00", "{}", string(future[0][:len(future[0])/2]), strings.Repeat("\x91", 10_000), strings.Repeat("x", 1<<20)}
	for _, g := range garbage {
		w.must("XADD", w.workStream(), "*", "data", g)
	}
	w.must("XADD", w.workStream(), "*", "other", "x")
	w.must("XADD", w.workStream(), "*", "data", "x", "more", "y")
	w.must("ZADD", w.keys.TaskDelayed(), "1", "garbage")
	for _, m := range future {
		w.must("XADD", w.workStream(), "*", "data", string(m))
	}
	worker := w.worker(taskConfig{Lease: calm})
	w.submit("good", 50, taskWork{})
	w.quiet()
	if n := w.number("HLEN", w.keys.TaskDead()); n != len(garbage)+3+1 {
		t.Errorf("%d dead letters, want %d", n, len(garbage)+3+1)
	}
	letters, err := w.must("HVALS", w.keys.TaskDead()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	kept := false
	for _, l := range letters { // that of the one that failed each time: it was put back three times
		kept = kept || strings.Contains(l, "_retry_attempt") && strings.Contains(l, "from_the_future") && strings.Contains(l, "meta_of_the_future")
	}
	if !kept {
		t.Error("what a later version wrote is not in the message any more")
	}
	for _, l := range w.logicals() {
		if want := map[string]int{"future-0-0": 2, "future-1-0": 4}[l.name]; want > 0 && len(l.runs) != want {
			t.Errorf("%s: %d runs, want %d", l.name, len(l.runs), want)
		}
	}
	w.verifyRest()
	stillUp(t, worker)
}

// laterVersion adds what this version does not know to an encoded message: a member, a member of its meta, and an argument.
func laterVersion(t *testing.T, m []byte) []byte {
	t.Helper()
	if m[0] != 0x85 || bytes.Contains(m, []byte("\xa4meta")) {
		t.Fatalf("not the message of five members that was expected: %x", m)
	}
	m[0] += 2
	m = append(m, "\xa4meta\x81\xb2meta_of_the_future\x81\xa1a\x92\x01\x02"...)
	m = append(m, "\xaffrom_the_future\xc3"...)
	args := bytes.Index(m, []byte("\xa9task_args"))
	at := args + len("\xa9task_args")
	if m[at] != 0x93 {
		t.Fatalf("not three arguments: %x", m[at])
	}
	m[at]++
	kwargs := bytes.Index(m, []byte("\xabtask_kwargs"))
	return bytes.Join([][]byte{m[:kwargs], []byte("\xa6latest"), m[kwargs:]}, nil)
}

// Fault 26, T9: producers and workers of different versions together. Arguments that one side does not have are empty or dropped, a result of fewer or more
// members is read, and scripts of two versions are loaded side by side.
func TestTaskFault26VersionSkew(t *testing.T) {
	t.Parallel()
	type older struct{ N string }
	type newer struct {
		N     string
		Do    string
		Takes time.Duration
		More  []string
	}
	type lean struct{ PID int }
	type rich struct {
		PID   int
		Fence uint64
		Pad   string
		More  string
	}
	before := task.Define[older, lean](theWork.Name(), task.Small)
	after := task.Define[newer, rich](theWork.Name(), task.Small)
	w := newTaskWorld(t, embedded.RedisOptions{})
	worker := w.worker(taskConfig{Lease: calm})
	w.must("SCRIPT", "LOAD", "-- another version of the same\nreturn {'ok', 0}")
	for i := range 20 {
		o, err := before.Submit(w.ctx(), w.client, older{N: fmt.Sprintf("older-%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		n, err := after.Submit(w.ctx(), w.client, newer{N: fmt.Sprintf("newer-%d", i), More: []string{"x"}})
		if err != nil {
			t.Fatal(err)
		}
		w.ledger.note(taskNote{Event: noteOK, Work: fmt.Sprintf("older-%d", i), Task: o.ID})
		w.ledger.note(taskNote{Event: noteOK, Work: fmt.Sprintf("newer-%d", i), Task: n.ID})
		if got, err := o.Await(w.ctx()); err != nil || got.PID != worker.PID() {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := n.Await(w.ctx()); err != nil || got.PID != worker.PID() || got.Fence == 0 || got.More != "" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	w.verify()
}
