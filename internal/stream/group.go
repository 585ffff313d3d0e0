package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/redis"
)

// Outcome is what became of an entry, for counters.
type Outcome string

const (
	Handled   Outcome = "handled"    // settled by its handler
	Failed    Outcome = "failed"     // Handle returned an error that counts
	Retried   Outcome = "retried"    // Handle returned a Transient error
	Dead      Outcome = "dead"       // moved to the dead letters
	LostData  Outcome = "lost"       // trimmed or deleted while pending
	TakenOver Outcome = "taken_over" // came from a dead worker
)

// Defaults of Group.
const (
	DefaultReady         = 256
	DefaultMaxDeliveries = 5
	DefaultDrain         = 10 * time.Second
)

// Group is one consumer group over one or several streams: a loop that reads, hands entries to Handle and settles them. Fill it in and
// call Run; it is not changed after that. Two groups of one worker must not share a stream and a name.
type Group struct {
	Worker  *Worker
	Streams []string // keys, at least one; entries of earlier streams are handled first
	Name    string   // of the consumer group; it is made, from the oldest entry, where it is missing

	// Slots is how many entries are handled at once; 0 = 1, and then strictly in the order of the stream. An entry keeps its slot while it
	// waits to be tried again.
	Slots int
	// Ready is how many more entries are read ahead; 0 = DefaultReady, negative = none, for handlers that take long.
	Ready int
	// Ahead bounds what is read ahead by time, too: no more than Slots handlers get done in it, by what they took lately; nothing until that is known.
	// What was read for quick ones and waits for long is given back, for whoever has a slot. 0 = Ready entries, whatever they take.
	Ahead time.Duration

	// Free says how many more entries may be taken in now, for handlers that hand them over (Later): the reader has room for that many, less those
	// that wait for a slot or whose Handle has not returned: by then Free has to know of the entry. So nothing is read that it has no room for,
	// but that a wait for several streams may bring one of each. Slots bounds how many Handles run, not what is read. Without room nothing is sent to Redis until Wake is
	// called, or a Handle returns, and Free says more. It is called by one goroutine at a time, without a lock of the loop, and must not block.
	// Ready does not count then, and Ahead is refused. nil = room is what Slots and Ready say.
	Free func() int

	// Order says which stream comes first, a permutation of the indexes of Streams that is not changed after; nil = always that of Streams. It is called
	// for every read, or for every entry that is read, and for every entry that is to be handled, by one goroutine at a time.
	Order func() []int
	// Closed says that nothing of a stream is to be read or begun for now; nil = never. It is asked before each start and must not block.
	Closed func(stream int) bool
	// Changed tells that Closed or Rate may answer otherwise than before, so that it holds at once; without that, within a second. Make it
	// with a buffer of one, for this group alone. nil = nobody tells.
	Changed <-chan struct{}
	// Rate bounds how many entries of a stream all workers together begin, per second, and the key where that is counted; nil or 0 = unbounded.
	Rate func(stream int) (perSecond float64, bucket string)

	// Field names the one field of an entry that matters: its value is Entry.Data, and no map is made for it. "" = Entry.Fields has them all.
	Field string

	// Before names the field of an entry that says how often its handling was begun under another ID, for who puts entries back as new ones. That counts in Entry.Deliveries
	// and for MaxDeliveries. An entry without it is new. "" = all are.
	Before string

	// Handle does the work of one entry. It is called from Slots goroutines at once. An error lets the entry be tried again after a pause;
	// a panic is an error. The context ends (cause ErrLost or ErrStopped) when the entry is no longer this process' business.
	Handle func(context.Context, *Entry) (Result, error)

	// Dead is called before an entry becomes a dead letter, with the last error, to tell those who wait for it; nil = nobody. It does not settle
	// the entry, and is called again if the process dies in between. Its own error is tried again if Transient, and recorded with the dead letter otherwise.
	Dead func(context.Context, *Entry, error) error
	// Lost is told of pending entries whose data somebody deleted or trimmed; nil = only the log is. They are acknowledged away.
	Lost func(ctx context.Context, stream string, ids []string)

	// Finish settles handled entries in the place of ack.lua: in one script that looks at Batch.Token first, acknowledges and deletes the entries, and does what
	// Entry.Effect says. ErrLost: the token is gone and nothing was done. Any other error: it is called again with the same batch, so the script must
	// bear repetition. Up to four batches are on their way at once. nil = ack.lua.
	Finish func(context.Context, Batch) error
	// Doom sets the Effect of an entry that is to be given up, with the last error; it goes to Finish, not to dead.lua. Needed with Finish.
	Doom func(*Entry, error)

	// MaxDeliveries is after how many failures (of Handle, or of the processes that ran it) an entry is dead; 0 = DefaultMaxDeliveries, negative = never.
	MaxDeliveries int
	// Transient says which errors of Handle are nobody's fault (the broker is away) and do not count; nil = none. Redis being away never counts.
	Transient func(error) bool
	// Expected says which of the Transient errors are no trouble (another decision was first): no warning says that the entry is tried again; nil = none.
	Expected func(error) bool
	// Hopeless says which errors of Handle no repetition can mend: the entry is dead at once; nil = none.
	Hopeless func(error) bool

	// Drain is how long handlers may go on after Run's context has ended; 0 = DefaultDrain.
	Drain time.Duration

	Observe func(o Outcome, n int) // counts; nil = nobody. It must not block.
	// Trouble is given each error of the calls to Redis that the loop makes for itself and repeats; nil = only the log is. It must not block.
	Trouble func(error)
	Log     *slog.Logger // nil = silent
}

