package mes

import (
	"context"
	"maps"
	"sync"

	"github.com/taktworks/takt/isa95"
)

// Memory is what an MES remembers over its restarts, per scope: how far it has followed, and which results it has handed
// over whose orders are still in the index. Follow calls it from several goroutines.
//
// An MES that stores results in a database may implement it there, write the receipt (ReceiptOf) in the transaction of
// OnResult itself and let Handed find it: then a result is handed over exactly once, crashes included.
type Memory interface {
	// Load returns what is known of a scope; of an unknown one the zero value.
	Load(ctx context.Context, scope isa95.Scope) (Known, error)

	// Handed remembers that the result of an order was handed over. When it returns nil that must be durable, for the order
	// is cleared next.
	Handed(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID, r Receipt) error

	// Settled remembers that everything up to the index with seq is dealt with, and forgets the receipts of the orders in
	// gone, which have left the index.
	Settled(ctx context.Context, scope isa95.Scope, seq int64, gone []isa95.JobOrderID) error
}

// Known is what a Memory knows of a scope.
type Known struct {
	Seq    int64 // of the last index that was dealt with; 0 = none ever
	Handed map[isa95.JobOrderID]Receipt
}

// Receipt says which result of an order was handed over.
type Receipt struct {
	JobResponseID isa95.JobResponseID `json:"response"`
	Digest        string              `json:"digest"` // SHA-256, hex, of the result: an order id may be used again
}

func (k Known) clone() Known {
	k.Handed = maps.Clone(k.Handed)
	if k.Handed == nil {
		k.Handed = map[isa95.JobOrderID]Receipt{}
	}
	return k
}

func (k *Known) settle(seq int64, gone []isa95.JobOrderID) {
	k.Seq = seq
	for _, id := range gone {
		delete(k.Handed, id)
	}
}

// NewMemory makes a Memory that lasts as long as the process: what was handed over before a restart and is not cleared
// is handed over again.
func NewMemory() Memory { return &volatile{scopes: map[isa95.Scope]*Known{}} }

type volatile struct {
	mu     sync.Mutex
	scopes map[isa95.Scope]*Known
}

func (m *volatile) of(scope isa95.Scope) *Known {
	if m.scopes[scope] == nil {
		m.scopes[scope] = &Known{Handed: map[isa95.JobOrderID]Receipt{}}
	}
	return m.scopes[scope]
}

func (m *volatile) Load(_ context.Context, scope isa95.Scope) (Known, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(scope).clone(), nil
}

func (m *volatile) Handed(_ context.Context, scope isa95.Scope, id isa95.JobOrderID, r Receipt) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(scope).Handed[id] = r
	return nil
}

func (m *volatile) Settled(_ context.Context, scope isa95.Scope, seq int64, gone []isa95.JobOrderID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(scope).settle(seq, gone)
	return nil
}
