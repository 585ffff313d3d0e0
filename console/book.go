package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/rfc3339"
	"github.com/taktworks/takt/internal/telemetry"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// Order is one job order in a list.
type Order struct {
	Scope      isa95.Scope `json:"scope"`
	ID         string      `json:"id"`
	State      string      `json:"state"`
	Priority   int         `json:"priority"`
	WorkMaster string      `json:"work_master,omitempty"`
	StartTime  string      `json:"start_time,omitempty"`
	Since      time.Time   `json:"since,omitzero"` // of the state

	Reason   jobstore.WhyKind `json:"reason,omitempty"` // the first of takt job why
	WaitsFor string           `json:"waits_for,omitempty"`

	state isa95.State
}

// Health is whether a server answers. Up is false, too, while that is not known yet.
type Health struct {
	Name    string    `json:"name"`
	Address string    `json:"address,omitempty"`
	Up      bool      `json:"up"`
	Known   bool      `json:"known"`
	Since   time.Time `json:"since,omitzero"`
	Problem string    `json:"problem,omitempty"`
}

// health is that of a server, as it was found last.
type health struct {
	mu sync.Mutex
	is Health // without name and address
}

// set notes the outcome of a look, and tells whether that is news.
func (h *health) set(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	news := !h.is.Known || h.is.Up != (err == nil)
	if news {
		h.is.Since = time.Now()
	}
	h.is.Known, h.is.Up, h.is.Problem = true, err == nil, ""
	if err != nil {
		h.is.Problem = telemetry.Hide(err.Error())
	}
	return news
}

func (h *health) show(name, address string) Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.is
	now.Name, now.Address = name, address
	return now
}

// book has all job orders that are not in EndState in memory, so that a page of a list costs the same however many there are. It is read anew each minute, and whenever the
// stream of changes was out of reach.
type book struct {
	redis health

	mu      sync.Mutex
	orders  map[string]Order
	sorted  []Order  // the same in the order of List, for pages that do not change it; nil: to be made
	changes []Change // the newest first, at most lastChanges
	read    time.Time
	unread  string // documents that cannot be read
	boot    string
	version int64         // counts changes of what is shown of any order
	status  int64         // counts changes of what is shown of the servers
	changed chan struct{} // closed and renewed with each of both
}

// Change is one change of a job order.
type Change struct {
	Time  time.Time `json:"time,omitzero"`
	Type  string    `json:"change_type"`
	Scope string    `json:"scope"`
	ID    string    `json:"job_order_id"`
}

const (
	lastChanges = 15
	readAnew    = time.Minute
	watchWait   = time.Second
)

func newBook() *book {
	return &book{orders: make(map[string]Order), boot: fmt.Sprintf("%x", time.Now().UnixNano()), changed: make(chan struct{})}
}

// follow keeps the book until ctx ends.
func (b *book) follow(ctx context.Context, store *jobstore.Store) {
	for ctx.Err() == nil {
		last, err := b.load(ctx, store)
		for began := time.Now(); err == nil && time.Since(began) < readAnew; {
			var changes []jobstore.ChangeEntry
			within, cancel := context.WithTimeout(ctx, 2*watchWait)
			changes, err = store.Watch(within, "", last, watchWait)
			if err == nil && len(changes) > 0 {
				last = changes[len(changes)-1].ID
				err = b.update(within, store, changes)
			}
			cancel()
			if err == nil && b.redis.set(nil) {
				b.announce()
			}
		}
		if err != nil && ctx.Err() == nil {
			b.failed(err)
			lifecycle.Sleep(ctx, time.Second/2)
		}
	}
}

// failed notes that Redis could not be asked.
func (b *book) failed(err error) {
	if b.redis.set(err) {
		b.announce()
	}
}

