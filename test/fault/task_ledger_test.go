package fault_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
)

// Events of a ledger. What a producer notes comes after the answer of Redis, what a worker notes comes before its next step: so a process that dies
// leaves at most one event out.
const (
	noteOK      = "ok"      // submitted; Task has its id
	noteUnknown = "unknown" // submitted, and the answer was lost
	noteRefused = "refused" // not submitted: Redis said no
	noteStart   = "start"   // a run begins
	noteEffect  = "effect"  // it has done its work, outside Redis
	noteEnd     = "end"     // its outcome is known, and not yet in Redis
	noteCause   = "cause"   // the context of a run has ended
	noteExit    = "exit"    // the process ends by itself
	noteGauge   = "gauge"   // so many goroutines (Try) has the process
)

// note is one line of a ledger. The ledgers are files outside Redis, one per process.
type taskNote struct {
	Event string `json:"e"`
	At    int64  `json:"t"`           // Unix nanoseconds
	Sent  int64  `json:"b,omitempty"` // of a submission: when it was sent, if another process did
	PID   int    `json:"p"`
	Work  string `json:"n,omitempty"` // the logical task: what the producer wants done once
	Task  string `json:"id,omitempty"`
	Try   int    `json:"a,omitempty"`
	Fence uint64 `json:"f,omitempty"`
	Says  string `json:"s,omitempty"`
}

func (n taskNote) time() time.Time { return time.Unix(0, n.At) }

// sent is when a submission was sent, which may be long before its answer was noted.
func (n taskNote) sent() time.Time { return time.Unix(0, cmp.Or(n.Sent, n.At)) }

// taskLedger is where a process writes.
type taskLedger struct {
	mu sync.Mutex
	to *os.File
}

// openLedger makes the ledger of this process. Each line is one write, so a kill leaves whole lines.
func openLedger(dir string) (*taskLedger, error) {
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%d.jsonl", os.Getpid())), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &taskLedger{to: f}, nil
}

func (l *taskLedger) note(n taskNote) {
	n.At, n.PID = time.Now().UnixNano(), os.Getpid()
	line, err := json.Marshal(n)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, err = l.to.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

// first says whether nobody asked it for name before.
func (l *taskLedger) first(name string) bool {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(l.to.Name()), name+".first"), os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// openGate lets work go on that waits for it, in all processes.
func (l *taskLedger) openGate() {
	if err := os.WriteFile(l.gate(), nil, 0o600); err != nil {
		panic(err)
	}
}

// awaitGate waits until the gate is open, or ctx ends.
func (l *taskLedger) awaitGate(ctx context.Context) {
	look := time.Tick(5 * time.Millisecond)
	for {
		if _, err := os.Stat(l.gate()); err == nil {
			return
		}
		select {
		case <-look:
		case <-ctx.Done():
			return
		}
	}
}

func (l *taskLedger) gate() string { return filepath.Join(filepath.Dir(l.to.Name()), "gate") }

// taskHistory is what the ledgers of a folder say, all processes together.
type taskHistory struct {
	dir   string
	read  map[string]int64 // how far each file was read
	notes []taskNote
	count map[string]int // by event
}

func newHistory(dir string) *taskHistory {
	return &taskHistory{dir: dir, read: make(map[string]int64), count: make(map[string]int)}
}

// refresh reads what was added since.
func (h *taskHistory) refresh(t testing.TB) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(h.dir, "*.jsonl"))
	testenv.Must(t, err)
	for _, name := range files {
		f, err := os.Open(name)
		testenv.Must(t, err)
		text := make([]byte, 0)
		if info, err := f.Stat(); err == nil && info.Size() > h.read[name] {
			text = make([]byte, info.Size()-h.read[name])
			n, _ := f.ReadAt(text, h.read[name]) // a short read is finished the next time
			text = text[:n]
		}
		f.Close()
		whole := bytes.LastIndexByte(text, '\n') + 1
		h.read[name] += int64(whole)
		for line := range bytes.Lines(text[:whole]) {
			var n taskNote
			if err := json.Unmarshal(line, &n); err != nil {
				t.Fatalf("%s: %q: %v", name, line, err)
			}
			h.notes = append(h.notes, n)
			h.count[n.Event]++
		}
	}
}

// tried are how many works of one producer were submitted in vain, or with an answer that was lost.
func (h *taskHistory) tried(name string) (n int) {
	for _, one := range h.notes {
		if (one.Event == noteUnknown || one.Event == noteRefused) && strings.HasPrefix(one.Work, name+"-") {
			n++
		}
	}
	return n
}
