package jobstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/isa95"
)

// Limits of what a program writes in a Batch, in bytes.
const (
	MaxProgramValue = 1 << 20
	MaxProgramEvent = 256 << 10 // of an event in JSON
)

// Batch is one commit of a program: changes of job orders, configuration, values of the program, events, and the mark of the CloudEvent that asked for all of it.
// Everything that was read by way of it is expected to be unchanged. It serves one goroutine and one Commit.
type Batch struct {
	store   *Store
	program string
	c       *commit.Commit
	writers []*writer
	touched map[string]bool       // job orders and work masters that it changes
	joining map[isa95.Scope]int64 // job orders that come into a scope
	read    map[string][]byte     // values as they were read
	values  map[string]programValue
	err     error // a change that was left half built: nothing may be committed
}

// programValue is a value as it shall be; nil = deleted.
type programValue struct {
	value []byte
	keep  time.Duration
}

// Batch begins a commit of the program of that name.
func (s *Store) Batch(program string) *Batch {
	return &Batch{
		store: s, program: program, c: commit.New(), touched: make(map[string]bool), joining: make(map[isa95.Scope]int64),
		read: make(map[string][]byte), values: make(map[string]programValue),
	}
}

// Load is Store.Load. Acceptance counts the job orders that the batch has stored already. A job order that the batch has changed cannot be loaded again.
func (b *Batch) Load(ctx context.Context, q Query) (*Snapshot, error) {
	if b.touched["job order "+string(q.JobOrderID)] {
		return nil, fmt.Errorf("jobstore: job order %q was changed by this commit already: read it before, and change it once", q.JobOrderID)
	}
	snap, err := b.store.Load(ctx, q)
	if err == nil && snap.Acceptance != nil {
		snap.Acceptance.joined = b.joining[q.Scope]
		snap.Acceptance.Live += snap.Acceptance.joined
	}
	return snap, err
}

// Expect makes the commit depend on all that was read for snap.
func (b *Batch) Expect(snap *Snapshot) {
	for _, r := range snap.read {
		b.c.Expect(r.key, r.value)
	}
}

// Change adds a change of the job order of snap, which Load has read. Seen and Item of the change must be nil.
func (b *Batch) Change(snap *Snapshot, change Change) error {
	if change.Seen != nil || change.Item != nil {
		return errors.New("jobstore: a change of a batch has Seen or Item: they belong to Commit and to the recipe engine")
	}
	w := &writer{store: b.store, snap: snap, change: change, c: b.c}
	if err := w.build(); err != nil {
		b.err = err
		return err
	}
	b.writers = append(b.writers, w)
	b.touched["job order "+string(snap.JobOrderID)] = true
	if change.Transition != nil && (snap.Job == nil || snap.Job.State.IsEnd()) {
		b.joining[snap.Scope]++
	}
	return nil
}

// Configure adds one piece of a station's configuration.
func (b *Batch) Configure(ctx context.Context, c Configuration) error {
	var snap *Snapshot
	if c.Kind == isa95.ConfigWorkMaster {
		name := "work master " + c.ID
		if b.touched[name] {
			return fmt.Errorf("jobstore: work master %q is configured twice in one commit: use one event for each scope", c.ID)
		}
		var err error
		if snap, err = b.store.Load(ctx, Query{Scope: c.Scope, Holders: isa95.WorkMasterID(c.ID)}); err != nil {
			return err
		}
		b.touched[name] = true
	}
	if err := b.store.configure(ctx, c, snap, b.c); err != nil {
		b.err = err
		return err
	}
	return nil
}

// Value returns a value of the program, as the batch leaves it; nil = none. A bad name is a *isa95.NameError.
func (b *Batch) Value(ctx context.Context, name string) ([]byte, error) {
	key, err := b.valueKey(name)
	if err != nil {
		return nil, err
	}
	if v, ok := b.values[key]; ok {
		return v.value, nil
	}
	if doc, ok := b.read[key]; ok {
		return doc, nil
	}
	doc, err := b.store.get(ctx, key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, b.store.alarm.Note(err)
	}
	b.read[key] = doc
	b.c.Expect(key, doc)
	return doc, nil
}

// SetValue replaces a value of the program, of at most MaxProgramValue bytes; it goes after keep (0 = never, else at least 1 ms). A bad name is a *isa95.NameError.
func (b *Batch) SetValue(name string, value []byte, keep time.Duration) error {
	key, err := b.valueKey(name)
	switch {
	case err != nil:
		return err
	case len(value) > MaxProgramValue:
		return fmt.Errorf("jobstore: value %q has %d bytes: must be at most %d", name, len(value), MaxProgramValue)
	case keep < 0 || keep > 0 && keep < time.Millisecond:
		return fmt.Errorf("jobstore: value %q is kept for %v: must be at least 1ms, or 0 for ever", name, keep)
	}
	b.values[key] = programValue{append([]byte{}, value...), keep}
	return nil
}

// DeleteValue deletes a value of the program. A bad name is a *isa95.NameError.
func (b *Batch) DeleteValue(name string) error {
	key, err := b.valueKey(name)
	if err == nil {
		b.values[key] = programValue{}
	}
	return err
}

func (b *Batch) valueKey(name string) (string, error) {
	return b.store.keys.ProgramValue(b.program, name), checkName("value", name)
}

// Emit adds an event, which is sent on {topic prefix}/{scope}/events by any process that sends status events, as soon as it is committed and until the broker has it.
// Its scope is its subject up to the first "/". Events of one scope leave in order. Its JSON has at most MaxProgramEvent bytes.
func (b *Batch) Emit(e cloudevent.Event) error {
	if err := e.Check(); err != nil {
		return err
	}
	scope, err := isa95.ParseScope(e.Scope())
	if err != nil {
		return err
	}
	text, err := e.MarshalJSON()
	if err != nil {
		return err
	}
	if len(text) > MaxProgramEvent {
		return fmt.Errorf("jobstore: event %s has %d bytes in JSON: must be at most %d", e.Type, len(text), MaxProgramEvent)
	}
	b.c.XAdd(b.store.keys.EventReceiver(), 0, "scope", string(scope), "event", string(text))
	return nil
}

// Commit writes all of it, with the mark of the CloudEvent for which seen was loaded (nil: none), or nothing. The errors are those of Store.Commit.
func (b *Batch) Commit(ctx context.Context, snap *Snapshot, seen *Seen) error {
	if b.err != nil {
		return b.err
	}
	if seen != nil {
		snap.expectSeen(b.c)
		if err := b.store.writeSeen(b.c, snap, seen); err != nil {
			return err
		}
	}
	for key, v := range b.values {
		if v.value == nil {
			b.c.Del(key)
		} else {
			b.c.Set(key, v.value, v.keep)
		}
	}
	if b.c.Empty() {
		return nil
	}
	if err := b.store.apply(ctx, b.store.safely(), b.c, b.writers...); err != nil {
		return fmt.Errorf("jobstore: commit of %s: %w", b.program, err)
	}
	return nil
}
