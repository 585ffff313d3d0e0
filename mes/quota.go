package mes

import (
	"sync"

	"github.com/taktworks/takt/isa95"
)

// quota counts the results that a Follow hands over, up to FollowOptions.Count. It may be used by several goroutines at once.
type quota struct {
	count int // 0 = no limit

	mu    sync.Mutex
	taken int
	open  map[scopedOrder]bool // taken, and not remembered or, with Clear, not cleared yet
}

type scopedOrder struct {
	scope isa95.Scope
	id    isa95.JobOrderID
}

func newQuota(count int) *quota { return &quota{count: count, open: map[scopedOrder]bool{}} }

// admits says whether the result of an order may be handed over: the limit is not reached, or it was handed over and could not be remembered.
func (q *quota) admits(scope isa95.Scope, id isa95.JobOrderID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count == 0 || q.open[scopedOrder{scope, id}] || q.taken < q.count
}

// take counts a result that was handed over.
func (q *quota) take(scope isa95.Scope, id isa95.JobOrderID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if order := (scopedOrder{scope, id}); q.count > 0 && !q.open[order] {
		q.taken++
		q.open[order] = true
	}
}

// done says that nothing is left to do for an order, and returns whether that reaches the limit.
func (q *quota) done(scope isa95.Scope, id isa95.JobOrderID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, scopedOrder{scope, id})
	return q.count > 0 && q.taken >= q.count && len(q.open) == 0
}
