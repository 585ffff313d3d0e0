package sampling

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/rfc3339"
	"github.com/taktworks/takt/internal/telemetry"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/workflow"
)

const (
	role       = "sampler"
	leaseTTL   = 15 * time.Second // after how long another process samples instead of a dead one
	lookEvery  = 10 * time.Second // at the changes, for their stream keeps about 5000
	lookCount  = 5000
	within     = 10 * time.Second // that one look, and one sample, may take
	retryAfter = time.Second
)

// Options configure a Sampler.
type Options struct {
	Store *jobstore.Store
	// Tasks and Workflows connect to the other parts; nil = they are left out. Each is called once this process samples, and again while it fails.
	Tasks     func(ctx context.Context) (*task.Client, error)
	Workflows func(ctx context.Context) (*workflow.Client, error)
	Engine    bool          // the process has this role, and counts also if the broker keeps no session for it
	Every     time.Duration // default a minute
	Log       *slog.Logger  // default slog.Default()
}

// Sampler samples while its process has the lease. Its methods are safe for concurrent use.
type Sampler struct {
	o    Options
	last atomic.Pointer[Sample] // nil while another process samples
}

// New makes a Sampler; Run runs it.
func New(o Options) *Sampler {
	o.Every, o.Log = cmp.Or(o.Every, time.Minute), cmp.Or(o.Log, slog.Default())
	return &Sampler{o: o}
}

// Last is the last sample of this process, nil if it does not sample, or did not yet.
func (s *Sampler) Last() *Sample { return s.last.Load() }

// Run samples whenever no other process does, until ctx ends. What fails is logged and tried again.
func (s *Sampler) Run(ctx context.Context) error {
	return s.o.Store.Lease(ctx, role, leaseTTL, func(ctx context.Context, l *jobstore.Lease) error {
		t := term{s: s, lease: l, orders: make(map[isa95.JobOrderID]order), tasks: part[*task.Client]{open: s.o.Tasks}, workflows: part[*workflow.Client]{open: s.o.Workflows}}
		defer s.last.Store(nil)
		defer t.tasks.close()
		defer t.workflows.close()
		t.run(ctx)
		return nil
	})
}

// term is the time in which this process samples.
type term struct {
	s         *Sampler
	lease     *jobstore.Lease
	tasks     part[*task.Client]
	workflows part[*workflow.Client]

	begun          bool                       // orders has all
	orders         map[isa95.JobOrderID]order // that are not in EndState
	seen           string                     // change that orders has
	ended, aborted int64                      // since the last sample
	missed         bool
}

type order struct {
	top   string
	since time.Time // of the state; zero: another program wrote it
}

func (t *term) run(ctx context.Context) {
	next := time.Now()
	for failed := false; ; {
		err := t.once(ctx, !time.Now().Before(next))
		if err != nil && !failed && ctx.Err() == nil {
			t.s.o.Log.Warn("the figures of this installation cannot be sampled; it is tried again", "err", telemetry.Hide(err.Error()))
		}
		failed = err != nil
		for err == nil && !time.Now().Before(next) { // those that were missed while the process stood still, or Redis was away, are not made up for
			next = next.Add(t.s.o.Every)
		}
		if !lifecycle.Sleep(ctx, min(lookEvery, max(time.Until(next), retryAfter))) {
			return
		}
	}
}

