package fault_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/task"
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

// Fault 15, tasks that end the process that runs them, or take all its memory, are dead after five, all others run: none of them is dead with them.
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

// Fault 15, tasks that never return harm no other task, and run elsewhere once their process has ended.
func TestTaskFault15Hang(t *testing.T) {
	t.Parallel()
	w := newTaskWorld(t, embedded.RedisOptions{})
	worker := w.worker(taskConfig{Slots: 4, Lease: 2 * taskLease, Drain: 300 * time.Millisecond, Margin: 300 * time.Millisecond})
	hang := w.submit("hang", 2, taskWork{Do: doHang})
	w.until(noteStart, 2)
	for i, end := range w.ends(w.submit("good", 200, taskWork{Takes: time.Millisecond})) {
		if end != "" {
			t.Errorf("a good task, number %d, ended with %q", i, end)
		}
	}
	if w.unfinished() != 2 {
		t.Errorf("%d tasks have not ended, want those that hang", w.unfinished())
	}
	// The process does not wait for them, says which they are, and they go to another.
	w.fault(worker)
	begin := time.Now()
	worker.Signal(syscall.SIGTERM)
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
