package processor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
)

// Call is a job method that a handler calls.
type Call = jobcontrol.Call

// RefusedError says that the rules of job orders refuse a Call: nothing of it is written. A handler that returns it refuses its event with the same reason.
type RefusedError = jobcontrol.RefusedError

// Tx is what a handler reads and writes by. All of it is written when the handler returns without an error and nothing that it has read by it has changed meanwhile; else
// nothing is, and after a change the handler is called again. It serves one goroutine, and is of no use after the handler has returned.
type Tx struct {
	Event cloudevent.Event // the event that is handled; in a hook one without a type of the wire

	p *Processor
	b *jobstore.Batch
}

func (p *Processor) tx(b *jobstore.Batch, e cloudevent.Event) *Tx { return &Tx{Event: e, p: p, b: b} }

// Call calls a job method, by the rules that hold for an MES: OPC 10031-4, 6.2. A job order can be changed once by one Tx. A *RefusedError says that the rules refuse it, and what an MES
// would have been answered; the handler may go on.
func (tx *Tx) Call(ctx context.Context, c Call) error {
	return tx.p.receiver.Call(ctx, tx.b, tx.Event, c)
}

// JobOrder reads a job order. jobstore.ErrNotFound: there is none of that id.
func (tx *Tx) JobOrder(ctx context.Context, id isa95.JobOrderID) (*jobstore.StoredOrder, error) {
	snap, err := tx.b.Load(ctx, jobstore.Query{JobOrderID: id})
	if err != nil {
		return nil, err
	}
	if snap.Job == nil {
		return nil, jobstore.ErrNotFound
	}
	tx.b.Expect(snap)
	return snap.Job, nil
}

// Configure adds, replaces or deletes one piece of a station's configuration: a resource, a work master, or the limit of its job orders.
func (tx *Tx) Configure(ctx context.Context, c jobstore.Configuration) error {
	return tx.b.Configure(ctx, c)
}

// Get decodes a value of the processor into v, by encoding/json, and says whether there is one; v stays as it is when there is none. Values are shared by all replicas.
// A name has 1 to 128 bytes of UTF-8 without control characters, else the error is a *isa95.NameError.
func (tx *Tx) Get(ctx context.Context, name string, v any) (bool, error) {
	doc, err := tx.b.Value(ctx, name)
	if doc == nil || err != nil {
		return false, err
	}
	return true, json.Unmarshal(doc, v)
}

// Put replaces a value of the processor by the JSON of v, at most 1 MiB; it goes after keep (0 = never, else at least 1 ms).
func (tx *Tx) Put(name string, v any, keep time.Duration) error {
	doc, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return tx.b.SetValue(name, doc, keep)
}

// Delete deletes a value of the processor.
func (tx *Tx) Delete(name string) error { return tx.b.DeleteValue(name) }

// Emit sends an event of the given type, with the JSON of body, on {topic prefix}/{scope}/events once the commit is written and until the broker has it: `takt serve` sends it, in any role.
// It names the handled event as its cause, and has its correlation id. Events of one scope leave in order.
func (tx *Tx) Emit(typ string, scope isa95.Scope, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	e := tx.Event.Caused(typ, data, "", "urn:takt:"+tx.p.opt.Name, tx.p.opt.Store.Now())
	e.Subject = string(scope)
	return tx.b.Emit(e)
}
