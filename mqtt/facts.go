package mqtt

import (
	"math"
	"time"

	"github.com/eclipse/paho.golang/paho"
)

// Facts is what the broker said of itself and of our session when the current connection was
// made; when there is none, of the last one.
type Facts struct {
	Connected bool      // is there a connection now
	Since     time.Time // when it was made; zero: never yet
	Broker    string    // URL without user and password
	ClientID  string    // ours, or the one the broker chose

	SessionPresent bool          // the broker had kept our session
	SessionExpiry  time.Duration // what it granted
	KeepAlive      time.Duration // what it wants

	MaximumQoS                  byte
	MaximumPacketSize           int // bytes it takes; 0: no limit named
	ReceiveMaximum              int // publishes it takes before it acknowledged the first
	RetainAvailable             bool
	WildcardSubscriptions       bool
	SharedSubscriptions         bool
	SubscriptionIdentifiers     bool
	RefusedFilters              []string // subscriptions it refused so far on this connection
	HeldBytes                   int      // of messages that came and are not acknowledged; see Options.ReceiveBytes
	Connects, Losses, TakenOver int64    // of this Conn since it was made
}

func factsOf(o *Options, broker string, ack *paho.Connack) Facts {
	f := Facts{
		Since: time.Now(), Broker: broker, ClientID: o.ClientID,
		SessionPresent: ack.SessionPresent, SessionExpiry: o.SessionExpiry, KeepAlive: o.KeepAlive,
		MaximumQoS: 2, ReceiveMaximum: math.MaxUint16, RetainAvailable: true,
		WildcardSubscriptions: true, SharedSubscriptions: true, SubscriptionIdentifiers: true,
	}
	p := ack.Properties
	if p == nil {
		return f
	}
	if p.AssignedClientID != "" {
		f.ClientID = p.AssignedClientID
	}
	if p.SessionExpiryInterval != nil {
		f.SessionExpiry = time.Duration(*p.SessionExpiryInterval) * time.Second
	}
	if p.ServerKeepAlive != nil {
		f.KeepAlive = time.Duration(*p.ServerKeepAlive) * time.Second
	}
	if p.MaximumQoS != nil {
		f.MaximumQoS = *p.MaximumQoS
	}
	if p.MaximumPacketSize != nil {
		f.MaximumPacketSize = int(*p.MaximumPacketSize)
	}
	if p.ReceiveMaximum != nil {
		f.ReceiveMaximum = int(*p.ReceiveMaximum)
	}
	f.RetainAvailable = p.RetainAvailable
	f.WildcardSubscriptions = p.WildcardSubAvailable
	f.SharedSubscriptions = p.SharedSubAvailable
	f.SubscriptionIdentifiers = p.SubIDAvailable
	return f
}

// counted returns f with the counters of the Facts before it.
func (f Facts) counted(before Facts) Facts {
	f.Connects, f.Losses, f.TakenOver = before.Connects, before.Losses, before.TakenOver
	return f
}
