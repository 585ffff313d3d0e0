package mes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/taktworks/takt/isa95"
)

// FileMemory is a Memory in one JSON file of mode 0600. Every change is written to a temporary file beside it, synced and
// renamed, so the file is always whole; changes that come together share one write. One process per file.
type FileMemory struct {
	file string

	mu      sync.Mutex
	written sync.Cond // a write has ended
	scopes  map[isa95.Scope]*Known
	changes int64 // made in scopes
	durable int64 // of those, in the file
	writing bool
}

// memoryFile is the format.
type memoryFile struct {
	Version int                          `json:"version"` // 1
	Scopes  map[isa95.Scope]*memoryScope `json:"scopes"`
}

type memoryScope struct {
	Seq    int64                        `json:"seq"`
	Handed map[isa95.JobOrderID]Receipt `json:"handed"`
}

// OpenMemory reads the file, or begins without one: it appears with the first change, its folder must be there. A
// file that is no memory is an error, for an empty memory would hand everything over again.
func OpenMemory(file string) (*FileMemory, error) {
	m := &FileMemory{file: file, scopes: map[isa95.Scope]*Known{}}
	m.written.L = &m.mu
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, fmt.Errorf("mes: memory: %w", err)
	}
	var f memoryFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("mes: memory %s: is no memory of an MES: %w", file, err)
	}
	if f.Version != 1 {
		return nil, fmt.Errorf("mes: memory %s: version %d, this program knows 1", file, f.Version)
	}
	for scope, s := range f.Scopes {
		if s == nil {
			return nil, fmt.Errorf("mes: memory %s: scope %q has no content", file, scope)
		}
		k := Known{Seq: s.Seq, Handed: s.Handed}.clone()
		m.scopes[scope] = &k
	}
	return m, nil
}

// Load implements Memory.
func (m *FileMemory) Load(_ context.Context, scope isa95.Scope) (Known, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.scopes[scope]; k != nil {
		return k.clone(), nil
	}
	return Known{}.clone(), nil
}

// Handed implements Memory.
func (m *FileMemory) Handed(_ context.Context, scope isa95.Scope, id isa95.JobOrderID, r Receipt) error {
	return m.change(scope, func(k *Known) { k.Handed[id] = r })
}

// Settled implements Memory.
func (m *FileMemory) Settled(_ context.Context, scope isa95.Scope, seq int64, gone []isa95.JobOrderID) error {
	return m.change(scope, func(k *Known) { k.settle(seq, gone) })
}

// change waits until the change is in the file. After an error it may be there or come with the next change.
func (m *FileMemory) change(scope isa95.Scope, f func(*Known)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.scopes[scope] == nil {
		m.scopes[scope] = &Known{Handed: map[isa95.JobOrderID]Receipt{}}
	}
	f(m.scopes[scope])
	m.changes++
	mine := m.changes
	for m.durable < mine {
		if m.writing {
			m.written.Wait() // his write may hold our change, or we do the next
			continue
		}
		upTo, data := m.changes, m.encode()
		m.writing = true
		m.mu.Unlock()
		err := replaceFile(m.file, data)
		m.mu.Lock()
		m.writing = false
		if err == nil {
			m.durable = max(m.durable, upTo)
		}
		m.written.Broadcast()
		if err != nil {
			return fmt.Errorf("mes: memory: %w", err)
		}
	}
	return nil
}

// encode is the content of the file; m.mu is held. Scopes and orders stand in the order of their names.
func (m *FileMemory) encode() []byte {
	f := memoryFile{Version: 1, Scopes: map[isa95.Scope]*memoryScope{}}
	for scope, k := range m.scopes {
		f.Scopes[scope] = &memoryScope{Seq: k.Seq, Handed: k.Handed}
	}
	data, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		panic(err) // names and numbers always encode
	}
	return append(data, '\n')
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
