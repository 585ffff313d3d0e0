package mes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
)

// FollowOptions say what to do with what the stations did. The functions are called one at a time, over all scopes.
type FollowOptions struct {
	Memory Memory // default NewMemory()

	// OnResult takes a result over: an order that ended or was aborted. An error means not now: the same result comes
	// again after RetryAfter, and the order is not cleared. Required.
	OnResult func(ctx context.Context, scope isa95.Scope, r isa95.JobResponse) error

	// Clear has Takt forget each order once its result is handed over. Without it somebody else must, or they pile up.
	Clear bool

	// Count ends Follow when so many results are handed over and remembered and, with Clear, their orders have left. No further result is handed
	// over: the others wait for the next Follow. 0 = only ctx ends it.
	Count int

	OnIndex func(scope isa95.Scope, index isa95.StateIndex) // before its results; of several that wait only the last
	// OnLost says that Takt has lost a job order that StoreOnce stored: the current index has neither the order nor its end,
	// and Takt says that it does not know it. That happens when Redis was set back, and is rare. StoreOnce sends the order again,
	// also from here; parts of it may have been carried out before. An error means not now, as for OnResult. Without
	// OnLost an error is logged.
	OnLost func(ctx context.Context, scope isa95.Scope, id isa95.JobOrderID) error

	OnGap       func(Gap)                                                                    // before the OnIndex of the index that showed it
	OnClear     func(scope isa95.Scope, id isa95.JobOrderID, answer isa95.ReturnStatus)      // it has left; not NoError: somebody else cleared it, or our answer was lost
	OnDuplicate func(scope isa95.Scope, r isa95.JobResponse)                                 // a result that was handed over before, met again and left out
	OnTrouble   func(scope isa95.Scope, id isa95.JobOrderID, err error, again time.Duration) // tried again after again; id may be ""

	RetryAfter time.Duration // first pause after a failure, doubled up to 30 s; default 1 s
}

// Gap tells that indexes of a scope were missed, because this MES was away, or that Takt counts anew.
type Gap struct {
	Scope  isa95.Scope
	Before int64 // seq of the last index before, 0 = none ever: first contact
	After  int64 // seq of the index that showed it; smaller than Before: Takt's store was reset

	NewEpoch bool // Takt's store was replaced or has lost changes
}

// Totals count what one Follow did.
type Totals struct {
	Indexes    int64 // taken in hand; of several that wait only the last is
	Gaps       int64
	Results    int64 // handed over
	Clears     int64 // answered NoError
	Duplicates int64 // results left out because they had been handed over
	Lost       int64 // job orders that Takt has lost
	Troubles   int64 // failures that were tried again
}

const (
	maxRetry     = 30 * time.Second
	fetchAtOnce  = 500 // results fetched with one subscription
	clearsAtOnce = 64  // Clear commands under way
)

