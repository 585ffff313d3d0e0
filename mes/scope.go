package mes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/taktworks/takt/isa95"
)

// scopeFollow follows one scope.
type scopeFollow struct {
	f     *follow
	scope isa95.Scope
	inbox

	// What follows belongs to run.
	known   Known
	last    int64                      // seq of the last index that was compared
	epoch   string                     // the last that an index had
	highest int64                      // seq of known, or of a later index that could not be settled
	cleared map[isa95.JobOrderID]int64 // how many indexes had arrived when Clear was answered
	looked  map[isa95.JobOrderID]bool  // results compared since the last index that was settled
}

func newScopeFollow(f *follow, scope isa95.Scope) *scopeFollow {
	return &scopeFollow{f: f, scope: scope, inbox: newInbox(), cleared: map[isa95.JobOrderID]int64{}, looked: map[isa95.JobOrderID]bool{}}
}

// run deals with one index after the other until ctx ends. An error is one of Memory.Load.
func (s *scopeFollow) run(ctx context.Context) error {
	known, err := s.f.o.Memory.Load(ctx, s.scope)
	if err != nil {
		return fmt.Errorf("mes: memory of %s: %w", s.scope, err)
	}
	s.known = known.clone()
	s.last, s.highest, s.epoch = known.Seq, known.Seq, known.Epoch
	var index isa95.StateIndex
	var number int64
	resync := false
	retry := time.Duration(0) // 0 = nothing is left to do
	for {
		a, ok := s.next(ctx, retry)
		if !ok {
			return nil
		}
		if a.payload != nil {
			fresh := isa95.StateIndex{}
			if err := isa95.Unmarshal(a.payload, &fresh); err != nil {
				s.f.log.Error("mes: state index cannot be read", "scope", s.scope, "err", err)
				continue
			}
			index, number = fresh, a.number
			if s.compare(a) {
				resync = true
				clear(s.looked)
			}
			s.f.count(&s.f.counted.Indexes)
			if s.f.o.OnIndex != nil {
				s.f.tell(func() { s.f.o.OnIndex(s.scope, index) })
			}
		}
		again := s.f.o.RetryAfter
		if a.payload == nil {
			again = min(2*retry, maxRetry)
		}
		if !s.settle(ctx, index, number, resync, again) {
			retry = again
			continue
		}
		resync, retry = false, 0
	}
}

// compare reports gaps and says whether there was one.
func (s *scopeFollow) compare(a arrival) bool {
	gaps := a.broken
	fresh := a.epoch != "" && s.epoch != "" && a.epoch != s.epoch
	if a.epoch != "" {
		s.epoch = a.epoch
	}
	if fresh {
		gaps = []Gap{{Before: s.last, After: a.seq, NewEpoch: true}}
		s.highest = 0 // seq of before says nothing now
	} else if a.first != s.last && (a.first != s.last+1 || s.last == 0) {
		gaps = slices.Insert(slices.Clone(gaps), 0, Gap{Before: s.last, After: a.first})
	}
	s.last = a.seq
	for _, gap := range gaps {
		gap.Scope = s.scope
		s.f.count(&s.f.counted.Gaps)
		if s.f.o.OnGap != nil {
			s.f.tell(func() { s.f.o.OnGap(gap) })
		}
	}
	return len(gaps) > 0
}

