package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// errInvalid is a run whose tasks were not all handled exactly once; its figures mean nothing.
var errInvalid = errors.New("the run is invalid")

// runs numbers the runs of this process, so that a task left over from another run is recognised.
var runs atomic.Uint32

// tally counts how often each task of a run was handled, and when first.
type tally struct {
	run   uint32
	size  int // of the texts
	began time.Time

	times   []atomic.Uint32 // by index of the task
	at      []time.Duration // since began; written at the first handling, read after all
	handled atomic.Int64
	strays  atomic.Int64

	first chan struct{} // closed at the first handling
	all   chan struct{} // closed when as many were handled as there are
	each  chan int      // every handled index, if not nil; large enough for all
}

func newTally(tasks, size int) *tally {
	return &tally{
		run: runs.Add(1), size: size, began: time.Now(),
		times: make([]atomic.Uint32, tasks), at: make([]time.Duration, tasks),
		first: make(chan struct{}), all: make(chan struct{}),
	}
}

const (
	digits  = 9 // of the number of the run, and of the index: the first is 1, which keeps the zeros after it
	padding = "................................................................................................................................"
)

// text is what the task of an index carries.
func (t *tally) text(i int) string {
	b := make([]byte, 0, t.size)
	b = strconv.AppendUint(b, 1<<32|uint64(t.run), 16)
	b = strconv.AppendUint(b, 1<<32|uint64(i), 16)
	return string(append(b, padding[:t.size-len(b)]...))
}

func (t *tally) texts(first, n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = t.text(first + i)
	}
	return texts
}

// handle is what a worker calls with the text of a task.
func (t *tally) handle(text string) {
	i, ok := t.index(text)
	if !ok {
		t.strays.Add(1)
		return
	}
	if t.times[i].Add(1) == 1 {
		t.at[i] = time.Since(t.began)
	}
	n := t.handled.Add(1)
	if n == 1 {
		close(t.first)
	}
	if n == int64(len(t.times)) {
		close(t.all)
	}
	if t.each != nil {
		t.each <- i
	}
}

func (t *tally) index(text string) (int, bool) {
	if len(text) != t.size || !strings.HasSuffix(text, padding[:t.size-2*digits]) {
		return 0, false
	}
	run, err1 := strconv.ParseUint(text[:digits], 16, 64)
	i, err2 := strconv.ParseUint(text[digits:2*digits], 16, 64)
	i -= 1 << 32
	return int(i), err1 == nil && err2 == nil && run == 1<<32|uint64(t.run) && i < uint64(len(t.times))
}

// await waits for c, one of the channels of t.
func (t *tally) await(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d of %d tasks were handled: %w", t.handled.Load(), len(t.times), context.Cause(ctx))
	}
}

// check is called after the worker has stopped.
func (t *tally) check() error {
	var never, often int
	for i := range t.times {
		switch n := t.times[i].Load(); {
		case n == 0:
			never++
		case n > 1:
			often++
		}
	}
	if strays := t.strays.Load(); never > 0 || often > 0 || strays > 0 {
		return fmt.Errorf("%w: of %d tasks %d were never handled, %d more than once, and %d were of another run", errInvalid, len(t.times), never, often, strays)
	}
	return nil
}
