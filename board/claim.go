package board

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/lease"
)

const (
	// DefaultTTL is how long a claim on Redis lives when its owner is not heard of.
	DefaultTTL = 30 * time.Second
	// NoTTL is the time to live of claims that end only when they are finished, as those of TaskFlow do. A killed owner keeps its posting for ever.
	NoTTL = driver.NoTTL

	minTTL = 10 * time.Millisecond
	maxTTL = 10 * 365 * 24 * time.Hour

	// MaxOwner is the limit of the name of an owner, in bytes.
	MaxOwner = 512
)

// ClaimOptions are those of Claim and ClaimNext. The zero value is usable.
type ClaimOptions struct {
	// TTL is how long the claim lives without a sign of life; it is extended every third of that. 0 = DefaultTTL. On ZooKeeper claims live with the session (Connect.Session) instead.
	TTL time.Duration

	// ExactOwner makes who the owner's text. By default it is who/host:pid/8 hexadecimal digits, which nobody else has, so that nobody else under the same name finishes this claim.
	// Programs that finish each other's claims by name need it.
	ExactOwner bool

	// Reclaim gives a claim again that the owner already has, and begins its TTL anew; with ExactOwner only. TaskFlow did so before 2.12.
	Reclaim bool

	NoKeepAlive bool // the claim is only extended by Extend, and its context ends when its TTL is over
}

func (o ClaimOptions) validate() (ClaimOptions, error) {
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.TTL != NoTTL && (o.TTL < minTTL || o.TTL > maxTTL) {
		return o, driver.Invalid("TTL", o.TTL.String(), fmt.Sprintf("must be %v to %v, or NoTTL", minTTL, maxTTL))
	}
	if o.Reclaim && !o.ExactOwner {
		return o, driver.Invalid("Reclaim", "true", "must go with ExactOwner: no other owner has a claim already")
	}
	return o, nil
}

// owner is the text that is stored.
func (o ClaimOptions) owner(who string) (string, error) {
	if err := text("who", who, MaxOwner); err != nil {
		return "", err
	}
	if o.ExactOwner {
		return who, nil
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return who + process() + hex.EncodeToString(b[:]), nil
}

// process names this process in the texts of owners.
var process = sync.OnceValue(func() string { return fmt.Sprintf("/%s:%d/", hostname(), os.Getpid()) })

func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

// Claim is a posting that is ours. It is kept alive until it is finished or lost. Its methods are safe for concurrent use.
type Claim struct {
	b       *Board
	posting *Posting
	owner   string
	grant   driver.Grant

	ctx  context.Context
	lose context.CancelCauseFunc
	stop chan struct{} // closed when it need not be kept alive any more
	once sync.Once

	trust     *lease.Lease
	extending *semaphore.Weighted // whole for Extend: no keep-alive with the former TTL may come after it
}

// LostError says that a claim was lost, or may have been: the work on it must stop, for somebody else may have it. It wraps ErrClaimLost.
type LostError struct {
	Ref string
	Err error // why that is not known for certain; nil when the server said that it is not ours
}

func (e *LostError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("board: the claim of posting %s may be lost: %v", e.Ref, e.Err)
	}
	return fmt.Sprintf("board: the claim of posting %s is lost: it expired, or was taken away", e.Ref)
}

func (e *LostError) Unwrap() []error {
	if e.Err == nil {
		return []error{driver.ErrClaimLost}
	}
	return []error{driver.ErrClaimLost, e.Err}
}

// errFinished is the cause with which the context of a claim ends that was finished.
var errFinished = errors.New("board: the claim is finished")

// Claim takes p for who. *ClaimedError: somebody has it, and nothing was changed, also if that is who. ErrNotFound: it is consumed or trashed. ErrAway: unknown, and if it was claimed, then
// until its TTL is over. One round trip on Redis, two on ZooKeeper.
func (b *Board) Claim(ctx context.Context, p *Posting, who string, o ClaimOptions) (*Claim, error) {
	claims, _, err := b.claim(ctx, []*Posting{p}, 1, who, o)
	if err != nil {
		return nil, err
	}
	return claims[0], nil
}

// claim takes the first candidates that are free, at most so many. rest are those that were not tried.
func (b *Board) claim(ctx context.Context, candidates []*Posting, most int, who string, o ClaimOptions) (claims []*Claim, rest []*Posting, err error) {
	if o, err = o.validate(); err != nil {
		return nil, nil, err
	}
	owner, err := o.owner(who)
	if err != nil {
		return nil, nil, err
	}
	sent := time.Now()
	grants, err := b.store.Claim(ctx, driver.Request{Candidates: candidates, Max: most, Owner: owner, TTL: o.TTL, Reclaim: o.Reclaim})
	if err != nil {
		return nil, nil, fmt.Errorf("board: claim: %w", err)
	}
	for _, g := range grants {
		c := &Claim{
			b: b, posting: candidates[g.Index], owner: owner, grant: g,
			stop: make(chan struct{}), extending: semaphore.NewWeighted(extends),
		}
		c.ctx, c.lose = context.WithCancelCause(context.WithoutCancel(ctx))
		if g.Lost != nil {
			o.TTL = NoTTL
		}
		c.trust = lease.New(sent, o.TTL)
		go c.keep(!o.NoKeepAlive)
		claims = append(claims, c)
	}
	if len(grants) == most {
		rest = candidates[grants[len(grants)-1].Index+1:]
	}
	return claims, rest, nil
}

