package task

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis/script"
)

var leftScript = script.Load(files, "task/left")

const runAllPoll = 5 * time.Millisecond // in case that others end the last task

// RunAll runs tasks until none waits, runs or is delayed, and returns the ends of the runs in their order: for tests, and for programs that work off what is there and exit.
// Delayed tasks and retries do not wait until they are due. Tasks of types that are paused stay where they are; one without a handler is dead after o.MaxUnknown
// more tries. If ctx ends first, RunAll hands back what it has not begun and returns what ended so far, with an error that wraps the cause. o is that of a Worker; Concurrency nil
// serves all sizes, and the pools that handlers or tasks have when it begins.
func (c *Client) RunAll(ctx context.Context, o WorkerOptions, handlers ...Handler) (_ []Event, err error) {
	var mu sync.Mutex
	var ends []Event
	ended := make(chan struct{}, 1)
	observe := o.Observe
	o.Observe = func(e Event) {
		mu.Lock()
		ends = append(ends, e)
		mu.Unlock()
		lifecycle.Poke(ended)
		if observe != nil {
			observe(e)
		}
	}
	if o.Concurrency == nil {
		if o.Concurrency, err = c.allSlots(ctx, handlers); err != nil {
			return nil, err
		}
	}
	o.NoPromote = true
	w, err := c.Worker(o, handlers...)
	if err != nil {
		return nil, err
	}
	working, stop := context.WithCancel(ctx)
	end := make(chan error, 1)
	go func() { end <- w.Run(working) }()
	err = c.untilNoneIsLeft(ctx, ended)
	stop()
	err = errors.Join(err, <-end)
	mu.Lock()
	defer mu.Unlock()
	return ends, err
}

// allSlots are the default slots of all sizes and pools that there are. One round trip.
func (c *Client) allSlots(ctx context.Context, handlers []Handler) (map[Size]int, error) {
	all, err := c.queues(ctx)
	if err != nil {
		return nil, fmt.Errorf("task: run all: %w", err)
	}
	slots := make(map[Size]int)
	for _, q := range all {
		slots[q.size()] = slotsFor(q.size())
	}
	for _, h := range handlers {
		if h.spec != nil { // an empty Handler is refused with the others' options
			slots[h.spec.size] = slotsFor(h.spec.size)
		}
	}
	return slots, nil
}

// untilNoneIsLeft moves delayed tasks to their queues at once until there are no tasks.
func (c *Client) untilNoneIsLeft(ctx context.Context, ended <-chan struct{}) error {
	p := newPromoter(c, c.log)
	tick := time.Tick(runAllPoll)
	for {
		err := p.hurry(ctx)
		var left int64
		if err == nil {
			left, err = c.left(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("task: run all: %w, and tasks are left", context.Cause(ctx))
		case err != nil:
			return fmt.Errorf("task: run all: %w", err)
		case left == 0:
			return nil
		}
		select {
		case <-ctx.Done():
		case <-ended:
		case <-tick:
		}
	}
}

// hurry moves all delayed tasks to their queues, in the order in which they would be due.
func (p *promoter) hurry(ctx context.Context) error {
	k, b := p.c.keys.TaskDelayed(), p.c.rdb.B()
	for {
		if _, err := p.promote(ctx); err != nil {
			return err
		}
		members, err := p.c.rdb.Do(ctx, b.Zrange().Key(k).Min("0").Max(strconv.Itoa(promotePage-1)).Build()).AsStrSlice()
		if err != nil || len(members) == 0 {
			return err
		}
		due := b.Zadd().Key(k).Xx().ScoreMember() // not those that another process has moved meanwhile
		for i, m := range members {
			due = due.ScoreMember(float64(i), m)
		}
		if err := p.c.rdb.Do(ctx, due.Build()).Error(); err != nil {
			return err
		}
	}
}

// left is how many tasks wait, run or are delayed. Two round trips.
func (c *Client) left(ctx context.Context) (int64, error) {
	all, err := c.queues(ctx)
	if err != nil {
		return 0, err
	}
	keys := []string{c.keys.TaskDelayed()}
	for _, q := range all {
		keys = append(keys, c.keys.TaskStream(string(q)))
	}
	return leftScript.Run(ctx, c.rdb, keys).AsInt64()
}
