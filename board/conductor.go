package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/lifecycle"
)

// Handler works on one posting. ctx ends when the claim is lost, or when the conductor stops and its time to drain is over: it must return then. What it returns decides about the posting:
//
//	nil, ConsumeWith(err)   consumed
//	AbandonWith(err)        given back, for a later try
//	TrashWith(err)          put aside
//	another error           given back (ConductorOptions.ConsumeOnError: consumed, as TaskFlow does)
//	a panic                 put aside
//
// A posting is given back at most MaxAttempts times, then it is put aside. What a handler does may be done again by the next owner, so it must bear that, or pass Claim.Fence on.
type Handler func(ctx context.Context, c *Claim) error

// verdict is an error that decides about the posting.
type verdict struct {
	outcome Outcome
	err     error
}

func (v *verdict) Error() string { return string(v.outcome) + ": " + v.err.Error() }
func (v *verdict) Unwrap() error { return v.err }

func decide(o Outcome, err error) error {
	return &verdict{o, cmp.Or(err, errors.New("without an error"))}
}

// ConsumeWith lets a handler say that the posting is finished although its work failed.
func ConsumeWith(err error) error { return decide(Consumed, err) }

// AbandonWith lets a handler give the posting back.
func AbandonWith(err error) error { return decide(Abandoned, err) }

// TrashWith lets a handler put the posting aside: nobody will be able to do it.
func TrashWith(err error) error { return decide(PutAside, err) }

// Outcome is what became of a posting that a conductor had.
type Outcome string

// Outcomes. Those that TaskFlow has, too, have the names of its events.
const (
	Consumed  Outcome = "job_consumed"
	Abandoned Outcome = "job_abandoned"
	PutAside  Outcome = "job_trashed"
	Lost      Outcome = "claim_lost" // somebody else may have it
	Started   Outcome = "running_start"
)

// ConductorEvent is told to ConductorOptions.Observe.
type ConductorEvent struct {
	Outcome Outcome
	Claim   *Claim
	Err     error         // of the handler, or of the attempt to finish the claim
	Took    time.Duration // of the handler; 0 for Started
}

// ConductorOptions are those of a Conductor. The zero value works on one posting at a time until its context ends.
type ConductorOptions struct {
	Name          string        // of the owner of its claims; "" = host:pid
	MaxConcurrent int           // postings at once; 0 = 1
	TTL           time.Duration // of claims; 0 = DefaultTTL
	MaxDispatches int           // Run ends after as many (exactly); 0 = never

	MaxAttempts         int           // a posting that was claimed as often is put aside; 0 = 25, -1 = never. On a claim of an owner that died, too.
	Backoff, MaxBackoff time.Duration // until a posting that was given back is claimed again by this conductor; doubles with each attempt, with jitter; 0 = 1 s and 5 min
	ConsumeOnError      bool          // consume what failed, as TaskFlow does

	Match   func(*Posting) bool  // leave the others to others; nil = take all
	Observe func(ConductorEvent) // called by the goroutine of the posting; nil = nobody
	Drain   time.Duration        // how long a stop waits for handlers; 0 = 10 s, -1 = not at all
	Log     *slog.Logger         // nil = that of the board
}

const (
	maxConcurrent      = 10_000
	defaultAttempts    = 25
	defaultBackoff     = time.Second
	defaultMaxBackoff  = 5 * time.Minute
	defaultDrain       = 10 * time.Second
	timeToFinish       = 5 * time.Second // after the claim's time, for what is finished while the server is away
	timeToGiveBack     = time.Second     // after a stop, for a claim that is on its way
	maxBackoffsTracked = 100_000
)

// Conductor claims postings and runs a handler on each. See Board.Conductor.
type Conductor struct {
	b       *Board
	handler Handler
	o       ConductorOptions

	mu    sync.Mutex
	later map[string]time.Time // postings that are not to be claimed before
}

// Conductor makes a conductor. The error is an *InvalidError.
func (b *Board) Conductor(handler Handler, o ConductorOptions) (*Conductor, error) {
	o = o.withDefaults(b)
	if handler == nil {
		return nil, driver.Invalid("handler", "nil", "must be a function")
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Conductor{b: b, handler: handler, o: o, later: map[string]time.Time{}}, nil
}

func (o ConductorOptions) withDefaults(b *Board) ConductorOptions {
	o.Name = cmp.Or(o.Name, fmt.Sprintf("%s:%d", hostname(), os.Getpid()))
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, 1)
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, defaultAttempts)
	o.Backoff = cmp.Or(o.Backoff, defaultBackoff)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, max(defaultMaxBackoff, o.Backoff))
	o.Drain = cmp.Or(o.Drain, defaultDrain)
	o.Log = cmp.Or(o.Log, b.log)
	if o.Match == nil {
		o.Match = func(*Posting) bool { return true }
	}
	if o.Observe == nil {
		o.Observe = func(ConductorEvent) {}
	}
	return o
}