// settle does all that an index asks for and remembers its seq. False: something is left, again is how long to wait.
func (s *scopeFollow) settle(ctx context.Context, index isa95.StateIndex, number int64, resync bool, again time.Duration) bool {
	failed := false
	trouble := func(id isa95.JobOrderID, err error) {
		failed = true
		if ctx.Err() == nil {
			s.f.trouble(s.scope, id, err, again)
		}
	}
	known, err := s.f.o.Memory.Load(ctx, s.scope)
	if err != nil {
		trouble("", fmt.Errorf("memory: %w", err))
		return false
	}
	s.known.Accepted, s.known.Lost = known.Accepted, known.Lost
	p := s.plan(index, number, resync)
	for some := range slices.Chunk(s.admitted(p.fetch), fetchAtOnce) {
		p.clear = append(p.clear, s.handOver(ctx, some, p.behind, trouble)...)
	}
	if s.f.o.Clear && ctx.Err() == nil {
		s.clearAll(ctx, p.clear, trouble)
	}
	p.gone = append(p.gone, s.findMissing(ctx, p.missing, trouble)...)
	s.reportLost(ctx, trouble)
	if !failed && ctx.Err() == nil && (index.Seq != s.known.Seq || s.epoch != s.known.Epoch || len(p.gone) > 0) {
		if err := s.f.o.Memory.Settled(context.WithoutCancel(ctx), s.scope, Settlement{index.Seq, s.epoch, p.gone}); err != nil {
			trouble("", fmt.Errorf("memory: %w", err))
		}
	}
	if failed || ctx.Err() != nil {
		s.highest = max(s.highest, index.Seq)
		return false
	}
	s.known.Seq, s.known.Epoch, s.highest = index.Seq, s.epoch, index.Seq
	for _, id := range p.gone {
		delete(s.known.Handed, id)
		if _, told := s.cleared[id]; !told && s.f.o.Clear && s.f.o.OnClear != nil {
			// The answer to our Clear was lost, in an outage of ours perhaps, or somebody else cleared it.
			s.f.tell(func() { s.f.o.OnClear(s.scope, id, isa95.UnknownJobOrder) })
		}
		s.done(id)
		delete(s.cleared, id)
	}
	clear(s.looked)
	return true
}

// plan is what an index asks for.
type plan struct {
	fetch []isa95.JobOrderID // results to look at: new ones, and in a resync all
	clear []isa95.JobOrderID // handed over and still there
	gone  []isa95.JobOrderID // handed over and no longer there, or begun anew

	missing []isa95.JobOrderID // accepted before this index was made, it seems, and neither listed nor handed over

	// behind: the index is older than what we know, so it comes from a broker or a store that was set back. Orders in it may
	// not be over yet, or be cleared and forgotten long since.
	behind bool
}