// once looks at the changes and, if that is due, samples.
func (t *term) once(ctx context.Context, due bool) error {
	if !t.begun {
		if err := t.begin(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := t.look(ctx); err != nil || !due {
		return err
	}
	sample := t.count()
	if err := sample.condition(ctx, t.s.o.Store); err != nil {
		return err
	}
	sample.Instances = max(sample.Instances, 1)
	if t.s.o.Engine {
		sample.Engines = max(sample.Engines, 1)
	}
	sample.age(t.orders)
	sample.unread("tasks", t.tasks.use(ctx, sample.tasks))
	sample.unread("workflows", t.workflows.use(ctx, sample.workflows))
	text, err := json.Marshal(sample)
	if err != nil || !t.lease.Valid() {
		return err
	}
	if err := t.s.o.Store.AddSample(ctx, text); err != nil {
		return err
	}
	t.ended, t.aborted, t.missed = 0, 0, false
	t.s.last.Store(sample)
	return nil
}

// begin goes on counting where the last sample ended, and reads all orders once.
func (t *term) begin(ctx context.Context) error {
	store := t.s.o.Store
	newest, err := store.LastSample(ctx)
	if err != nil {
		return err
	}
	if t.seen, err = store.LastChange(ctx, ""); err != nil {
		return err
	}
	if newest != nil {
		var before Sample
		if json.Unmarshal(newest.Data, &before) == nil && before.Last != "" {
			t.seen = before.Last
		}
	}
	if err := t.readAll(ctx); err != nil {
		return err
	}
	t.begun = true
	return nil
}

// readAll reads all orders.
func (t *term) readAll(ctx context.Context) error {
	scopes, err := t.s.o.Store.Scopes(ctx)
	if err != nil || len(scopes) == 0 {
		return err
	}
	all, err := t.s.o.Store.List(ctx, scopes...)
	if err = readable(err); err != nil {
		return err
	}
	clear(t.orders)
	for i := range all {
		t.note(&all[i])
	}
	return nil
}

// readable leaves out that some documents cannot be read: takt check lists them.
func readable(err error) error {
	if _, ok := errors.AsType[*jobstore.DocumentError](err); ok {
		return nil
	}
	return err
}

func (t *term) note(o *jobstore.StoredOrder) {
	since, _ := rfc3339.Parse(o.Event.RecordedTime)
	t.orders[isa95.JobOrderID(o.JobOrder.JobOrderID)] = order{o.State.Top, since}
}

// look brings orders up to date and counts what ended.
func (t *term) look(ctx context.Context) error {
	changes, missed, err := t.s.o.Store.ChangesAfter(ctx, t.seen, lookCount)
	if err != nil || len(changes) == 0 {
		return err
	}
	if missed {
		if err := t.readAll(ctx); err != nil {
			return err
		}
	}
	var ids []string
	gone := make(map[isa95.JobOrderID]bool)
	for _, c := range changes {
		if !gone[c.JobOrderID] {
			gone[c.JobOrderID] = true
			ids = append(ids, string(c.JobOrderID))
		}
	}
	all, err := t.s.o.Store.Orders(ctx, ids...)
	if err = readable(err); err != nil {
		return err
	}
	for i := range all {
		if !all[i].State.IsEnd() {
			t.note(&all[i])
			delete(gone, isa95.JobOrderID(all[i].JobOrder.JobOrderID))
		}
	}
	for id := range gone {
		delete(t.orders, id)
	}
	for _, c := range changes {
		switch isa95.Method(c.Type) {
		case isa95.End, isa95.Stop:
			t.ended++
		case isa95.Abort:
			t.aborted++
		}
	}
	t.seen, t.missed = changes[len(changes)-1].ID, t.missed || missed
	return nil
}

// count begins a sample.
func (t *term) count() *Sample {
	s := &Sample{By: t.s.o.Store.Instance(), Orders: make(map[string]int64), Ended: t.ended, Aborted: t.aborted, Missed: t.missed, Last: t.seen}
	for _, o := range t.orders {
		s.Orders[o.top]++
	}
	return s
}

// age finds the order that waits longest.
func (s *Sample) age(orders map[isa95.JobOrderID]order) {
	for id, o := range orders {
		if o.since.IsZero() || o.top == isa95.Running || (isa95.State{Top: o.top}).Clearable() {
			continue
		}
		if age := s.Time.Sub(o.since); age > s.Waiting {
			s.Waiting, s.Oldest = age, string(id)
		}
	}
}