// Posting is what was claimed.
func (c *Claim) Posting() *Posting { return c.posting }

// Owner is the text that is stored as the owner.
func (c *Claim) Owner() string { return c.owner }

// Fence rises from claim to claim of a board. It goes into what is written under the claim: who stores it refuses a number lower than one it saw.
func (c *Claim) Fence() uint64 { return c.grant.Fence }

// Attempt says which claim of this posting it is, from 1. Claims of TaskFlow are not counted.
func (c *Claim) Attempt() int { return c.grant.Attempt }

// Context ends when the claim is finished, is lost or may be; in the last two cases with a *LostError as cause. It has the values of the context that Claim got, but does not end with it. It
// ends before the claim does on the server: what is trusted is counted from before each request, less a tenth for clocks that run apart. A process that was stopped wakes up
// for an instant in which it does not know yet; what it then finishes is refused by the server, and Fence protects the rest.
func (c *Claim) Context() context.Context { return c.ctx }

// Guard returns a context that ends with ctx, and as Context does. cancel must be called.
func (c *Claim) Guard(ctx context.Context) (guarded context.Context, cancel context.CancelFunc) {
	guarded, lose := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(c.ctx, func() { lose(context.Cause(c.ctx)) })
	return guarded, func() {
		unhook()
		lose(nil)
	}
}

// inTime says that neither its time to live nor its session is over, whatever else became of it.
func (c *Claim) inTime() bool {
	select {
	case <-c.grant.Over:
		return false
	default: // also if it is nil
	}
	return c.trust.Valid()
}

// keep extends the claim, and ends its context when it is lost.
func (c *Claim) keep(extend bool) {
	var ask func(context.Context, time.Duration, bool) error
	if extend {
		ask = c.extend
	}
	defer context.AfterFunc(c.b.hub.ctx, func() { c.forfeit(driver.ErrClosed) })()
	if c.grant.Lost != nil {
		select {
		case <-c.ctx.Done():
		case <-c.grant.Lost:
			c.forfeit(nil)
		}
		return
	}
	switch err := c.trust.Keep(c.ctx, ask); {
	case err == nil: // the context has ended
	case !extend || errors.Is(err, lease.ErrGone):
		c.forfeit(nil)
	default:
		c.forfeit(fmt.Errorf("it could not be kept alive in time: %w", err))
	}
}

// forfeit ends the context of a claim that is lost.
func (c *Claim) forfeit(why error) *LostError {
	err := &LostError{Ref: c.posting.Ref, Err: why}
	select {
	case <-c.stop:
	default:
		if !errors.Is(why, driver.ErrClosed) { // that is our own doing
			c.b.log.Warn("board: claim lost", "ref", c.posting.Ref, "owner", c.owner, "err", err)
		}
		c.lose(err)
	}
	return err
}

// Extend gives the claim ttl from now on, which the keep-alive then uses, too. Only the owner can. A *LostError means that it is not ours any more; it also ends the context. After any other error nothing is known, and
// what was trusted before still is. Claims that live with a session are only looked at.
func (c *Claim) Extend(ctx context.Context, ttl time.Duration) error {
	o, err := (ClaimOptions{TTL: ttl}).validate()
	if err != nil {
		return err
	}
	if err := c.extending.Acquire(ctx, extends); err != nil {
		return fmt.Errorf("board: extend %s: %w", c.posting.Ref, context.Cause(ctx))
	}
	defer c.extending.Release(extends)
	sent := time.Now()
	if err := c.b.store.Extend(ctx, c.posting, c.owner, o.TTL, false); errors.Is(err, driver.ErrClaimLost) {
		return c.forfeit(nil)
	} else if err != nil {
		return fmt.Errorf("board: extend %s: %w", c.posting.Ref, err)
	}
	if c.grant.Lost == nil {
		c.trust.Given(sent, o.TTL)
	}
	return nil
}

// extends is more than the keep-alives that can be under way at once.
const extends = 100

// extend is one keep-alive.
func (c *Claim) extend(ctx context.Context, ttl time.Duration, again bool) error {
	if err := c.extending.Acquire(ctx, 1); err != nil {
		return err
	}
	defer c.extending.Release(1)
	if c.trust.TTL() != ttl {
		return errors.New("Extend came first")
	}
	err := c.b.store.Extend(ctx, c.posting, c.owner, ttl, again)
	if errors.Is(err, driver.ErrClaimLost) {
		return lease.ErrGone
	}
	return err
}

