package task

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lifecycle"
)

const (
	controlPoll = 5 * time.Second // at least that often a worker looks what it is told; usually it is pushed, and it looks whenever it may have missed that
	stuckPoll   = time.Second
)

// control is what operators tell workers: what is paused, how fast queues may be, which tasks to cancel. A worker keeps a copy, so that
// asking costs nothing.
type control struct {
	w       *Worker
	wake    chan struct{}
	current atomic.Pointer[orders]
	groups  map[Size]chan struct{} // told when queues are paused, resumed, or have another rate

	marks marks // of tasks to cancel; of the goroutine that reads
}

// orders is one state of the control hash. Its fields are "pause queue Q", "pause type N", both with any value, and "rate queue Q" with tasks per second.
type orders struct {
	queues    map[Queue]bool
	types     map[string]bool
	rates     map[Queue]float64
	cancelled map[string]bool
	settings  *settings // nil = none
	watched   string    // database of those who watch what ends, "" = none
}

const (
	pauseQueue = "pause queue "
	pauseType  = "pause type "
	rateQueue  = "rate queue "
)

func newControl(w *Worker) *control {
	c := &control{w: w, wake: make(chan struct{}, 1), groups: make(map[Size]chan struct{})}
	for size := range w.opts.Concurrency {
		c.groups[size] = make(chan struct{}, 1)
	}
	c.current.Store(&orders{})
	return c
}

func (c *control) paused(q Queue) bool         { return c.current.Load().queues[q] }
func (c *control) rate(q Queue) float64        { return c.current.Load().rates[q] }
func (c *control) typePaused(name string) bool { return c.current.Load().types[name] }
func (c *control) watched() string             { return c.current.Load().watched }
func (c *control) isCancelled(id string) bool  { return c.current.Load().cancelled[id] }

// run keeps the copy until ctx ends.
func (c *control) run(ctx context.Context) {
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { c.w.client.listen(ctx, c.w.client.keys.TaskControl(), c.wake) })
	tick := time.Tick(stuckPoll)
	var read time.Time
	for ctx.Err() == nil {
		if time.Since(read) >= controlPoll {
			if err := c.read(ctx); err == nil {
				read = time.Now()
			} else if ctx.Err() == nil {
				c.w.log.Debug("task: what operators say is not known", "error", err)
			}
		}
		c.w.look()
		select {
		case <-ctx.Done():
		case <-tick:
		case <-c.wake:
			read = time.Time{}
		}
	}
}

// read renews the copy. One round trip, and more if the cancel marks must be read anew.
func (c *control) read(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	k, b := c.w.client.keys, c.w.client.rdb.B()
	sent := time.Now()
	cmds := rueidis.Commands{b.Time().Build(), b.Hgetall().Key(k.TaskControl()).Build(), b.Zcard().Key(k.TaskCancelled()).Build(), c.marks.news(b, k.TaskCancelled()),
		b.Get().Key(k.TaskWatched()).Build()}
	if c.w.opts.Metrics != nil {
		cmds = append(cmds, b.Zcard().Key(k.TaskDelayed()).Build())
	}
	replies := c.w.client.rdb.DoMulti(call, cmds...)
	if err := c.w.client.setClock(sent, replies[0]); err != nil {
		return err
	}
	fields, err := replies[1].AsStrMap()
	if err != nil {
		return err
	}
	next := parseOrders(fields)
	next.settings = c.readSettings(fields[configField])
	if next.cancelled, err = c.marks.read(ctx, c.w.client.rdb, k.TaskCancelled(), replies[2], replies[3]); err != nil {
		return err
	}
	next.watched, _ = replies[4].ToString() // an error: there is no watcher
	if m := c.w.opts.Metrics; m != nil {
		if n, err := replies[5].AsInt64(); err == nil {
			m.delayed.Set(float64(n))
		}
	}
	before := c.current.Swap(next)
	if !maps.Equal(before.queues, next.queues) || !maps.Equal(before.rates, next.rates) {
		for _, ch := range c.groups {
			lifecycle.Poke(ch)
		}
	}
	c.w.cancelRunning(next.cancelled)
	return nil
}

func parseOrders(fields map[string]string) *orders {
	o := &orders{queues: make(map[Queue]bool), types: make(map[string]bool), rates: make(map[Queue]float64)}
	for field, value := range fields {
		if q, ok := strings.CutPrefix(field, pauseQueue); ok {
			o.queues[Queue(q)] = true
		} else if name, ok := strings.CutPrefix(field, pauseType); ok {
			o.types[name] = true
		} else if q, ok := strings.CutPrefix(field, rateQueue); ok {
			if rate, err := strconv.ParseFloat(value, 64); err == nil && rate > 0 {
				o.rates[Queue(q)] = rate
			}
		}
	}
	return o
}

// cancelRunning ends the contexts of the runs that somebody wants cancelled.
func (w *Worker) cancelRunning(ids map[string]bool) {
	if len(ids) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for r := range w.running {
		if marked(ids, &r.msg) {
			r.ctx.cancel(ErrCancelled)
		}
	}
}