// load reads all orders, and returns the change from which on to watch.
func (b *book) load(ctx context.Context, store *jobstore.Store) (last string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	newest, err := store.LastChanges(ctx, "", lastChanges)
	if err != nil {
		return "", err
	}
	scopes, err := store.Scopes(ctx)
	if err != nil {
		return "", err
	}
	var all []jobstore.StoredOrder
	if len(scopes) > 0 {
		all, err = store.List(ctx, scopes...)
	}
	unread, err := unreadable(err)
	if err != nil {
		return "", err
	}
	orders := make(map[string]Order, len(all))
	for i := range all {
		orders[all[i].JobOrder.JobOrderID] = orderOf(&all[i])
	}
	last = "0"
	changes := make([]Change, len(newest))
	for i, e := range newest {
		changes[i] = changeOf(e)
	}
	if len(newest) > 0 {
		last = newest[0].ID
	}
	up := b.redis.set(nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	news := up || b.read.IsZero() || b.unread != unread || !maps.Equal(b.orders, orders) || !slices.Equal(b.changes, changes)
	b.orders, b.sorted, b.changes, b.unread, b.read = orders, nil, changes, unread, time.Now()
	if news {
		b.version++
		b.status++
		b.wake()
	}
	return last, nil
}

// update reads the orders that changed.
func (b *book) update(ctx context.Context, store *jobstore.Store, changes []jobstore.ChangeEntry) error {
	gone := make(map[string]bool)
	for _, e := range changes {
		gone[string(e.JobOrderID)] = true
	}
	all, err := store.Orders(ctx, slices.Collect(maps.Keys(gone))...)
	unread, err := unreadable(err)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sorted = nil
	for i := range all {
		if id := all[i].JobOrder.JobOrderID; !all[i].State.IsEnd() {
			b.orders[id] = orderOf(&all[i])
			delete(gone, id)
		}
	}
	for id := range gone {
		delete(b.orders, id)
	}
	for _, e := range changes {
		b.changes = slices.Insert(b.changes, 0, changeOf(e))
	}
	b.changes = b.changes[:min(len(b.changes), lastChanges)]
	if unread != "" {
		b.unread = unread
	}
	b.read = time.Now()
	b.version++
	b.wake()
	return nil
}

// unreadable takes documents that cannot be read out of an error, for they do not hide the others.
func unreadable(err error) (text string, _ error) {
	if _, ok := errors.AsType[*jobstore.DocumentError](err); ok {
		return err.Error() + "; takt check lists such documents", nil
	}
	return "", err
}

func orderOf(o *jobstore.StoredOrder) Order {
	since, _ := rfc3339.Parse(o.Event.RecordedTime) // zero: another program wrote it
	return Order{
		Scope: o.Scope, ID: o.JobOrder.JobOrderID, State: o.State.String(), Priority: o.JobOrder.PriorityOr0(), WorkMaster: string(o.WorkMaster()),
		StartTime: o.JobOrder.StartTime, Since: since, state: o.State,
	}
}

func changeOf(e jobstore.ChangeEntry) Change {
	at, _ := rfc3339.Parse(e.Time) // zero: another program wrote it
	return Change{Time: at.UTC(), Type: e.Type, Scope: string(e.Scope), ID: string(e.JobOrderID)}
}

// announce says that what is shown of the servers changed.
func (b *book) announce() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status++
	b.wake()
}

// wake needs the lock.
func (b *book) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// now is what tells two contents apart: of the servers, and with the orders; changed is closed when either differs.
func (b *book) now() (status, all string, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	status = fmt.Sprintf("%s.%d", b.boot, b.status)
	return status, fmt.Sprintf("%s.%d", status, b.version), b.changed
}

// glance is the book at an instant.
type glance struct {
	orders  []Order // in the order of List; it must not be changed
	changes []Change
	read    time.Time // zero: never yet
	unread  string
}

func (b *book) glance() glance {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sorted == nil {
		b.sorted = slices.SortedFunc(maps.Values(b.orders), byPriority)
	}
	return glance{b.sorted, slices.Clone(b.changes), b.read, b.unread}
}

func byPriority(a, b Order) int {
	if a.Priority != b.Priority {
		return b.Priority - a.Priority
	}
	return strings.Compare(a.ID, b.ID)
}
