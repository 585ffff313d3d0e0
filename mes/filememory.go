package mes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/filelock"
	"github.com/taktworks/takt/isa95"
)

// FileMemory is a Memory in one file of mode 0600, one JSON object per line. A change is appended and synced; changes that come
// together share one write. When most lines are out of date the file is written anew beside it and renamed, so after a crash
// it holds all that was durable. One process per file: it is held, by a lock on a file beside it with the ending .lock, until Close or the end of the process.
type FileMemory struct {
	file string   // "" = none: the memory of NewMemory
	lock *os.File // beside file, which is replaced now and then

	mu      sync.Mutex
	written sync.Cond // a write has ended
	scopes  map[isa95.Scope]*book
	lines   []byte // of changes that are not in the file yet
	count   int    // lines in the file, and in lines
	anew    bool   // the file must be written anew: it is missing, or its end is torn
	changes int64  // made in scopes
	durable int64  // of those, in the file
	writing bool
	closed  bool
}

// ErrMemoryHeld: another process uses the file of a memory. Both would hand every result over, and each overwrite what the other has noted.
var ErrMemoryHeld = errors.New("another process uses this memory: end that one, or give this one a file of its own")

// memoryHead is the first line of the file.
type memoryHead struct {
	Version int `json:"version"` // 2
}

// memoryLine is every other line: how far a scope is followed, or what is known of one order from here on.
type memoryLine struct {
	Scope isa95.Scope      `json:"scope"`
	Seq   *int64           `json:"seq,omitempty"`
	Epoch string           `json:"epoch,omitempty"`
	Order isa95.JobOrderID `json:"order,omitempty"`
	Is    *bookOrder       `json:"is,omitempty"` // nil = nothing any more
}

// OpenMemory reads the file, or begins without one: it appears with the first change, its folder must be there. It does not wait for a file that another
// FileMemory holds, in this process or another one: ErrMemoryHeld. Open it before the Client that uses it: a second process then ends before it takes the session of the first at the broker. A
// file that is no memory is an error, for an empty memory would hand everything over again. A last line that was cut off
// by a crash was never durable and is left out.
func OpenMemory(file string) (*FileMemory, error) {
	lock, err := filelock.Open(file + ".lock")
	if errors.Is(err, filelock.ErrHeld) {
		err = ErrMemoryHeld
	}
	if err != nil {
		return nil, fmt.Errorf("mes: memory %s: %w", file, err)
	}
	m := newFileMemory(file, lock)
	if err := m.open(); err != nil {
		lock.Close()
		return nil, fmt.Errorf("mes: memory %s: %w", file, err)
	}
	return m, nil
}

func newFileMemory(file string, lock *os.File) *FileMemory {
	m := &FileMemory{file: file, lock: lock, scopes: map[isa95.Scope]*book{}}
	m.written.L = &m.mu
	return m
}

func (m *FileMemory) open() error {
	data, err := os.ReadFile(m.file)
	if errors.Is(err, fs.ErrNotExist) {
		m.anew = true
		return nil
	}
	if err == nil {
		err = m.read(data)
	}
	for _, b := range m.scopes {
		b.sort()
		b.forget(time.Now())
	}
	return err
}

// Close gives the file free for another process, once a write under way has ended. Changes after it are refused; what a Follow that still runs
// hands over then is not remembered, so end it first. A second Close does nothing.
func (m *FileMemory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.writing {
		m.written.Wait()
	}
	if m.closed {
		return nil
	}
	m.closed = true
	return m.lock.Close()
}

func (m *FileMemory) read(data []byte) error {
	var head memoryHead
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&head); err != nil {
		return fmt.Errorf("is no memory of an MES: %w", err)
	}
	if head.Version != 2 {
		return fmt.Errorf("version %d, this program knows 2", head.Version)
	}
	_, rest, _ := bytes.Cut(data, []byte("\n"))
	for n := 2; len(rest) > 0; n++ {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if !whole || bytes.IndexByte(line, 0) >= 0 {
			m.anew = true // the last append was torn by a crash, so nothing relies on it
			break
		}
		if err := m.readLine(line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		rest = after
		m.count++
	}
	return nil
}

func (m *FileMemory) readLine(text []byte) error {
	var line memoryLine
	if err := json.Unmarshal(text, &line); err != nil {
		return err
	}
	b := m.book(line.Scope)
	switch {
	case line.Scope == "", line.Seq == nil && line.Order == "":
		return errors.New("neither a scope with its seq nor an order")
	case line.Seq != nil:
		b.seq, b.epoch = *line.Seq, line.Epoch
	default:
		b.put(line.Order, line.Is)
	}
	return nil
}

