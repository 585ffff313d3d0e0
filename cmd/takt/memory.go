package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// leastGarbage is what the heap of a serving process may grow by between two collections however little it holds: with 10 MB in use the heap would be collected
// thirty times a second under load, and each time the stacks of all goroutines with it.
const leastGarbage = 32 << 20

// collectByNeed bounds the garbage beside what a serving process holds, until stop is called. Without it the heap grows to twice what is held between two collections: often, when
// that is little, and by much, when it is the bytes of many messages, which are bounded for their memory. So garbage is leastGarbage at least, and beyond 5/4 of
// --intake-bytes a collection comes when the heap has grown by a quarter. A GOGC or GOMEMLIMIT in the environment counts in place of the one or the other.
func (c *ServeConfig) collectByNeed() (stop func()) {
	p := &pace{intake: int64(c.IntakeBytes), freePercent: os.Getenv("GOGC") == "", freeLimit: os.Getenv("GOMEMLIMIT") == ""}
	p.oldLimit = debug.SetMemoryLimit(-1)
	p.oldPercent = debug.SetGCPercent(usualPercent)
	p.limit, p.percent = p.oldLimit, usualPercent
	if !p.freePercent {
		p.percent = debug.SetGCPercent(p.oldPercent)
	}
	p.adjust()
	return p.stop
}

const (
	usualPercent = 100     // of GOGC
	leastHeap    = 4 << 20 // at which the runtime first collects, with usualPercent; the goal is never below the same part of it
)

// pace sets GOGC and GOMEMLIMIT anew after each collection.
type pace struct {
	intake                 int64 // --intake-bytes
	freePercent, freeLimit bool

	mu                  sync.Mutex
	stopped             bool
	percent, oldPercent int
	limit, oldLimit     int64
}

func (p *pace) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	debug.SetGCPercent(p.oldPercent)
	debug.SetMemoryLimit(p.oldLimit)
}

func (p *pace) adjust() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	live, other := heldBytes()
	if percent := max(usualPercent, int(leastGarbage*100/max(live, leastHeap))); p.freePercent && differs(percent, p.percent) {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
	if limit := max(5*p.intake/4, live*5/4, live+leastGarbage) + other; p.freeLimit && differs(limit, p.limit) {
		p.limit = limit
		debug.SetMemoryLimit(limit)
	}
	runtime.SetFinalizer(&cycle{}, func(*cycle) { p.adjust() }) // garbage at once: the next collection finds it
}

// cycle is what one collection finds. It has room of its own, for the runtime may keep tiny values together.
type cycle struct{ _ [4]*pace }

// differs says that a value is worth setting, which stops the world: by a tenth.
func differs[N int | int64](a, b N) bool { return a-b > b/10 || b-a > b/10 }

// heldBytes are what the last collection found on the heap, and what the runtime has beside the heap, which counts for GOMEMLIMIT.
func heldBytes() (live, other int64) {
	sample := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(sample)
	other = int64(sample[1].Value.Uint64())
	for _, heap := range sample[2:] {
		other -= int64(heap.Value.Uint64())
	}
	return int64(sample[0].Value.Uint64()), other
}
