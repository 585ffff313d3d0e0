package task

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"sync"
)

// Provider makes one kind of dependency for handlers, which ask for it with Get. Make it with Provide or Supply.
type Provider struct {
	of   reflect.Type
	make func(context.Context) (any, func(error) error, error)
}

// Provide says how a D is made. It is called at most once in a run, by the first Get of it, with a context of the run that has the other dependencies. cleanup, which may
// be nil, is called after the handler, in the reverse order of making, with what the run came to: nil if it succeeded, which is the moment to commit; else its error, also
// that of a panic. If cleanup fails, the run has failed. It is called before the locks are given back.
func Provide[D any](f func(context.Context) (d D, cleanup func(error) error, err error)) Provider {
	return Provider{reflect.TypeFor[D](), func(ctx context.Context) (any, func(error) error, error) {
		d, cleanup, err := f(ctx)
		return d, cleanup, err
	}}
}

// Supply provides a D that is there already.
func Supply[D any](d D) Provider {
	return Provide(func(context.Context) (D, func(error) error, error) { return d, nil, nil })
}

// With returns a Handler that has these providers beside those of the worker, and rather than them. Of several for one type the last wins.
func (h Handler) With(providers ...Provider) Handler {
	h.providers = append(h.providers[:len(h.providers):len(h.providers)], providers...)
	return h
}

// ErrNoProvider: nobody provides what Get was asked for. Add a Provider to WorkerOptions.Providers, or to the handler by With.
var ErrNoProvider = errors.New("task: nothing provides this type")

var (
	errScopeEnded = errors.New("task: the run has ended")
	errCycle      = errors.New("task: needs itself")
)

// Get returns the D of the run that ctx belongs to, and makes it if this is the first time. It may be called from several goroutines, also by providers
// for what they need. The error is ErrNoProvider, or what the provider returned.
func Get[D any](ctx context.Context) (D, error) {
	var none D
	s, _ := ctx.Value(scopeKey{}).(*scope)
	v, err := s.get(ctx, reflect.TypeFor[D]())
	if err != nil {
		return none, err
	}
	d, _ := v.(D) // of another type only if it is a nil interface
	return d, nil
}

// Inject returns a context in which Get finds what providers make, for tests that call a handler's function without a worker. end must be called once
// the function has returned, with its error; it returns what the run came to.
func Inject(ctx context.Context, providers ...Provider) (injected context.Context, end func(error) error) {
	s := newScope(providers)
	return context.WithValue(ctx, scopeKey{}, s), s.end
}

type (
	scopeKey  struct{}
	makingKey struct{}
)

// scope has the dependencies of one run.
type scope struct {
	by map[reflect.Type]Provider

	mu       sync.Mutex
	made     map[reflect.Type]*dependency
	cleanups []func(error) error
	ended    bool
}

type dependency struct {
	ready chan struct{}
	value any
	err   error
}

// making is the chain of what is being made for what.
type making struct {
	of reflect.Type
	by *making
}

func newScope(lists ...[]Provider) *scope {
	s := &scope{by: make(map[reflect.Type]Provider), made: make(map[reflect.Type]*dependency)}
	for _, list := range lists {
		for _, p := range list {
			s.by[p.of] = p
		}
	}
	return s
}

func (s *scope) get(ctx context.Context, of reflect.Type) (any, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: %v", ErrNoProvider, of)
	}
	chain, _ := ctx.Value(makingKey{}).(*making)
	for m := chain; m != nil; m = m.by {
		if m.of == of {
			return nil, fmt.Errorf("%w: %v", errCycle, of)
		}
	}
	s.mu.Lock()
	p, known := s.by[of]
	d, made := s.made[of]
	ended := s.ended
	if known && !made && !ended {
		d = &dependency{ready: make(chan struct{})}
		s.made[of] = d
	}
	s.mu.Unlock()
	switch {
	case !known:
		return nil, fmt.Errorf("%w: %v", ErrNoProvider, of)
	case ended:
		return nil, errScopeEnded
	case !made:
		s.fill(context.WithValue(ctx, makingKey{}, &making{of, chain}), d, p)
	}
	select {
	case <-d.ready:
		return d.value, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// fill makes a dependency. A panic of its provider is an error.
func (s *scope) fill(ctx context.Context, d *dependency, p Provider) {
	defer close(d.ready)
	var cleanup func(error) error
	func() {
		defer func() {
			if v := recover(); v != nil {
				d.err = &PanicError{Value: v, Stack: debug.Stack()}
			}
		}()
		d.value, cleanup, d.err = p.make(ctx)
	}()
	if d.err != nil {
		d.err = fmt.Errorf("task: provide %v: %w", p.of, d.err)
		return
	}
	s.mu.Lock()
	ended := s.ended
	if cleanup != nil && !ended {
		s.cleanups = append(s.cleanups, cleanup)
	}
	s.mu.Unlock()
	if ended { // the handler did not wait for it
		if d.err = errScopeEnded; cleanup != nil {
			d.err = guardCleanup(cleanup, errScopeEnded)
		}
	}
}

// end cleans up and returns what the run came to.
func (s *scope) end(err error) error {
	s.mu.Lock()
	s.ended = true
	cleanups := s.cleanups
	s.cleanups = nil
	s.mu.Unlock()
	for i := len(cleanups) - 1; i >= 0; i-- {
		err = guardCleanup(cleanups[i], err)
	}
	return err
}

// guardCleanup adds what a cleanup fails with to err.
func guardCleanup(cleanup func(error) error, err error) (joined error) {
	defer func() {
		if v := recover(); v != nil {
			joined = errors.Join(err, &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	failed := cleanup(err)
	switch {
	case failed == nil || errors.Is(err, failed):
		return err
	case err == nil:
		return fmt.Errorf("task: cleanup: %w", failed)
	}
	return errors.Join(err, fmt.Errorf("task: cleanup: %w", failed))
}

// call calls the handler through the middleware, and cleans up after it with what that came to.
func (r *run) call(ctx context.Context) (value []byte, err error) {
	worker, own := r.worker.opts.Providers, r.handler.providers
	if len(worker)+len(own)+len(r.overrides) == 0 {
		return r.through(ctx)
	}
	s := newScope(worker, own, r.overrides)
	if value, err = r.through(context.WithValue(ctx, scopeKey{}, s)); err == nil {
		err = r.fits(value)
	}
	return value, s.end(err)
}

// fits says beforehand what done would find: what cannot be kept must not be committed.
func (r *run) fits(value []byte) error {
	if limit := r.worker.client.opts.MaxMessage; r.keep > 0 && !r.byHand && len(value) > limit {
		return &resultError{fmt.Errorf("%w: the result has %d bytes, want at most %d (Options.MaxMessage)", ErrTooLarge, len(value), limit)}
	}
	return nil
}
