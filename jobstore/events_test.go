package jobstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// arrivals are the status events of job orders in the order of their arrival, repeats left out.
type arrivals struct {
	mu     sync.Mutex
	seen   map[string]bool // ids of events
	orders map[isa95.JobOrderID][]cloudevent.Event
	all    int
	times  int // repeats included
}

func newArrivals() *arrivals {
	return &arrivals{seen: make(map[string]bool), orders: make(map[isa95.JobOrderID][]cloudevent.Event)}
}

func (a *arrivals) take(e cloudevent.Event) {
	id := orderOf(e)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times++
	if a.seen[e.ID] {
		return
	}
	a.seen[e.ID] = true
	a.orders[id] = append(a.orders[id], e)
	a.all++
}

func (a *arrivals) number() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all
}

// check wants each order to have come with numbers from 1 to perOrder, and times that do not fall.
func (a *arrivals) check(t testing.TB, orders, perOrder int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.orders) != orders {
		t.Errorf("events of %d orders came, want %d", len(a.orders), orders)
	}
	for id, events := range a.orders {
		if len(events) != perOrder {
			t.Errorf("%s: %d events, want %d", id, len(events), perOrder)
		}
		for i, e := range events {
			if want := fmt.Sprintf("%010d", i+1); e.Extensions["sequence"] != want {
				t.Errorf("%s: event %d has sequence %s, all: %v", id, i+1, e.Extensions["sequence"], sequences(events))
				break
			}
			if i > 0 && e.RecordedTime < events[i-1].RecordedTime {
				t.Errorf("%s: recordedtime falls from %s to %s", id, events[i-1].RecordedTime, e.RecordedTime)
			}
		}
	}
}

func orderOf(e cloudevent.Event) isa95.JobOrderID {
	var told isa95.StatusEvent
	if err := isa95.Unmarshal(e.Data, &told); err != nil || told.JobOrder == nil {
		panic(fmt.Sprintf("no status event: %s", e.Data))
	}
	return isa95.JobOrderID(told.JobOrder.JobOrderID)
}

var life = []isa95.State{released, running, completed, ended} // of an order

// lives takes the orders through all states, the changes of each alternately by the shops.
func lives(orders int, shops ...*shop) {
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < orders; i += 8 {
				for at, state := range life {
					shops[(i+at)%len(shops)].move("m42", isa95.JobOrderID(fmt.Sprintf("JO-%d", i)), 0, state)
				}
			}
		})
	}
	all.Wait()
}

// sending runs the sender of events of s until stop.
func (s *shop) sending(slots int, ready func(context.Context) error, send func(context.Context, cloudevent.Event) error) (stop func()) {
	return s.live(func(ctx context.Context) error {
		return s.RunEvents(ctx, slots, ready, func(ctx context.Context, _ isa95.Scope, e cloudevent.Event) error { return send(ctx, e) })
	})
}

// The events of an order leave one after the other, in the order of its changes, whichever of two instances made them and whatever the
// broker does; those of different orders leave side by side.
func TestEventsOfAnOrderLeaveInOrder(t *testing.T) {
	t.Parallel()
	const orders = 300
	srv := testenv.Redis(t)
	one := openShop(t, srv, jobstore.Options{WorkerTTL: time.Minute})
	other := openShop(t, srv, jobstore.Options{Prefix: one.keys.Prefix(), WorkerTTL: time.Minute})
	const together = 8 // lives changes so many orders at once
	var (
		came   = newArrivals()
		mu     sync.Mutex
		on     = make(map[isa95.JobOrderID]bool) // an event of it is under way
		most   int
		sender = make(map[*shop]bool)
		many   = make(chan struct{}) // so many events were under way at once
		met    = sync.OnceFunc(func() { close(many) })
	)
	for _, s := range []*shop{one, other} {
		s.sending(16, nil, func(ctx context.Context, e cloudevent.Event) error {
			id := orderOf(e)
			mu.Lock()
			if on[id] {
				t.Errorf("two events of %s are under way", id)
			}
			on[id], sender[s] = true, true
			if most = max(most, len(on)); most >= together {
				met()
			}
			mu.Unlock()
			defer func() {
				mu.Lock()
				delete(on, id)
				mu.Unlock()
			}()
			select { // those of different orders leave side by side
			case <-many:
			case <-ctx.Done():
			}
			time.Sleep(rand.N(time.Millisecond)) // the way to the broker
			if rand.N(50) == 0 {
				return errors.New("the acknowledgement is lost")
			}
			came.take(e)
			return nil
		})
	}
	lives(orders, one, other)
	one.wantEmpty(one.keys.EventReceiver())
	came.check(t, orders, len(life))
	mu.Lock()
	defer mu.Unlock()
	if most > 16 {
		t.Errorf("%d events were under way together, want 16 at most", most)
	}
	if len(sender) != 1 {
		t.Errorf("%d instances sent", len(sender))
	}
	if came.times != came.all {
		t.Errorf("%d events were sent %d times", came.all, came.times)
	}
}