func (s *scopeFollow) plan(index isa95.StateIndex, number int64, resync bool) plan {
	p := plan{behind: index.Seq < s.highest}
	listed := make(map[isa95.JobOrderID]bool, len(index.Jobs))
	for _, e := range index.Jobs {
		id, err := isa95.ParseJobOrderID(e.JobOrderID)
		if err != nil || listed[id] {
			continue
		}
		listed[id] = true
		state, err := isa95.ParseState(e.State)
		over := err != nil || state.Clearable()
		_, handed := s.known.Handed[id]
		at, cleared := s.cleared[id]
		switch {
		case handed && !over:
			if !p.behind {
				p.gone = append(p.gone, id) // the id is used again, by an order that is not over
			}
		case !e.HasResult:
		case !handed || resync && !s.looked[id]:
			p.fetch = append(p.fetch, id)
		case cleared && number <= at+1:
			// The one index that may have been made before the order was cleared and sent after.
		case cleared:
			p.fetch = append(p.fetch, id) // it is back: the id is used again, or Takt's store was set back
		default:
			p.clear = append(p.clear, id)
		}
	}
	if p.behind {
		return p
	}
	for _, id := range slices.Sorted(maps.Keys(s.known.Handed)) {
		if !listed[id] {
			p.gone = append(p.gone, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.known.Accepted)) {
		at := s.known.Accepted[id]
		if _, handed := s.known.Handed[id]; handed || listed[id] {
			continue
		}
		if index.Seq > at.Seq || at.Epoch != "" && at.Epoch != s.epoch {
			p.missing = append(p.missing, id)
		}
	}
	return p
}

// admitted leaves out results that only the next Follow may hand over, so that they are not fetched.
func (s *scopeFollow) admitted(ids []isa95.JobOrderID) []isa95.JobOrderID {
	return slices.DeleteFunc(ids, func(id isa95.JobOrderID) bool {
		_, handed := s.known.Handed[id]
		return !handed && !s.f.quota.admits(s.scope, id)
	})
}

// handOver fetches results and hands over those that are new. It returns the orders that may be cleared. With a broker that was
// set back the retained results are as old as its index: Takt is asked, lest one that is cleared is handed over again.
func (s *scopeFollow) handOver(ctx context.Context, ids []isa95.JobOrderID, behind bool, trouble func(isa95.JobOrderID, error)) (safe []isa95.JobOrderID) {
	var found map[isa95.JobOrderID]*isa95.JobResponse
	if !behind {
		var err error
		if found, err = s.fetch(ctx, ids); err != nil {
			trouble("", err)
			return nil
		}
	}
	var (
		remembering sync.WaitGroup
		mu          sync.Mutex
		remembered  = map[isa95.JobOrderID]Receipt{}
		forgotten   = map[isa95.JobOrderID]error{}
	)
	handOver := func(id isa95.JobOrderID, r *isa95.JobResponse) {
		receipt, err := ReceiptOf(r)
		before := Order{}
		if err == nil {
			before, err = s.f.o.Memory.Order(ctx, s.scope, id)
		}
		if err == nil && (s.known.Handed[id] == receipt || before.had(receipt)) {
			s.f.count(&s.f.counted.Duplicates)
			if s.f.o.OnDuplicate != nil {
				s.f.tell(func() { s.f.o.OnDuplicate(s.scope, *r) })
			}
			safe = append(safe, id)
			s.looked[id] = true
			return
		}
		left := false // to the next Follow
		if err == nil {
			s.f.tell(func() {
				if left = !s.f.quota.admits(s.scope, id); left {
					return
				}
				if err = s.f.o.OnResult(ctx, s.scope, *r); err == nil {
					s.f.quota.take(s.scope, id)
				}
			})
		}
		if left {
			return
		}
		if err != nil {
			trouble(id, err)
			return
		}
		s.f.count(&s.f.counted.Results)
		// While this is written the next result is handed over: writes that come together share one. A stop must not
		// come between.
		remembering.Go(func() {
			err := s.f.o.Memory.Handed(context.WithoutCancel(ctx), s.scope, id, receipt)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				forgotten[id] = err
			} else {
				remembered[id] = receipt
			}
		})
	}
	var missing []isa95.JobOrderID
	for _, id := range ids {
		if r := found[id]; r == nil {
			missing = append(missing, id)
		} else if ctx.Err() == nil {
			handOver(id, r)
		}
	}
	for _, id := range missing { // after the others: asking takes a Takt that answers
		r, err := s.ask(ctx, id)
		if err != nil {
			trouble(id, err)
		} else if r != nil && ctx.Err() == nil { // nil: cleared by somebody else meanwhile
			handOver(id, r)
		}
	}
	remembering.Wait()
	for id, err := range forgotten {
		trouble(id, fmt.Errorf("memory: %w", err))
	}
	for id, receipt := range remembered {
		s.known.Handed[id] = receipt
		s.looked[id] = true
		delete(s.cleared, id)
		safe = append(safe, id)
		if !s.f.o.Clear {
			s.done(id)
		}
	}
	return safe
}

// done ends the Follow when nothing is left to do for the last order that it was to hand over.
func (s *scopeFollow) done(id isa95.JobOrderID) {
	if s.f.quota.done(s.scope, id) {
		s.f.cancel()
	}
}