// book is the book of a scope. m.mu is held, or m is being made.
func (m *FileMemory) book(scope isa95.Scope) *book {
	b := m.scopes[scope]
	if b == nil {
		b = newBook()
		m.scopes[scope] = b
	}
	return b
}

// Load implements Memory.
func (m *FileMemory) Load(_ context.Context, scope isa95.Scope) (Known, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.book(scope).known(), nil
}

// Order implements Memory.
func (m *FileMemory) Order(_ context.Context, scope isa95.Scope, id isa95.JobOrderID) (Order, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.book(scope).order(id), nil
}

// Accepted implements Memory.
func (m *FileMemory) Accepted(_ context.Context, scope isa95.Scope, id isa95.JobOrderID) error {
	return m.change(scope, func(b *book) []isa95.JobOrderID { return b.accept(id) })
}

// Handed implements Memory.
func (m *FileMemory) Handed(_ context.Context, scope isa95.Scope, id isa95.JobOrderID, r Receipt) error {
	return m.change(scope, func(b *book) []isa95.JobOrderID { return b.handOver(id, r) })
}

// Lost implements Memory.
func (m *FileMemory) Lost(_ context.Context, scope isa95.Scope, id isa95.JobOrderID, reported bool) error {
	return m.change(scope, func(b *book) []isa95.JobOrderID { return b.lose(id, reported, time.Now()) })
}

// Settled implements Memory.
func (m *FileMemory) Settled(_ context.Context, scope isa95.Scope, s Settlement) error {
	return m.change(scope, func(b *book) []isa95.JobOrderID { return b.settle(s, time.Now()) })
}

// change waits until the change, and what was changed before it, is in the file. After an error it may be there or come with
// the next change.
func (m *FileMemory) change(scope isa95.Scope, f func(*book) []isa95.JobOrderID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("mes: memory %s: it is closed", m.file)
	}
	b := m.book(scope)
	seq, epoch := b.seq, b.epoch
	changed := f(b)
	if m.file == "" {
		return nil
	}
	for _, id := range changed {
		m.add(memoryLine{Scope: scope, Order: id, Is: b.orders[id]})
	}
	if b.seq != seq || b.epoch != epoch {
		m.add(memoryLine{Scope: scope, Seq: &b.seq, Epoch: b.epoch})
	}
	m.changes++
	mine := m.changes
	for m.durable < mine {
		if m.writing {
			m.written.Wait() // his write may hold our change, or we do the next
			continue
		}
		if m.closed {
			return fmt.Errorf("mes: memory %s: it is closed", m.file)
		}
		if err := m.write(); err != nil {
			return fmt.Errorf("mes: memory: %w", err)
		}
	}
	return nil
}

func (m *FileMemory) add(line memoryLine) {
	m.lines = appendLine(m.lines, line)
	m.count++
}

func appendLine(to []byte, line any) []byte {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err) // names and numbers always encode
	}
	return append(append(to, text...), '\n')
}

// spareLines is how many lines may be out of date, beside as many as are not.
const spareLines = 1000

// write puts all changes so far into the file. m.mu is held, but for the time of the write itself.
func (m *FileMemory) write() error {
	current := 0
	for _, b := range m.scopes {
		current += 1 + len(b.orders)
	}
	anew := m.anew || m.count > 2*current+spareLines
	upTo, data := m.changes, m.lines
	if anew {
		data = m.encode()
		m.count = bytes.Count(data, []byte{'\n'}) - 1
	}
	m.lines, m.writing = nil, true
	m.mu.Unlock()
	var err error
	switch {
	case anew:
		err = replaceFile(m.file, data)
	case len(data) > 0:
		err = appendFile(m.file, data)
	}
	m.mu.Lock()
	m.writing, m.anew = false, err != nil // an append may have been torn
	if err == nil {
		m.durable = max(m.durable, upTo)
	}
	m.written.Broadcast()
	return err
}

// encode is the content of a new file; m.mu is held. Scopes and orders stand in the order of their names.
func (m *FileMemory) encode() []byte {
	data := appendLine(nil, memoryHead{Version: 2})
	for _, scope := range slices.Sorted(maps.Keys(m.scopes)) {
		b := m.scopes[scope]
		if b.seq != 0 || b.epoch != "" {
			data = appendLine(data, memoryLine{Scope: scope, Seq: &b.seq, Epoch: b.epoch})
		}
		for _, id := range slices.Sorted(maps.Keys(b.orders)) {
			data = appendLine(data, memoryLine{Scope: scope, Order: id, Is: b.orders[id]})
		}
	}
	return data
}

func appendFile(file string, data []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// replaceFile puts data in the place of a file so that after a crash it is the old one or the new one.
func replaceFile(file string, data []byte) error {
	temp, err := os.OpenFile(file+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err = os.Rename(temp.Name(), file); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
