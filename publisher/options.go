package publisher

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
)

// OrderPayload is what stands in order/{id}.
type OrderPayload string

const (
	Order          OrderPayload = "order"      // the job order, as on the MES Northbound Publishing page
	OrderWithState OrderPayload = "with_state" // {JobOrder, State}, as MicroDCS writes it; published again when the state changes
)

// Options configure a Publisher. The zero value of a field takes the default it names.
type Options struct {
	TopicPrefix    string         // of every topic; required, without wildcards
	RetainedTTL    time.Duration  // MessageExpiryInterval of retained topics, whole seconds; default 48 h, at least 1 min
	Refresh        time.Duration  // everything is published again after; default half of RetainedTTL, which is also the most
	Audit          time.Duration  // the broker is asked what it has, and what differs is mended; default 10 min
	StateIndexKeys isa95.Spelling // of the state in state-index; default isa95.Page
	OrderPayload   OrderPayload   // default Order

	Batch    int           // changes read at once, 1 to 10000; default 500
	Block    time.Duration // a read waits so long for changes, 10 ms to 1 min; default 500 ms
	Coalesce time.Duration // pause between reads, unless there are more changes than Batch; default 50 ms, negative: none
	InFlight int           // messages that wait for their PUBACK at once; default 128
	Lease    time.Duration // another process takes over after; default 10 s, at least 100 ms
	Grace    time.Duration // a stop waits so long for the batch in hand; default 5 s

	Log *slog.Logger // default slog.Default()
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		*d = cmp.Or(*d, v)
	}
	def(&o.RetainedTTL, 48*time.Hour)
	def(&o.Refresh, o.RetainedTTL/2)
	def(&o.Audit, min(10*time.Minute, o.RetainedTTL))
	def(&o.Block, 500*time.Millisecond)
	def(&o.Coalesce, 50*time.Millisecond)
	def(&o.Lease, 10*time.Second)
	def(&o.Grace, 5*time.Second)
	o.StateIndexKeys = cmp.Or(o.StateIndexKeys, isa95.Page)
	o.OrderPayload = cmp.Or(o.OrderPayload, Order)
	o.Batch = cmp.Or(o.Batch, 500)
	o.InFlight = cmp.Or(o.InFlight, 128)
	o.Log = cmp.Or(o.Log, slog.Default())
	return o
}

// validate names field, value and rule of what cannot be.
func (o Options) validate() error {
	bad := func(field string, value any, rule string) error {
		return fmt.Errorf("publisher: %s is %v: must be %s", field, value, rule)
	}
	if strings.HasPrefix(o.TopicPrefix, "$") || mqtt.CheckTopic(o.TopicPrefix) != nil {
		return bad("TopicPrefix", fmt.Sprintf("%q", o.TopicPrefix), "a topic: not empty, without + and #, not beginning with $")
	}
	if o.StateIndexKeys != isa95.Page && o.StateIndexKeys != isa95.Wire {
		return bad("StateIndexKeys", fmt.Sprintf("%q", o.StateIndexKeys), "page or wire")
	}
	if o.OrderPayload != Order && o.OrderPayload != OrderWithState {
		return bad("OrderPayload", fmt.Sprintf("%q", o.OrderPayload), "order or with_state")
	}
	for _, d := range []struct {
		field            string
		value, low, high time.Duration
	}{
		{"RetainedTTL", o.RetainedTTL, time.Minute, 136 * 365 * 24 * time.Hour},
		{"Refresh", o.Refresh, time.Millisecond, o.RetainedTTL / 2},
		{"Audit", o.Audit, time.Millisecond, o.RetainedTTL},
		{"Block", o.Block, 10 * time.Millisecond, time.Minute},
		{"Lease", o.Lease, 100 * time.Millisecond, time.Hour},
		{"Grace", o.Grace, time.Millisecond, time.Hour},
	} {
		if d.value < d.low || d.value > d.high {
			return bad(d.field, d.value, fmt.Sprintf("%v to %v", d.low, d.high))
		}
	}
	if o.Batch < 1 || o.Batch > 10000 {
		return bad("Batch", o.Batch, "1 to 10000")
	}
	if o.InFlight < 1 || o.InFlight > 65535 {
		return bad("InFlight", o.InFlight, "1 to 65535")
	}
	return nil
}
