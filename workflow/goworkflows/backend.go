package goworkflows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/backend/metrics"
	"github.com/cschleiden/go-workflows/core"
	"github.com/cschleiden/go-workflows/diag"
	gowf "github.com/cschleiden/go-workflows/workflow"
	"go.opentelemetry.io/otel/trace"

	"github.com/taktworks/takt/workflow"
)

var _ diag.Backend = (*Backend)(nil)

// ErrClosed is returned by a Backend after Close.
var ErrClosed = errors.New("goworkflows: the backend is closed")

// Backend is Takt as go-workflows sees it, its web interface (package diag) included. All methods are safe for concurrent use.
//
// What the library compares with == comes unwrapped: backend.ErrInstanceNotFound, ErrInstanceAlreadyExists and ErrInstanceNotFinished. Other errors wrap those of package workflow.
// Calls are repeated for some seconds while Redis is away, but for removals; an error after that means that the outcome is not known, and the same call may be made again.
type Backend struct {
	core    *workflow.Client
	owned   bool // by Open: Close closes core, too
	options *backend.Options
	lease   time.Duration // of the worker; 0 = the core's own
	metrics func() metrics.Client

	mu         sync.Mutex
	shift      *shift // nil = no task was asked for yet
	closed     bool
	caches     []*Cache
	sequels    map[*core.WorkflowInstance]sequel // by the instance of a task
	activities map[string]*heldActivity          // handed out, by the ID of their task
	handed     uint64                            // activities so far
}

// Open connects to the Redis of url, such as
//
//	redis://user:password@127.0.0.1:6379/0?prefix=takt&shards=1&retention=168h&lease=15s
//
// where prefix is that of all keys ("takt" if it is left out), shards the number of parts that instances are spread over (1), retention how long ended instances are kept
// (7 days; "forever"), and lease how long a worker counts as alive without a sign of life (10 s).
// rediss, unix and redis+sentinel work as in Takt's other parts. An unknown parameter is an error.
//
// opts are the library's own. Of them WithWorkflowLockTimeout (1 min) and WithActivityLockTimeout (2 min) say when a task that is neither completed nor extended goes to another worker,
// WithWorkerName, which must be unique among all processes that share the prefix, lets a process go on with what it held before a restart, and WithStickyTimeout has no effect.
//
// It blocks until the server was reached or ctx ends. Close it.
func Open(ctx context.Context, url string, opts ...backend.BackendOption) (*Backend, error) {
	s, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	options := backend.ApplyOptions(opts...)
	s.core.Log = options.Logger
	core, err := workflow.Open(ctx, s.redis, s.core)
	if err != nil {
		return nil, fmt.Errorf("goworkflows: %w", err)
	}
	b := on(core, options)
	b.owned, b.lease = true, s.lease
	return b, nil
}

// New is Open on a client of the caller, who closes it after the Backend.
func New(c *workflow.Client, opts ...backend.BackendOption) (*Backend, error) {
	if c == nil {
		return nil, errors.New("goworkflows: client: must not be nil")
	}
	return on(c, backend.ApplyOptions(opts...)), nil
}

func on(c *workflow.Client, o *backend.Options) *Backend {
	o.ContextPropagators = append(slices.Clip(o.ContextPropagators), senders{})
	tagged := sync.OnceValue(func() metrics.Client { return o.Metrics.WithTags(metrics.Tags{"backend": "takt"}) })
	return &Backend{core: c, options: o, metrics: tagged, sequels: map[*core.WorkflowInstance]sequel{}, activities: map[string]*heldActivity{}}
}

// Close hands back the tasks that this process still holds and closes the connection if Open made it. Stop the workers first, and wait for them: an executor that is at work is not interrupted.
func (b *Backend) Close() error {
	b.mu.Lock()
	closed, s, caches := b.closed, b.shift, b.caches
	b.closed = true
	b.mu.Unlock()
	if closed {
		return nil
	}
	var err error
	if s != nil {
		s.end(ErrClosed)
		<-s.over
		err = s.err
	}
	for _, c := range caches {
		c.stop()
	}
	if b.owned {
		b.core.Close()
	}
	return err
}

// Client is the core that this Backend translates for.
func (b *Backend) Client() *workflow.Client { return b.core }

// Wait blocks until the execution has ended or ctx ends, and then returns nil or the cause of ctx. Execution "" is the active one. The library's client finds the result at once afterwards.
func (b *Backend) Wait(ctx context.Context, instance *gowf.Instance) error {
	_, _, err := b.core.Await(ctx, toInstance(instance))
	return translate(err)
}

// GetFutureEvents lists the timers that have not fired, of all instances.
func (b *Backend) GetFutureEvents(ctx context.Context) ([]*history.Event, error) {
	timers, err := ask(ctx, func() ([]workflow.Event, error) { return b.core.Timers(ctx) })
	if err != nil {
		return nil, err
	}
	return fromEvents(timers)
}

// Tracer is read anew each time, for Options may be changed until the first use.
func (b *Backend) Tracer() trace.Tracer { return b.options.TracerProvider.Tracer(backend.TracerName) }

// Metrics is asked for with each task.
func (b *Backend) Metrics() metrics.Client { return b.metrics() }

func (b *Backend) Options() *backend.Options { return b.options }

// FeatureSupported says yes to expiration, the only feature there is: RemoveWorkflowInstances works.
func (b *Backend) FeatureSupported(f backend.Feature) bool { return f == backend.Feature_Expiration }
