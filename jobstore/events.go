package jobstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/isa95"
)

//go:embed sent.lua
var sentLua string

var sentScript = script.New("jobstore/sent", sentLua)

// RoleEvents is the role of the one process that sends the status events.
const RoleEvents = "events"

// Limits of what one sender of events holds in memory, and of its calls.
const (
	eventWindow = 1024    // entries
	eventBytes  = 2 << 20 // of all entries together, about
	eventRead   = 256     // entries of one read
	eventFirst  = 8       // the same of the first read, which does not know how large they are
	eventDelete = 256     // entries of one deletion
	eventLinger = 5 * time.Millisecond
	eventBlock  = time.Second      // a read waits so long for entries
	eventGrace  = 10 * time.Second // a stop waits so long for the events under way
)

// errBrokerAway ends a term of the sender that has had no broker for as long as its lease: another process may have one.
var errBrokerAway = errors.New("jobstore: the broker is away")

// RunEvents hands the status events of the outbox to send, or stands by while another process does, until ctx ends. One process of the
// installation sends, under a lease that lasts Options.WorkerTTL. Events of one job order are sent one after the other, in the order of
// their commits; of different job orders up to slots at once.
//
// An event leaves the outbox after send has returned nil, and not before: if the process dies in between, the next one sends it once
// more, under the same id. ErrUnusable makes it a dead letter; any other error makes it be tried again, and only its job order waits.
// ready waits for the broker; while it has none for longer than the lease lasts, another process gets the role. nil = it always has.
//
// RunEvents returns nil once the events under way are sent, or 10 s after ctx has ended. No state of Redis ends it.
func (s *Store) RunEvents(ctx context.Context, slots int, ready func(context.Context) error, send func(context.Context, isa95.Scope, cloudevent.Event) error) error {
	if ready == nil {
		ready = func(context.Context) error { return nil }
	}
	sender := &eventSender{store: s, slots: max(slots, 1), ready: ready, send: send, sent: make(map[string]string)}
	for {
		if err := ready(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("jobstore: status events: %w", err)
		}
		err := s.Lease(ctx, RoleEvents, s.opt.WorkerTTL, func(ctx context.Context, l *Lease) error {
			return newEventTerm(sender, l).run(ctx)
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, errBrokerAway):
			return err
		}
		s.log.Warn("jobstore: the broker is away; another instance may send status events meanwhile")
	}
}

// eventSender is what outlives a term.
type eventSender struct {
	store *Store
	slots int
	ready func(context.Context) error
	send  func(context.Context, isa95.Scope, cloudevent.Event) error

	// What the broker has, and what may be in the outbox still, for the deletion failed with the lease: entry -> id of the event. It is
	// not sent again. Guarded by eventTerm.mu of the one term there is.
	sent map[string]string
}

// outboxEvent is one entry of the outbox in memory.
type outboxEvent struct {
	id     string
	fields map[string]string
	bytes  int
	tries  int
}

// order is what keeps events in order: the job order of a status event, the scope of an event of a program.
func (e *outboxEvent) order() string {
	if id := e.fields["job_order_id"]; id != "" {
		return id
	}
	return "scope/" + e.fields["scope"]
}

func (e *outboxEvent) decode() (event cloudevent.Event, err error) {
	if err := event.UnmarshalJSON([]byte(e.fields["event"])); err != nil {
		return event, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return event, nil
}

// eventTerm is one time of holding the lease.
//
//	read ──► one lane for each job order ──► at most slots sends ──► delete, many at once
type eventTerm struct {
	*eventSender
	lease *Lease
	stop  context.CancelFunc // of reading and of beginning to send
	lanes sync.WaitGroup
	slot  chan struct{}     // one for each send under way
	freed chan struct{}     // there is room for more entries
	done  chan *outboxEvent // to be deleted

	mu      sync.Mutex
	err     error                     // why the term ends by itself
	waiting map[string][]*outboxEvent // by job order, without the one under way; there as long as the lane runs
	held    int                       // entries read and not deleted
	bytes   int
	read    int // entries ever read
	size    int // bytes of them
}

func newEventTerm(s *eventSender, l *Lease) *eventTerm {
	return &eventTerm{
		eventSender: s, lease: l, slot: make(chan struct{}, s.slots), freed: make(chan struct{}, 1),
		done: make(chan *outboxEvent, 2*eventWindow), waiting: make(map[string][]*outboxEvent),
	}
}

// run sends until ctx ends, the lease is lost, or the broker is away for long.
func (t *eventTerm) run(ctx context.Context) error {
	ctx, t.stop = context.WithCancel(ctx)
	defer t.stop()
	// work outlives ctx, so that events under way are finished, but not the lease.
	work, cancel := context.WithCancel(t.lease.Context())
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		_ = sleep(work, eventGrace)
		cancel()
	})()
	var deleter sync.WaitGroup
	deleter.Go(func() { t.deleteSent(work) })
	t.readOutbox(ctx, work)
	t.lanes.Wait()
	close(t.done)
	deleter.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// fail ends the term.