func (o ConductorOptions) validate() error {
	if _, err := (ClaimOptions{TTL: o.TTL}).validate(); err != nil {
		return err
	}
	if err := text("Name", o.Name, MaxOwner); err != nil {
		return err
	}
	switch {
	case o.TTL == NoTTL:
		return driver.Invalid("TTL", "NoTTL", "must end: a conductor that dies would keep its postings for ever")
	case o.MaxConcurrent < 1 || o.MaxConcurrent > maxConcurrent:
		return driver.Invalid("MaxConcurrent", fmt.Sprint(o.MaxConcurrent), fmt.Sprintf("must be 1 to %d", maxConcurrent))
	case o.MaxDispatches < 0:
		return driver.Invalid("MaxDispatches", fmt.Sprint(o.MaxDispatches), "must not be negative")
	case o.MaxAttempts < -1:
		return driver.Invalid("MaxAttempts", fmt.Sprint(o.MaxAttempts), "must be at least 1, or -1 for no limit")
	case o.Backoff < 0 || o.MaxBackoff < o.Backoff:
		return driver.Invalid("Backoff", fmt.Sprintf("%v up to %v", o.Backoff, o.MaxBackoff), "must not be negative, and not above MaxBackoff")
	case o.Drain < -1:
		return driver.Invalid("Drain", o.Drain.String(), "must be positive, or -1 to wait for nobody")
	}
	return nil
}

// Run claims and works until ctx ends or MaxDispatches postings were dispatched, and then until the handlers have returned: what still runs after Drain has its context ended and is given back. It returns nil then, or what makes
// further work impossible. Outages it waits out. It may be called again, and several times at once.
func (c *Conductor) Run(ctx context.Context) error {
	release, err := c.register(ctx)
	if err != nil {
		return err
	}
	work, cancelWork := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelWork()
	var running sync.WaitGroup
	err = c.dispatch(ctx, work, &running)
	late := time.AfterFunc(c.o.Drain, cancelWork)
	defer late.Stop()
	running.Wait()
	unregister, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if e := release(unregister); e != nil && !errors.Is(e, driver.ErrClosed) {
		c.o.Log.Warn("board: conductor not taken off the list of entities", "name", c.o.Name, "err", e)
	}
	return err
}

// register makes the conductor known, as TaskFlow's do. Without an answer it goes on unknown.
func (c *Conductor) register(ctx context.Context) (release func(context.Context) error, err error) {
	host := hostname()
	e := Entity{
		Kind: driver.ConductorKind, Name: strings.ReplaceAll(fmt.Sprintf("%s@%s:%d", c.o.Name, host, os.Getpid()), "/", "_"),
		Metadata: map[string]any{"hostname": host, "pid": os.Getpid()},
	}
	err = repeat(ctx, func() error { release, err = c.b.RegisterEntity(ctx, e); return err })
	if errors.Is(err, driver.ErrUnsupported) || err != nil && ctx.Err() != nil {
		return func(context.Context) error { return nil }, nil
	}
	return release, err
}

// dispatch claims, and starts handlers, until ctx ends or there were enough.
func (c *Conductor) dispatch(ctx, work context.Context, running *sync.WaitGroup) error {
	slots := make(chan struct{}, c.o.MaxConcurrent)
	var pause backoff
	for n := 0; c.o.MaxDispatches == 0 || n < c.o.MaxDispatches; {
		most := MaxClaims
		if c.o.MaxDispatches > 0 {
			most = min(most, c.o.MaxDispatches-n)
		}
		free := take(ctx, slots, most)
		if free == 0 {
			return nil
		}
		claims, err := c.claimNext(ctx, free)
		if err == nil {
			pause = 0
			n += len(claims)
			for _, claim := range claims {
				running.Go(func() {
					defer func() { <-slots }()
					c.work(work, claim)
				})
			}
		}
		for range free - len(claims) {
			<-slots
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrNothing):
			if err := c.rest(ctx); err != nil {
				return err
			}
		case errors.Is(err, driver.ErrClosed):
			return err
		default:
			c.o.Log.Warn("board: conductor cannot claim, trying again", "name", c.o.Name, "err", err)
			if !pause.sleep(ctx) {
				return nil
			}
		}
	}
	return nil
}

// take waits for a free slot, and takes all that are free, up to so many; 0 if ctx ended first.
func take(ctx context.Context, slots chan struct{}, most int) (n int) {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n = 1; n < most; n++ {
		select {
		case slots <- struct{}{}:
		default:
			return n
		}
	}
	return n
}

