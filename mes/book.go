package mes

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/taktworks/takt/isa95"
)

// book is what a Memory knows of one scope. Its methods are those of Memory, without I/O: each returns the orders that it changed.
type book struct {
	seq    int64
	epoch  string
	orders map[isa95.JobOrderID]*bookOrder
	open   map[isa95.JobOrderID]*bookOrder // of orders, those of Known
	past   []pastOrder                     // in the order of since; may hold orders that are no longer past, or are anew
	gone   int                             // of orders, those that are gone or lost
}

// pastOrder is an order that became gone or lost at a time.
type pastOrder struct {
	id    isa95.JobOrderID
	since int64
}

// bookOrder is one order, as it stands in the file.
type bookOrder struct {
	State    OrderState `json:"state"`
	Once     bool       `json:"once,omitempty"`
	Lost     int        `json:"lost,omitempty"`
	Reported bool       `json:"reported,omitempty"` // of a lost one
	Response string     `json:"response,omitempty"` // with Digest: the receipt
	Digest   string     `json:"digest,omitempty"`
	Seq      int64      `json:"seq,omitempty"` // with Epoch: the last index that was dealt with when it was accepted
	Epoch    string     `json:"epoch,omitempty"`
	Since    int64      `json:"since,omitempty"` // Unix time, in seconds, from when it is gone or lost
}

func newBook() *book {
	return &book{orders: map[isa95.JobOrderID]*bookOrder{}, open: map[isa95.JobOrderID]*bookOrder{}}
}

func (o *bookOrder) receipt() Receipt {
	return Receipt{JobResponseID: isa95.JobResponseID(o.Response), Digest: o.Digest}
}

func (o *bookOrder) past() bool { return o.State == OrderGone || o.State == OrderLost }

func (b *book) known() Known {
	k := Known{Seq: b.seq, Epoch: b.epoch}.clone()
	for id, o := range b.open {
		switch o.State {
		case OrderHanded:
			k.Handed[id] = o.receipt()
		case OrderAccepted:
			k.Accepted[id] = IndexNumber{o.Seq, o.Epoch}
		default:
			k.Lost = append(k.Lost, id)
		}
	}
	slices.Sort(k.Lost)
	return k
}

func (b *book) order(id isa95.JobOrderID) Order {
	o := b.orders[id]
	if o == nil {
		return Order{}
	}
	return Order{State: o.State, Once: o.Once, Lost: o.Lost, Receipt: o.receipt()}
}

// put replaces what is known of an order; nil forgets it.
func (b *book) put(id isa95.JobOrderID, o *bookOrder) {
	if old := b.orders[id]; old != nil && old.past() {
		b.gone--
	}
	delete(b.open, id)
	if o == nil {
		delete(b.orders, id)
		return
	}
	b.orders[id] = o
	if o.past() {
		b.gone++
		b.past = append(b.past, pastOrder{id, o.Since})
	}
	if o.State != OrderGone && !o.Reported {
		b.open[id] = o
	}
}

func (b *book) accept(id isa95.JobOrderID) []isa95.JobOrderID {
	lost := 0
	if old := b.orders[id]; old != nil {
		if old.State == OrderHanded || old.State == OrderGone {
			return nil // its result came before the answer
		}
		lost = old.Lost
	}
	b.put(id, &bookOrder{State: OrderAccepted, Once: true, Lost: lost, Seq: b.seq, Epoch: b.epoch})
	return []isa95.JobOrderID{id}
}

func (b *book) handOver(id isa95.JobOrderID, r Receipt) []isa95.JobOrderID {
	o := &bookOrder{State: OrderHanded, Response: string(r.JobResponseID), Digest: r.Digest}
	if old := b.orders[id]; old != nil {
		o.Once, o.Lost = old.Once, old.Lost
	}
	b.put(id, o)
	return []isa95.JobOrderID{id}
}

func (b *book) lose(id isa95.JobOrderID, reported bool, now time.Time) []isa95.JobOrderID {
	old := b.orders[id]
	switch {
	case old == nil, reported && (old.State != OrderLost || old.Reported), !reported && old.State != OrderAccepted:
		return nil
	case reported:
		old.Reported = true
		delete(b.open, id)
	default:
		b.put(id, &bookOrder{State: OrderLost, Once: old.Once, Lost: old.Lost + 1, Since: now.Unix()})
	}
	return []isa95.JobOrderID{id}
}

func (b *book) settle(s Settlement, now time.Time) (changed []isa95.JobOrderID) {
	b.seq, b.epoch = s.Seq, s.Epoch
	for _, id := range s.Gone {
		if old := b.orders[id]; old != nil && !old.past() {
			o := *old
			o.State, o.Seq, o.Epoch, o.Since = OrderGone, 0, "", now.Unix()
			b.put(id, &o)
			changed = append(changed, id)
		}
	}
	return append(changed, b.forget(now)...)
}

// forget drops what was kept of past orders for long enough, and what is too much of it.
func (b *book) forget(now time.Time) (dropped []isa95.JobOrderID) {
	for len(b.past) > 0 {
		first := b.past[0]
		if o := b.orders[first.id]; o != nil && o.past() && o.Since == first.since {
			if b.gone <= maxGone && now.Sub(time.Unix(first.since, 0)) < keepGone {
				break
			}
			b.put(first.id, nil)
			dropped = append(dropped, first.id)
		}
		b.past = b.past[1:]
	}
	return dropped
}

// sort puts the past orders in their order: after reading a file.
func (b *book) sort() {
	slices.SortFunc(b.past, func(x, y pastOrder) int {
		return cmp.Or(cmp.Compare(x.since, y.since), cmp.Compare(x.id, y.id))
	})
}

func (k Known) clone() Known {
	k.Handed, k.Accepted, k.Lost = maps.Clone(k.Handed), maps.Clone(k.Accepted), slices.Clone(k.Lost)
	if k.Handed == nil {
		k.Handed = map[isa95.JobOrderID]Receipt{}
	}
	if k.Accepted == nil {
		k.Accepted = map[isa95.JobOrderID]IndexNumber{}
	}
	return k
}