func (t *eventTerm) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
	t.stop()
}

// readOutbox reads entries and puts them into their lanes until ctx ends. Whenever nothing is held it begins with the first entry there
// is: so nothing is passed over, whatever the store lost and whatever ids it gives.
func (t *eventTerm) readOutbox(ctx, work context.Context) {
	s, wait := t.store, retryPause{}
	from := ""
	for ctx.Err() == nil {
		count, head := t.room()
		if count == 0 {
			select {
			case <-t.freed:
			case <-ctx.Done():
			}
			continue
		}
		if head {
			from = "0-0"
		}
		events, err := s.outboxEvents(ctx, from, count)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.Warn("jobstore: status events wait", "err", s.alarm.Note(err))
			_ = sleep(ctx, wait.next())
			continue
		}
		wait = retryPause{}
		if n := len(events); n > 0 {
			from = events[n-1].id
		}
		t.take(ctx, work, events)
		if head && len(events) == 0 {
			t.mu.Lock()
			clear(t.sent)
			t.mu.Unlock()
		}
	}
}

// room is how many entries may be read now, and whether nothing is held.
func (t *eventTerm) room() (count int, head bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	count = min(eventRead, eventWindow-t.held)
	if t.read == 0 {
		count = eventFirst
	} else {
		each := max(t.size/max(t.read, 1), 1)
		count = min(count, max(1, (eventBytes-t.bytes)/each))
	}
	if t.bytes >= eventBytes {
		count = 0
	}
	return max(count, 0), t.held == 0
}