// clearAll clears orders whose results are safe.
func (s *scopeFollow) clearAll(ctx context.Context, ids []isa95.JobOrderID, trouble func(isa95.JobOrderID, error)) {
	type outcome struct {
		id     isa95.JobOrderID
		status isa95.ReturnStatus
		err    error
	}
	outcomes := make(chan outcome, len(ids))
	room := make(chan struct{}, clearsAtOnce)
	var clearing sync.WaitGroup
	for _, id := range ids {
		room <- struct{}{}
		clearing.Go(func() {
			defer func() { <-room }()
			free, err := s.f.c.only(ctx, s.scope, id) // StoreOnce may be about to send it
			var status isa95.ReturnStatus
			if err == nil {
				status, err = s.f.c.Clear(ctx, s.scope, id)
				free()
			}
			outcomes <- outcome{id, status, err}
		})
	}
	clearing.Wait()
	close(outcomes)
	for o := range outcomes {
		var refused *RefusedError
		switch {
		case o.err == nil:
			s.f.count(&s.f.counted.Clears)
		case errors.As(o.err, &refused) && (o.status == isa95.UnknownJobOrder || o.status == isa95.InvalidStatus):
			// Somebody else has cleared it, or even stored it anew.
		default:
			trouble(o.id, o.err)
			continue
		}
		s.cleared[o.id] = s.arrived()
		if s.f.o.OnClear != nil {
			s.f.tell(func() { s.f.o.OnClear(s.scope, o.id, o.status) })
		}
		s.done(o.id)
	}
}

// had says that a result of an order was handed over: the same one, or any if the id stands for one order. Such an order is back, or is over once more,
// because Takt's store or the broker was set back.
func (o Order) had(r Receipt) bool {
	return o.Receipt != Receipt{} && (o.Receipt == r || o.Once) && (o.State == OrderHanded || o.State == OrderGone)
}

// findMissing asks Takt for accepted orders that an index does not list. The index may be older than the order, the order may be over
// without a result for us: those are returned. Others are lost.
func (s *scopeFollow) findMissing(ctx context.Context, ids []isa95.JobOrderID, trouble func(isa95.JobOrderID, error)) (gone []isa95.JobOrderID) {
	for _, id := range ids {
		if ctx.Err() != nil {
			return gone
		}
		_, err := s.f.c.JobResponse(ctx, s.scope, id)
		var refused *RefusedError
		switch {
		case err == nil: // it is over, and an index that lists it comes
		case !errors.As(err, &refused) || refused.Status != isa95.UnknownJobOrder:
			trouble(id, err)
		case refused.JobOrderState() == isa95.State{Top: isa95.EndState}:
			gone = append(gone, id)
		case refused.JobOrderState() != isa95.Initial: // an index that lists it comes
		case refused.Context[isa95.ContextJobOrderState] == "": // a server that does not say whether it has the order: the next index may get another answer
		default:
			if err := s.f.o.Memory.Lost(context.WithoutCancel(ctx), s.scope, id, false); err != nil {
				trouble(id, fmt.Errorf("memory: %w", err))
				continue
			}
			s.f.count(&s.f.counted.Lost)
			s.known.Lost = append(s.known.Lost, id)
		}
	}
	return gone
}

// reportLost tells the MES of orders that Takt has lost, also of those from before a restart.
func (s *scopeFollow) reportLost(ctx context.Context, trouble func(isa95.JobOrderID, error)) {
	for _, id := range s.known.Lost {
		if ctx.Err() != nil {
			return
		}
		var err error
		if s.f.o.OnLost == nil {
			s.f.log.Error("mes: Takt has lost a job order that it had accepted; send it again if it is still wanted", "scope", s.scope, "order", id)
		} else {
			s.f.tell(func() { err = s.f.o.OnLost(ctx, s.scope, id) })
		}
		if err == nil {
			err = s.f.o.Memory.Lost(context.WithoutCancel(ctx), s.scope, id, true)
		}
		if err != nil {
			trouble(id, err)
		}
	}
}

// ReceiptOf says which result this is, by its content: a result id may come again with an order id that is used again.
func ReceiptOf(r *isa95.JobResponse) (Receipt, error) {
	data, err := isa95.Marshal(r)
	if err != nil {
		return Receipt{}, fmt.Errorf("mes: result of %s: %w", r.JobOrderID, err)
	}
	sum := sha256.Sum256(data)
	return Receipt{JobResponseID: isa95.JobResponseID(r.JobResponseID), Digest: hex.EncodeToString(sum[:])}, nil
}
