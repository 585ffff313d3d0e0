package stream

import (
	"strconv"
	"time"

	"github.com/taktworks/takt/internal/commit"
)

// Entry is one entry of a stream as a handler gets it.
type Entry struct {
	Stream string
	ID     string
	Fields map[string]string // nil if Group.Field was found and is all there is
	Data   string            // value of Group.Field

	// Effect is what Handle, or Group.Doom, leaves for Group.Finish. A handler that ends its goroutine may leave one, too; else that is a failure.
	Effect any

	// Deliveries is how often the handling of this entry was begun, this time included: 1 for a new one. More than that says
	// that a process died with it, or failed with it in this process (see Failures).
	Deliveries int64

	// Failures is how often Handle returned an error for it in this process that was not Transient.
	Failures int

	Given any // what came with Group.Offer; nil for an entry that was read

	before    int64    // of Deliveries: under another ID (Group.Before)
	session   *session // nil = came from no group
	group     string
	worker    string // heartbeat key
	token     string
	stream    int           // index in Group.Streams
	since     time.Time     // when it was taken in
	found     bool          // was found pending and never begun: an Offer of it may be on its way
	picked    bool          // has a slot, and Free does not know of it yet; guarded by held.mu
	ending    ending        // what became of it when Handle left it to others; guarded by held.mu
	delivered bool          // was delivered before: count the start
	pauses    backoff       // before it is tried again
	retried   bool          // waited once already: say so in the log only the first time
	doom      error         // why it is to become a dead letter, nil = it is not
	alone     chan struct{} // its token while it runs alone and until it is settled; nil = it does not
}

// starts is which start of the entry this one is.
func (e *Entry) starts() int64 {
	if e.delivered {
		return e.Deliveries + 1 // not counted yet
	}
	return e.Deliveries
}

// count adds to a new entry how often it was begun under another ID.
func (e *Entry) count(field string) {
	times, begun := e.Fields[field]
	if !begun {
		return
	}
	if n, err := strconv.ParseInt(times, 10, 64); err == nil && n > 0 {
		e.before, e.Deliveries = n, e.Deliveries+n
	}
}

// suspect says that the entry must run alone among its like.
func (e *Entry) suspect() bool { return e.starts() >= aloneFrom }

// secede takes the token of those that run alone; false if another has it.
func (e *Entry) secede(alone chan struct{}) bool {
	select {
	case alone <- struct{}{}:
		e.alone = alone
		return true
	default:
		return false
	}
}

// rejoin lets another run alone; false if this one did not.
func (e *Entry) rejoin() bool {
	if e.alone == nil {
		return false
	}
	<-e.alone
	e.alone = nil
	return true
}

// Settle adds to c what settles the entry: it is acknowledged and deleted if the worker that it was delivered to is still itself; if not, c conflicts on
// the worker's heartbeat (commit.ErrConflict) and writes nothing: the entry has another owner, and the handler's context ends soon.
// After c was applied the handler returns Settled. When the outcome of c is unknown, return the error: the entry is handled again.
func (e *Entry) Settle(c *commit.Commit) {
	c.Expect(e.worker, []byte(e.token))
	c.XAck(e.Stream, e.group, e.ID)
	c.XDel(e.Stream, e.ID)
}

// Heartbeat is the key whose value must be Token for a script to settle the entry; if it is not, the entry has another owner.
func (e *Entry) Heartbeat() string { return e.worker }

// Token is the one under which the entry was delivered; Group.Offer takes it for what the same script has read.
func (e *Entry) Token() string { return e.token }

// Group is the name of the consumer group in which the entry is pending.
func (e *Entry) Group() string { return e.group }

// Consumer is the name of the consumer for which the entry is pending, that of the worker; "" for an Entry that came from no group.
func (e *Entry) Consumer() string {
	if e.session == nil {
		return ""
	}
	return e.session.g.Worker.id
}

// Result says how a handled entry is settled.
type Result int

const (
	// Ack lets the loop acknowledge and delete the entry, soon and in a batch, by Group.Finish if there is one; a death before that lets it
	// be handled again.
	Ack Result = iota
	// Settled says that the handler's commit, made with Entry.Settle, has done so.
	Settled
	// Later says that somebody has the entry in hand and calls Entry.End when it is done. Until then it is held, by this worker and outside of the slots: it
	// is neither acknowledged nor read again, and counts neither as running nor as read ahead. Run waits for it as for a handler.
	Later
)

// Batch is what Group.Finish settles: handled entries of one stream, delivered under one token, at most 256.
type Batch struct {
	Stream    string
	Group     string
	Consumer  string
	Heartbeat string // key; its value must be Token, or the entries have another owner
	Token     string
	Entries   []*Entry // in the order of the stream
}

// ref names an entry among those of a group.
type ref struct {
	stream int
	id     string
}

func (e *Entry) ref() ref { return ref{e.stream, e.ID} }
