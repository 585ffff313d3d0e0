package mes

import (
	"context"
	"time"

	"github.com/taktworks/takt/isa95"
)

// Memory is what an MES remembers over its restarts, per scope: how far it has followed, which job orders it has stored,
// and which results it has handed over. Follow and StoreOnce call it from several goroutines. When a method that changes
// something returns nil, the change must be durable.
//
// An MES that stores results in a database may implement it there, write the receipt (ReceiptOf) in the transaction of
// OnResult itself and let Handed find it: then a result is handed over exactly once, crashes included.
type Memory interface {
	// Load returns what is open in a scope; of an unknown one the zero value. Follow calls it for every index.
	Load(ctx context.Context, scope isa95.Scope) (Known, error)

	// Order returns what is known of one job order; of an unknown one the zero value.
	Order(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID) (Order, error)

	// Accepted remembers that Takt has a job order that StoreOnce sent. What was known of it before is replaced, but for
	// Order.Lost. Of an order that was handed over it changes nothing.
	Accepted(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID) error

	// Handed remembers that the result of an order was handed over. The order is cleared next.
	Handed(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID, r Receipt) error

	// Lost remembers that Takt has lost an accepted job order, and adds 1 to Order.Lost; reported, that OnLost has returned nil. Of
	// an order that is not accepted, or for reported not lost, it changes nothing.
	Lost(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID, reported bool) error

	// Settled remembers that everything up to an index is dealt with. The orders in Gone have left the index; what is known
	// of them is kept for some days, so that none is sent or handed over again.
	Settled(ctx context.Context, scope isa95.Scope, s Settlement) error
}

// Known is what is open in a scope.
type Known struct {
	Seq      int64                            // of the last index that was dealt with; 0 = none ever
	Epoch    string                           // of that index; "" = it had none
	Handed   map[isa95.JobOrderID]Receipt     // handed over and still in the index
	Accepted map[isa95.JobOrderID]IndexNumber // with Takt, no result yet: the last index that was dealt with then
	Lost     []isa95.JobOrderID               // not reported to OnLost yet
}

// IndexNumber says which state index of a scope: Seq grows within an epoch.
type IndexNumber struct {
	Seq   int64
	Epoch string
}

// Settlement is what one index changes.
type Settlement struct {
	Seq   int64
	Epoch string
	Gone  []isa95.JobOrderID
}

// Receipt says which result of an order was handed over.
type Receipt struct {
	JobResponseID isa95.JobResponseID `json:"response"`
	Digest        string              `json:"digest"` // SHA-256, hex, of the result: an order id may be used again
}

// Order is what is known of one job order. The zero value: nothing.
type Order struct {
	State   OrderState
	Once    bool    // StoreOnce stored it: its id stands for one order
	Lost    int     // how often Takt lost it
	Receipt Receipt // of OrderHanded and OrderGone; zero if the order ended without a result for this MES
}

// OrderState says where a job order is for the MES.
type OrderState string

// The states of a job order in a Memory.
const (
	OrderUnknown  OrderState = ""         // never stored by StoreOnce, no result handed over; or long ago
	OrderAccepted OrderState = "accepted" // Takt has it
	OrderHanded   OrderState = "handed"   // its result was handed over
	OrderGone     OrderState = "gone"     // and it has left Takt; or it was canceled or cleared by another program
	OrderLost     OrderState = "lost"     // Takt had it and lost it
)

// Of orders that are gone or lost a memory keeps what it knows this long, at most so many per scope.
const (
	keepGone = 7 * 24 * time.Hour
	maxGone  = 100_000
)

// NewMemory makes a Memory that lasts as long as the process: what was handed over before a restart and is not cleared
// is handed over again.
func NewMemory() Memory { return newFileMemory("", nil) }