// claimNext claims for the conductor, up to so many postings. A claim that is on its way when ctx ends is waited for, shortly, and given back: else it would be nobody's until its time is over.
func (c *Conductor) claimNext(ctx context.Context, most int) ([]*Claim, error) {
	asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		lifecycle.Sleep(asking, timeToGiveBack)
		cancel()
	})()
	claims, err := c.b.claimNext(asking, c.o.Name, most, ClaimOptions{TTL: c.o.TTL}, c.postponed)
	if err != nil || ctx.Err() == nil {
		return claims, err
	}
	for _, claim := range claims {
		if err := claim.Abandon(asking); err != nil {
			c.o.Log.Warn("board: claim not given back at the stop", "ref", claim.Posting().Ref, "err", err)
			claim.end()
		}
	}
	return nil, context.Cause(ctx)
}

// rest waits until there may be something to claim.
func (c *Conductor) rest(ctx context.Context) error {
	wait := ctx
	if next, ok := c.nextPostponed(); ok {
		var cancel context.CancelFunc
		wait, cancel = context.WithDeadline(ctx, next)
		defer cancel()
	}
	err := c.b.waitUnclaimed(wait, c.postponed)
	if wait.Err() != nil {
		return nil // dispatch looks at ctx
	}
	return err
}

// postponed says that a posting is to be left for now.
func (c *Conductor) postponed(p *Posting) bool {
	if !c.o.Match(p) {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	until, ok := c.later[p.Ref]
	if ok && !time.Now().Before(until) {
		delete(c.later, p.Ref)
		return false
	}
	return ok
}

// nextPostponed is when the next posting need not be left any more. Those whose time has come are forgotten: another may have them, or they are gone, and then nobody asks for them again.
func (c *Conductor) nextPostponed() (next time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for ref, until := range c.later {
		if !now.Before(until) {
			delete(c.later, ref)
		} else if !ok || until.Before(next) {
			next, ok = until, true
		}
	}
	return next, ok
}

// postpone leaves a posting alone for a while, the longer the more often it was tried.
func (c *Conductor) postpone(p *Posting, attempt int) {
	d := c.o.Backoff
	for i := 1; i < attempt && d < c.o.MaxBackoff; i++ {
		d *= 2
	}
	d = min(d, c.o.MaxBackoff)
	c.mu.Lock()
	defer c.mu.Unlock()
	if d > 0 && len(c.later) < maxBackoffsTracked {
		c.later[p.Ref] = time.Now().Add(d/2 + rand.N(d/2+1))
	}
}

// work runs the handler on one claim and finishes it.
func (c *Conductor) work(ctx context.Context, claim *Claim) {
	if c.o.MaxAttempts > 0 && claim.Attempt() > c.o.MaxAttempts {
		c.finish(claim, PutAside, fmt.Errorf("board: posting %s was claimed %d times and never finished", claim.Posting().Ref, claim.Attempt()-1), 0)
		return
	}
	c.o.Observe(ConductorEvent{Outcome: Started, Claim: claim})
	begin := time.Now()
	outcome, err := c.call(ctx, claim)
	took := time.Since(begin)
	if outcome == Abandoned && c.o.MaxAttempts > 0 && claim.Attempt() >= c.o.MaxAttempts && ctx.Err() == nil {
		outcome = PutAside
	}
	c.finish(claim, outcome, err, took)
}

// call runs the handler.
func (c *Conductor) call(ctx context.Context, claim *Claim) (outcome Outcome, err error) {
	guarded, cancel := claim.Guard(ctx)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			c.o.Log.Error("board: handler panicked", "ref", claim.Posting().Ref, "panic", r, "stack", string(debug.Stack()))
			outcome, err = PutAside, fmt.Errorf("board: handler panicked: %v", r)
		}
	}()
	err = c.handler(guarded, claim)
	var v *verdict
	switch {
	case err == nil:
		return Consumed, nil
	case errors.As(err, &v):
		return v.outcome, v.err
	case ctx.Err() != nil, !c.o.ConsumeOnError:
		return Abandoned, err
	}
	return Consumed, err
}

// finish does what was decided.
func (c *Conductor) finish(claim *Claim, outcome Outcome, err error, took time.Duration) {
	if outcome == Abandoned {
		c.postpone(claim.Posting(), claim.Attempt())
	}
	do := map[Outcome]func(context.Context) error{Consumed: claim.Consume, Abandoned: claim.Abandon, PutAside: claim.Trash}[outcome]
	ctx, cancel := context.WithTimeout(context.Background(), max(c.o.TTL, 0)+timeToFinish)
	defer cancel()
	e := do(ctx)
	if e != nil {
		c.o.Log.Warn("board: posting not finished, others will work on it again", "ref", claim.Posting().Ref, "outcome", outcome, "err", e)
		claim.end() // else it would be kept alive although nobody works on it
		outcome, err = Lost, errors.Join(e, err)
	}
	c.o.Observe(ConductorEvent{Outcome: outcome, Claim: claim, Err: err, Took: took})
}