// Check says what is wrong with g, as Run would.
func (g *Group) Check() error {
	switch {
	case g.Worker == nil:
		return errors.New("stream: Group.Worker is missing")
	case len(g.Streams) == 0 || g.Name == "":
		return errors.New("stream: Group.Streams and Group.Name must be given")
	case g.Handle == nil:
		return fmt.Errorf("stream: group %s: Handle is missing", g.Name)
	case g.Slots < 0:
		return fmt.Errorf("stream: group %s: Slots %d is negative", g.Name, g.Slots)
	case g.Free != nil && g.Ahead > 0:
		return fmt.Errorf("stream: group %s: Ahead %v does not go with Free, which says what is read", g.Name, g.Ahead)
	case (g.Finish == nil) != (g.Doom == nil):
		return fmt.Errorf("stream: group %s: Finish and Doom are needed together", g.Name)
	}
	return nil
}

func (g *Group) slots() int             { return cmp.Or(g.Slots, 1) }
func (g *Group) ready() int             { return max(cmp.Or(g.Ready, DefaultReady), 0) }
func (g *Group) maxDeliveries() int     { return cmp.Or(g.MaxDeliveries, DefaultMaxDeliveries) }
func (g *Group) transient(e error) bool { return redis.Away(e) || g.Transient != nil && g.Transient(e) }
func (g *Group) trouble(err error) {
	if g.Trouble != nil {
		g.Trouble(err)
	}
}
func (g *Group) observe(o Outcome, n int) {
	if g.Observe != nil && n > 0 {
		g.Observe(o, n)
	}
}

// Run handles entries until ctx ends. Then it stops reading, gives running handlers, and those who have an entry for Later, Drain to finish, and returns nil when what it held is settled
// or handed back; others get that when the worker's Run has ended, but what was never begun at once if the group reads by Ahead. No error of Redis or of a
// handler ends it: it returns an error only if g is filled in wrongly.
func (g *Group) Run(ctx context.Context) error {
	if err := g.Check(); err != nil {
		return err
	}
	log := g.Log
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	log = log.With("group", g.Name, "worker", g.Worker.id)

	work, stop := context.WithCancelCause(context.WithoutCancel(ctx)) // of the handlers
	defer stop(ErrStopped)
	drain := g.Drain
	if drain <= 0 {
		drain = DefaultDrain
	}
	// From the end of ctx on, not from that of the reader: where Redis hangs, that one takes longer than handlers have.
	defer context.AfterFunc(ctx, func() {
		over := time.AfterFunc(drain, func() { stop(ErrStopped) })
		context.AfterFunc(work, func() { over.Stop() })
	})()
	l := &loop{g: g, log: log, work: work, alone: make(chan struct{}, 1), poked: make(chan struct{}, 1), again: make(chan struct{}, 1)}
	g.Worker.loops.Store(g, l)
	defer g.Worker.loops.CompareAndDelete(g, l)
	var sessions sync.WaitGroup
	sessions.Go(func() { l.listen(ctx) })
	for {
		e, err := g.Worker.await(ctx)
		if err != nil { // ctx ended
			break
		}
		s := newSession(l, e)
		sessions.Go(func() { s.serve(ctx) })
		s.read(ctx)
		if n := s.held.close(); n > 0 {
			log.Info("stream: entries handed back unbegun", "entries", n)
		}
		if ctx.Err() != nil && g.Ahead > 0 {
			s.handBack(ctx)
		}
	}
	l.hangUp()
	sessions.Wait()
	l.leave(ctx)
	return nil
}

// listen passes on what Changed tells, and that something is to be read again, until ctx ends.
func (l *loop) listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.g.Changed:
			l.changes.Add(1)
			l.wake()
			l.interrupt(ctx)
		case <-l.again:
			l.interrupt(ctx)
		}
	}
}

// leave deletes this consumer from the groups where nothing is pending for it, so that names of the past do not pile up.
func (l *loop) leave(ctx context.Context) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestBlock)
	defer cancel()
	for _, key := range l.g.Streams {
		if err := leaveScript.Run(call, l.g.Worker.rdb, []string{key}, l.g.Name, l.g.Worker.id).Error(); err != nil {
			l.log.Debug("stream: consumer not deleted, others will", "error", err)
		}
	}
}
