package goworkflows

import (
	"context"
	"sync"
	"time"

	"github.com/cschleiden/go-workflows/backend/metrics"
	"github.com/cschleiden/go-workflows/core"
	"github.com/cschleiden/go-workflows/workflow/executor"
)

var _ executor.Cache = (*Cache)(nil)

// CacheOptions are those of NewCache.
type CacheOptions struct {
	Size int           // executors, those in use included; 0 = 128
	TTL  time.Duration // how long one is kept without being used; 0 = 10 s
}

// Cache keeps the executors of workflows that wait, for one worker. It never closes one that is in use: from when the worker gets or stores it for a task until the Backend
// has seen the task completed, or nobody has the task any more. While more than Size are in use, all of them are kept; otherwise those go first that were not used for the longest time.
//
// An executor whose task was not recorded has seen what never happened, and is closed after its use. All methods are safe for concurrent use.
type Cache struct {
	metrics metrics.Client
	ttl     time.Duration

	mu      sync.Mutex
	shelf   shelf
	stopped bool
}

// NewCache makes the cache of a worker on b, for worker.WorkflowWorkerOptions.WorkflowExecutorCache. Size and TTL below 0 count as 0. b refers to it as long as b is there.
func NewCache(b *Backend, o CacheOptions) *Cache {
	if o.Size <= 0 {
		o.Size = 128
	}
	if o.TTL <= 0 {
		o.TTL = 10 * time.Second
	}
	c := &Cache{metrics: b.Metrics(), ttl: o.TTL, shelf: newShelf(o.Size)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.caches = append(b.caches, c)
	return c
}

// Get takes the executor of an instance into use. While the task before is being recorded it waits for the outcome, or until ctx ends.
// There is none while a task that this worker has lost still uses it.
func (c *Cache) Get(ctx context.Context, instance *core.WorkflowInstance) (executor.WorkflowExecutor, bool, error) {
	for {
		c.mu.Lock()
		e := c.shelf.newest[key(instance)]
		switch {
		case e == nil || e.task != nil && e.task != instance && e.settled == nil:
			c.mu.Unlock()
			return nil, false, nil
		case e.settled == nil:
			c.shelf.use(e, instance)
			c.mu.Unlock()
			return e.executor, true, nil
		}
		settled := e.settled
		c.mu.Unlock()
		select {
		case <-settled:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// Store takes x into use, in place of what there was for the instance.
func (c *Cache) Store(_ context.Context, instance *core.WorkflowInstance, x executor.WorkflowExecutor) error {
	c.change(full, func() []*entry { return c.shelf.store(instance, x) })
	return nil
}

// Evict closes the executor of an instance whose execution has ended. If another task still uses it, that is done after its use.
func (c *Cache) Evict(_ context.Context, instance *core.WorkflowInstance) error {
	c.change(asked, func() []*entry { return c.shelf.evict(instance) })
	return nil
}

// StartEviction closes executors that were idle for too long, until ctx ends, and then all; those that are in use then, after their use.
func (c *Cache) StartEviction(ctx context.Context) {
	c.mu.Lock()
	c.stopped = false
	c.mu.Unlock()
	next := c.ttl
	for {
		select {
		case <-ctx.Done():
			c.stop()
			return
		case now := <-time.After(next):
			next = c.ttl // what becomes idle from now on is not due before
			c.change(expired, func() (gone []*entry) {
				gone, next = c.shelf.expire(now, c.ttl)
				return gone
			})
		}
	}
}

func (c *Cache) stop() {
	c.change(asked, func() []*entry {
		c.stopped = true
		return c.shelf.clear()
	})
}

// seen is how far the executor of an instance that waits has seen.
func (c *Cache) seen(instance *core.WorkflowInstance) (at point, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shelf.seen(instance)
}

// forget closes an executor that has seen what is not recorded any more: Redis has lost the end of its data.
func (c *Cache) forget(instance *core.WorkflowInstance, at point) {
	c.change(asked, func() []*entry { return c.shelf.forget(instance, at) })
}

// settling says that a task is not executed any more, but not yet whether it is recorded.
func (c *Cache) settling(task *core.WorkflowInstance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.shelf.used[task]; e != nil {
		e.settled = make(chan struct{})
	}
}

// settle ends the use of an executor, that has seen the history up to a point.
func (c *Cache) settle(task *core.WorkflowInstance, seen point, recorded bool) {
	reason := full
	if !recorded {
		reason = asked
	}
	c.change(reason, func() []*entry { return c.shelf.settle(task, seen, recorded && !c.stopped) })
}

// The library's own metrics and reasons.
const (
	metricSize     = "workflows.workflow.cache.size"
	metricEviction = "workflows.workflow.cache.eviction"

	asked   = ""
	full    = "capacity"
	expired = "expired"
)

// change closes what do takes off the shelf. That runs code of workflows, their deferred functions, and is therefore done without the lock.
func (c *Cache) change(reason string, do func() []*entry) {
	c.mu.Lock()
	before := len(c.shelf.newest)
	gone := do()
	after := len(c.shelf.newest)
	c.mu.Unlock()
	for _, e := range gone {
		e.executor.Close()
		c.metrics.Counter(metricEviction, metrics.Tags{"reason": reason}, 1)
	}
	if after != before {
		c.metrics.Gauge(metricSize, metrics.Tags{}, int64(after))
	}
}
