package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
)

// diary has what the processes say and what the cell does, line by line, for those who wait for it. The zero value is empty.
type diary struct {
	mu      sync.Mutex
	lines   []string
	rest    []byte        // of a line that has no end yet
	changed chan struct{} // closed and forgotten at the next line; nil = nobody waits
}

// Write takes what a process says.
func (d *diary) Write(text []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rest = append(d.rest, text...)
	for {
		line, rest, whole := bytes.Cut(d.rest, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		d.rest = rest
		d.lines = append(d.lines, string(line))
		if d.changed != nil {
			close(d.changed)
			d.changed = nil
		}
	}
}

// await waits for a line that has text.
func (d *diary) await(ctx context.Context, text string) error {
	for {
		d.mu.Lock()
		found := d.with(text)
		if d.changed == nil {
			d.changed = make(chan struct{})
		}
		changed := d.changed
		d.mu.Unlock()
		if len(found) > 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// with is all. d.mu is held.
func (d *diary) with(text string) (found []string) {
	for _, line := range d.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// last is the last line.
func (d *diary) last() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lines) == 0 {
		return ""
	}
	return d.lines[len(d.lines)-1]
}

// all are the lines that have text.
func (d *diary) all(text string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.with(text)
}