// Consume removes the posting: its work is done, whether it succeeded or not. The server refuses it unless the claim is still ours: then the error is a *LostError. After an outage it tries again until
// ctx ends, and knows its own first try, unless the outage was longer than the claim and the posting is gone: then another may have finished it, and the error is a *LostError, too. Finishing twice is an error, too.
func (c *Claim) Consume(ctx context.Context) error {
	return c.finish(ctx, driver.Consume)
}

// Abandon gives the posting back, for others or for a later try. Errors as with Consume.
func (c *Claim) Abandon(ctx context.Context) error {
	return c.finish(ctx, driver.Abandon)
}

// Trash puts the posting aside as unfit: see TrashList and Restore. Errors as with Consume.
func (c *Claim) Trash(ctx context.Context) error { return c.finish(ctx, driver.Trash) }

// ConsumeBatch is Consume of many claims of this board: on Redis in one round trip, on ZooKeeper several at once. The error joins those of the claims that could not be consumed, each a *LostError or what kept the
// server from answering until ctx ended; the others are consumed.
func (b *Board) ConsumeBatch(ctx context.Context, claims []*Claim) error {
	held := make([]driver.Held, len(claims))
	for i, c := range claims {
		held[i] = driver.Held{Posting: c.posting, Owner: c.owner}
	}
	var failed []error
	for i, err := range b.store.Finish(ctx, driver.Consume, held) {
		// Whoever has no answer asks again, as Consume does; the first answer is this one.
		if e := claims[i].finish(ctx, driver.Consume, err); e != nil {
			failed = append(failed, e)
		}
	}
	return errors.Join(failed...)
}

// finish ends the claim. answers are those that the server has given already.
func (c *Claim) finish(ctx context.Context, what driver.Ending, answers ...error) error {
	unknown := false // a try may have worked: when it had failed the claim was still trusted
	var doubt error  // it may have been that try, or else what another did after us
	err := repeat(ctx, func() error {
		var err error
		if len(answers) > 0 {
			err, answers = answers[0], answers[1:]
		} else {
			err = c.b.store.Finish(ctx, what, []driver.Held{{Posting: c.posting, Owner: c.owner}})[0]
		}
		if unknown && (errors.Is(err, driver.ErrNotFound) || what == driver.Abandon && gone(err)) {
			if what == driver.Abandon || c.inTime() { // no other process can have had it
				return nil
			}
			doubt = fmt.Errorf("its time passed during an outage, and it is unknown whether we finished the posting or another: %w", err)
		}
		unknown = unknown || errors.Is(err, driver.ErrAway) && c.inTime() && c.ctx.Err() == nil
		return err
	})
	if err == nil || gone(err) {
		c.end()
	}
	switch {
	case err == nil:
		return nil
	case gone(err):
		return fmt.Errorf("board: %s %s: %w", what, c.posting.Ref, &LostError{Ref: c.posting.Ref, Err: doubt})
	}
	return fmt.Errorf("board: %s %s: %w", what, c.posting.Ref, err)
}

// gone says that a posting is not its former owner's any more.
func gone(err error) bool {
	var other *driver.NotOwnerError
	return errors.Is(err, driver.ErrNotFound) || errors.Is(err, driver.ErrUnowned) || errors.As(err, &other)
}

// end stops the keep-alive.
func (c *Claim) end() {
	c.once.Do(func() { close(c.stop) })
	c.lose(errFinished)
}

// Consume, Abandon and Trash on a board finish a claim by the owner's text alone: one that another process made under an agreed name with ExactOwner, or a stuck one of TaskFlow, whose owner FindOwner tells. They
// are refused unless owner has the posting: ErrNotFound, ErrUnowned, *NotOwnerError.
func (b *Board) Consume(ctx context.Context, p *Posting, owner string) error {
	return b.finish(ctx, driver.Consume, p, owner)
}

// Abandon is described with Consume.
func (b *Board) Abandon(ctx context.Context, p *Posting, owner string) error {
	return b.finish(ctx, driver.Abandon, p, owner)
}

// Trash is described with Consume.
func (b *Board) Trash(ctx context.Context, p *Posting, owner string) error {
	return b.finish(ctx, driver.Trash, p, owner)
}

func (b *Board) finish(ctx context.Context, what driver.Ending, p *Posting, owner string) error {
	if err := text("owner", owner, MaxOwner+256); err != nil {
		return err
	}
	if err := b.store.Finish(ctx, what, []driver.Held{{Posting: p, Owner: owner}})[0]; err != nil {
		return fmt.Errorf("board: %s %s: %w", what, p.Ref, err)
	}
	return nil
}