// outboxEvents waits for entries after one, at most count.
func (s *Store) outboxEvents(ctx context.Context, from string, count int) ([]*outboxEvent, error) {
	// No deadline, but an end: see PublishedChanges.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(eventBlock+answerTimeout, func() { cancel(context.DeadlineExceeded) }).Stop()
	read, err := s.rdb.Do(ctx, s.rdb.B().Xread().Count(int64(count)).Block(eventBlock.Milliseconds()).Streams().Key(s.keys.EventReceiver()).Id(from).Build()).AsXRead()
	if err != nil {
		if rueidis.IsRedisNil(err) {
			return nil, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("jobstore: read status events: %w", err)
	}
	entries := read[s.keys.EventReceiver()]
	events := make([]*outboxEvent, len(entries))
	for i, e := range entries {
		events[i] = &outboxEvent{id: e.ID, fields: e.FieldValues, bytes: len(e.FieldValues["event"])}
	}
	return events, nil
}

// take puts events into their lanes.
func (t *eventTerm) take(ctx, work context.Context, events []*outboxEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range events {
		t.held++
		t.bytes += e.bytes
		t.read++
		t.size += e.bytes
		if id, ok := t.sent[e.id]; ok {
			if event, err := e.decode(); err == nil && event.ID == id {
				t.done <- e
				continue
			}
		}
		order := e.order()
		lane, runs := t.waiting[order]
		t.waiting[order] = append(lane, e)
		if !runs {
			t.lanes.Go(func() { t.lane(ctx, work, order) })
		}
	}
}

// lane sends the events of one job order, one after the other, until none is left or ctx ends.
func (t *eventTerm) lane(ctx, work context.Context, order string) {
	for {
		t.mu.Lock()
		if len(t.waiting[order]) == 0 || ctx.Err() != nil {
			delete(t.waiting, order)
			t.mu.Unlock()
			return
		}
		e := t.waiting[order][0]
		t.waiting[order] = t.waiting[order][1:]
		t.mu.Unlock()
		for wait := (retryPause{}); !t.handle(ctx, work, e); {
			if sleep(ctx, wait.next()) != nil {
				break
			}
		}
	}
}

// handle tries to send one event. False: it is to be tried again.
func (t *eventTerm) handle(ctx, work context.Context, e *outboxEvent) bool {
	select { // before it is decoded, which takes its bytes again
	case t.slot <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	event, err := e.decode()
	if err == nil {
		if ctx.Err() == nil && t.lease.Valid() { // a process that slept past its lease sends nothing
			err = t.send(work, isa95.Scope(e.fields["scope"]), event)
		} else {
			err = ErrLeaseLost
		}
	}
	<-t.slot
	switch {
	case err == nil:
		t.mu.Lock()
		t.sent[e.id] = event.ID
		t.mu.Unlock()
		t.done <- e
		return true
	case errors.Is(err, ErrLeaseLost):
		if ctx.Err() == nil {
			t.fail(err)
		}
		return false
	case errors.Is(err, ErrUnusable):
		return t.bury(work, e, err)
	case ctx.Err() != nil:
		return false
	}
	t.store.observeEvents(stream.Retried, 1)
	if e.tries++; e.tries == 1 {
		t.store.log.Warn("jobstore: a status event waits to be sent again", "job", e.order(), "entry", e.id, "err", err)
	}
	wait, cancel := context.WithTimeout(ctx, t.store.opt.WorkerTTL)
	defer cancel()
	if t.ready(wait) != nil && ctx.Err() == nil {
		t.fail(errBrokerAway)
	}
	return false
}

// bury makes an event a dead letter. False: it is to be tried again.
func (t *eventTerm) bury(work context.Context, e *outboxEvent, why error) bool {
	s, text := t.store, strings.ToValidUTF8(why.Error(), "")
	letters := s.keys.DeadLetter(s.keys.EventReceiver())
	fields := []string{
		"dead-reason", "failed", "dead-error", text[:min(len(text), 2048)], "dead-stream", s.keys.EventReceiver(), "dead-id", e.id, "dead-group", groupEvents,
		"dead-deliveries", "1", "dead-failures", strconv.Itoa(e.tries + 1), "dead-at", time.Now().UTC().Format(time.RFC3339),
	}
	for name, value := range e.fields {
		fields = append(fields, name, value)
	}
	c := commit.New()
	c.Expect(t.lease.Key, []byte(t.lease.Token))
	c.XAdd(letters, 0, fields...)
	c.XDel(s.keys.EventReceiver(), e.id)
	_, err := c.Run(work, s.rdb)
	switch {
	case errors.Is(err, ErrConflict):
		t.fail(ErrLeaseLost)
		return false
	case err != nil:
		s.log.Warn("jobstore: a status event cannot be moved to the dead letters", "entry", e.id, "err", s.alarm.Note(err))
		return false
	}
	s.log.Error("jobstore: status event moved to the dead letters", "entry", e.id, "dead_letters", letters, "err", why)
	s.observeEvents(stream.Dead, 1)
	t.deleted(e)
	return true
}

// deleteSent deletes what the broker has, until nothing more comes.
func (t *eventTerm) deleteSent(work context.Context) {
	for first := range t.done {
		batch, more := []*outboxEvent{first}, time.NewTimer(eventLinger)
	collect:
		for len(batch) < eventDelete {
			select {
			case e, ok := <-t.done:
				if !ok {
					break collect
				}
				batch = append(batch, e)
			case <-more.C:
				break collect
			}
		}
		more.Stop()
		for wait := (retryPause{}); work.Err() == nil && !t.deleteBatch(work, batch); {
			_ = sleep(work, wait.next())
		}
	}
}

func (t *eventTerm) deleteBatch(work context.Context, batch []*outboxEvent) bool {
	args := []string{t.lease.Token}
	for _, e := range batch {
		args = append(args, e.id)
	}
	kept, err := sentScript.Run(work, t.store.rdb, []string{t.lease.Key, t.store.keys.EventReceiver()}, args...).AsBool()
	switch {
	case err != nil:
		if work.Err() == nil {
			t.store.log.Warn("jobstore: sent status events cannot be deleted", "events", len(batch), "err", t.store.alarm.Note(err))
		}
		return false
	case !kept:
		t.fail(ErrLeaseLost)
		return true // the next holder deletes them
	}
	t.store.observeEvents(stream.Handled, len(batch))
	t.deleted(batch...)
	return true
}

// deleted makes room.
func (t *eventTerm) deleted(events ...*outboxEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range events {
		delete(t.sent, e.id)
		t.held--
		t.bytes -= e.bytes
	}
	select {
	case t.freed <- struct{}{}:
	default:
	}
}

func (s *Store) observeEvents(o stream.Outcome, n int) {
	if s.opt.Observe != nil {
		s.opt.Observe(groupEvents, string(o), n)
	}
}

// retryPause gives growing pauses with jitter, 50 ms to 5 s. The zero value is ready.
type retryPause struct{ n int }

func (p *retryPause) next() time.Duration {
	d := min(50*time.Millisecond<<p.n, 5*time.Second)
	if d < 5*time.Second {
		p.n++
	}
	return d/2 + rand.N(d/2+1)
}
