package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/task"
)

// post is what the office needs from outside; a test has its own.
type post interface {
	Deliver(ctx context.Context, attempt int, l Letter) error
}

// office has the handlers, and what they need.
type office struct {
	post    post
	packing counter
	looked  chan struct{} // one for each look at the shelves; made by handlers
}

// handlers are those of a worker.
func (o *office) handlers() []task.Handler {
	o.looked = make(chan struct{}, 1000)
	return []task.Handler{Mail.Handle(o.mail), Pack.Handle(o.pack), Count.Handle(o.count), Report.Handle(o.report), Stock.Handle(o.stock)}
}

func (o *office) mail(ctx context.Context, j *task.Job[Letter]) (string, error) {
	if !strings.Contains(j.Args.To, "@") {
		return "", task.Cancel(fmt.Errorf("%q is no address", j.Args.To)) // no retry can mend it
	}
	if err := o.post.Deliver(ctx, j.Attempt, j.Args); err != nil {
		return "", err // runs again, as the type says
	}
	return fmt.Sprintf("%s got it at attempt %d of %d", j.Args.To, j.Attempt, j.MaxAttempts), nil
}

func (o *office) pack(ctx context.Context, j *task.Job[Parcel]) (int, error) {
	defer o.packing.enter(j.Args.Customer)()
	select {
	case <-time.After(50 * time.Millisecond): // the work
		return j.Args.Number, nil
	case <-ctx.Done(): // the time is over, the worker stops, or the lock is lost: context.Cause says which
		return 0, context.Cause(ctx)
	}
}

func (o *office) count(_ context.Context, j *task.Job[string]) (int, error) {
	return 100 * len(j.Args), nil
}

func (o *office) report(ctx context.Context, j *task.Job[string]) (string, error) {
	counts, err := task.GroupResults[int](ctx)
	if err != nil {
		return "", err
	}
	sum := 0
	for _, c := range counts {
		sum += c.Value
	}
	return fmt.Sprintf("%d items in %d warehouses on %s", sum, len(counts), j.Args), nil
}

func (o *office) stock(context.Context, *task.Job[struct{}]) (task.None, error) {
	select {
	case o.looked <- struct{}{}:
	default: // nobody waits for it
	}
	return task.None{}, nil
}

// flakyPost refuses the first two attempts.
type flakyPost struct{}

func (*flakyPost) Deliver(_ context.Context, attempt int, _ Letter) error {
	if attempt < 3 {
		return errors.New("the post office is closed")
	}
	return nil
}

// counter knows the most that ran at once, together and of one customer.
type counter struct {
	mu           sync.Mutex
	now          map[string]int
	all          int
	mostAll, one int
}

func (c *counter) enter(customer string) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil {
		c.now = make(map[string]int)
	}
	c.all++
	c.now[customer]++
	c.mostAll, c.one = max(c.mostAll, c.all), max(c.one, c.now[customer])
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all--
		c.now[customer]--
	}
}

func (c *counter) most() (atOnce, ofOne int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mostAll, c.one
}