// While Redis is away nothing is sent twice by the instance that sent it: it remembers what it could not delete.
func TestEventsAreNotRepeatedAfterAnOutage(t *testing.T) {
	long.Test(t, "waits for a lease to end")
	srv := testenv.Redis(t)
	proxy := testenv.CountingProxy(t, srv.URL)
	s := openShop(t, srv, jobstore.Options{URL: proxy.URL, WorkerTTL: 300 * time.Millisecond})
	other := openShop(t, srv, jobstore.Options{Prefix: s.keys.Prefix()})
	lives(10, other)
	came := newArrivals()
	var cut sync.Once
	s.sending(4, nil, func(_ context.Context, e cloudevent.Event) error {
		came.take(e)
		cut.Do(func() { proxy.Stall(true) })
		return nil
	})
	eventually(t, "the end of the lease", func() bool {
		return came.number() > 0 && other.number("EXISTS", other.keys.Lease(jobstore.RoleEvents)) == 0
	})
	if n := other.number("XLEN", other.keys.EventReceiver()); n != 40 {
		t.Errorf("%d events in the outbox, want 40: the test cuts Redis off too late", n)
	}
	proxy.Stall(false)
	other.wantEmpty(other.keys.EventReceiver())
	came.check(t, 10, len(life))
	if came.times != 40 {
		t.Errorf("40 events were sent %d times", came.times)
	}
}

// An instance without a broker leaves the role to one that has it.
func TestEventsWhenTheBrokerIsAway(t *testing.T) {
	long.Test(t, "waits until an instance without a broker gives its role back")
	srv := testenv.Redis(t)
	s := openShop(t, srv, jobstore.Options{WorkerTTL: time.Second})
	other := openShop(t, srv, jobstore.Options{Prefix: s.keys.Prefix(), WorkerTTL: time.Second})
	var away sync.Once
	down := make(chan struct{})
	came := newArrivals()
	s.sending(4, func(ctx context.Context) error {
		select {
		case <-down:
			<-ctx.Done()
			return ctx.Err()
		default:
			return nil
		}
	}, func(context.Context, cloudevent.Event) error {
		away.Do(func() { close(down) })
		return errors.New("no connection")
	})
	lives(5, s)
	testenv.Take(t, "a try without broker", down)
	other.sending(4, nil, func(_ context.Context, e cloudevent.Event) error { came.take(e); return nil })
	s.wantEmpty(s.keys.EventReceiver())
	came.check(t, 5, len(life))
}

// An event that the broker refuses holds up those of its order alone, many of them.
func TestRefusedEventHoldsUpItsOrderAlone(t *testing.T) {
	s := newShop(t)
	lives(100, s)
	came := newArrivals()
	var mu sync.Mutex
	refuse := true
	s.sending(4, nil, func(_ context.Context, e cloudevent.Event) error {
		id := orderOf(e)
		mu.Lock()
		defer mu.Unlock()
		if refuse && strings.HasSuffix(string(id), "7") {
			return errors.New("not authorized")
		}
		came.take(e)
		return nil
	})
	eventually(t, "all events of the others", func() bool { return came.number() == 90*len(life) })
	mu.Lock()
	refuse = false
	mu.Unlock()
	s.wantEmpty(s.keys.EventReceiver())
	came.check(t, 100, len(life))
}

// What can never be sent becomes a dead letter and leaves the lane to what follows.
func TestUnusableEventIsADeadLetter(t *testing.T) {
	s := newShop(t)
	outbox := s.keys.EventReceiver()
	s.do("XADD", outbox, "*", "scope", "m42", "job_order_id", "JO-0", "event", "{")
	lives(1, s)
	came := newArrivals()
	s.sending(4, nil, func(_ context.Context, e cloudevent.Event) error {
		if e.Extensions["sequence"] == "0000000002" {
			return fmt.Errorf("%w: too large for the broker", jobstore.ErrUnusable)
		}
		came.take(e)
		return nil
	})
	s.wantEmpty(outbox)
	if got := fmt.Sprint(sequences(came.orders["JO-0"])); got != "[0000000001 0000000003 0000000004]" {
		t.Errorf("sent %s", got)
	}
	letters, err := s.do("XRANGE", s.keys.DeadLetter(outbox), "-", "+").AsXRange()
	if err != nil || len(letters) != 2 {
		t.Fatalf("%d dead letters, %v", len(letters), err)
	}
	for i, want := range []string{"unexpected end of JSON", "too large for the broker"} {
		f := letters[i].FieldValues
		if !strings.Contains(f["dead-error"], want) || f["job_order_id"] != "JO-0" || f["dead-stream"] != outbox || f["scope"] != "m42" {
			t.Errorf("dead letter %v", f)
		}
	}
}