// Follow keeps up with scopes until ctx ends or Count is reached; then it has finished what it had begun to hand over, and the error is nil. No
// scopes means all. Run must be running. An error is one of the options, of the subscription or of the first Memory.Load.
//
// Every index is compared with the memory by its seq: one more than the last is the usual course, anything else is
// reported as a Gap and has everything looked at again. A broker or Takt that goes away and comes back needs nothing
// done: the index is retained, and every new one says all there is to know.
func (c *Client) Follow(ctx context.Context, scopes []isa95.Scope, o FollowOptions) (Totals, error) {
	if o.OnResult == nil {
		return Totals{}, errors.New("mes: FollowOptions.OnResult: missing")
	}
	if o.Memory == nil {
		o.Memory = NewMemory()
	}
	if o.RetryAfter < 0 {
		return Totals{}, fmt.Errorf("mes: FollowOptions.RetryAfter %v: must be 0 or more", o.RetryAfter)
	}
	o.RetryAfter = cmp.Or(o.RetryAfter, time.Second)
	if o.Count < 0 {
		return Totals{}, fmt.Errorf("mes: FollowOptions.Count %d: must be 0 (no limit) or more", o.Count)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &follow{c: c, o: o, log: c.log, ctx: ctx, cancel: cancel, scopes: map[isa95.Scope]*scopeFollow{}, quota: newQuota(o.Count)}
	filters := []string{c.indexTopic("+")}
	if len(scopes) > 0 {
		filters = nil
	}
	for _, scope := range scopes {
		if _, err := isa95.ParseScope(string(scope)); err != nil {
			return Totals{}, fmt.Errorf("mes: %w", err)
		}
		filters = append(filters, c.indexTopic(scope))
	}
	subscriptions := make([]mqtt.Subscription, len(filters))
	for i, filter := range filters {
		subscriptions[i] = mqtt.Subscription{Filter: filter, QoS: 1, Handle: f.take}
	}
	err := c.recv.Subscribe(ctx, subscriptions...)
	if err == nil {
		<-ctx.Done()
	}
	f.close()
	if err != nil && ctx.Err() == nil {
		return f.totals(), fmt.Errorf("mes: %w", err)
	}
	return f.totals(), f.failure
}

func (c *Client) indexTopic(scope isa95.Scope) string {
	return c.o.TopicPrefix + "/" + string(scope) + "/state-index"
}

// follow is one Follow at work.
type follow struct {
	c      *Client
	o      FollowOptions
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc

	telling sync.Mutex // one of the user's functions at a time
	quota   *quota

	running sync.WaitGroup
	mu      sync.Mutex
	closed  bool
	failure error
	scopes  map[isa95.Scope]*scopeFollow
	counted Totals
}

func (f *follow) totals() Totals {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counted
}

// count adds one to a counter of f.counted.
func (f *follow) count(n *int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*n++
}

// take is an index as it comes. The connection calls it in the order of arrival.
func (f *follow) take(_ context.Context, in *mqtt.Inbound) {
	_ = in.Ack() // it is retained: an unread index is not lost
	level, ok := strings.CutPrefix(in.Topic, f.c.o.TopicPrefix+"/")
	level, ok2 := strings.CutSuffix(level, "/state-index")
	scope, err := isa95.ParseScope(level)
	if !ok || !ok2 || err != nil || len(in.Payload) == 0 { // empty: the scope is given up
		return
	}
	var head struct {
		Seq   *int64 `json:"seq"`
		Epoch string `json:"epoch"`
	}
	if err := json.Unmarshal(in.Payload, &head); err != nil || head.Seq == nil {
		f.log.Error("mes: state index cannot be read", "scope", scope, "err", err)
		return
	}
	for _, p := range in.User {
		if p.Name == "epoch" { // beside an index in the form of MicroDCS
			head.Epoch = p.Value
		}
	}
	if s := f.of(scope); s != nil {
		s.push(*head.Seq, head.Epoch, in.Payload)
	}
}

// of finds the follower of a scope, or starts it; nil when all is over.
func (f *follow) of(scope isa95.Scope) *scopeFollow {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	s := f.scopes[scope]
	if s == nil {
		s = newScopeFollow(f, scope)
		f.scopes[scope] = s
		f.running.Go(func() {
			if err := s.run(f.ctx); err != nil {
				f.fail(err)
			}
		})
	}
	return s
}

func (f *follow) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure == nil {
		f.failure = err
	}
	f.cancel()
}

func (f *follow) close() {
	f.cancel()
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.running.Wait()
	clear(f.scopes) // the subscription stays until Run ends, and with it f
}

// tell calls one of the user's functions.
func (f *follow) tell(call func()) {
	f.telling.Lock()
	defer f.telling.Unlock()
	call()
}

func (f *follow) trouble(scope isa95.Scope, id isa95.JobOrderID, err error, again time.Duration) {
	f.count(&f.counted.Troubles)
	f.log.Warn("mes: follow", "scope", scope, "order", id, "err", err, "again_in", again)
	if f.o.OnTrouble != nil {
		f.tell(func() { f.o.OnTrouble(scope, id, err, again) })
	}
}
