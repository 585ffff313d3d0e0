package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/taktworks/takt/board/driver"
)

const (
	// Candidates tried in one round trip: as many as lately were taken by others before us, and some more.
	minCandidates, maxCandidates = 2, 64
	// The number falls slowly, by a part in so many with each try, and is counted in fine steps for that.
	decay, fine = 64, 256
	// A line is read again when something was posted since, but not at once, and in any case after a while: what came back meanwhile, given up or expired, waits as long.
	soonStale, stale = 50 * time.Millisecond, time.Second
	// No more than one part in so many of the time goes into reading lines.
	soonShare, share = 10, 20
)

// line is the unclaimed postings in their order, as they were when they were read, less those that were tried. All who claim from one Board share it.
type line struct {
	mu      sync.Mutex
	waiting []*Posting
	back    []*Posting    // taken and given back, all of them before those in waiting
	width   int           // candidates to try, times fine
	newest  int64         // driver.Grant.Newest of the first claim since the reading
	grown   bool          // something was posted since
	reads   int           // how often it was read
	read    time.Time     // when the reading began
	took    time.Duration // the reading
	reading sync.Mutex    // one reads, the others wait and share
	lent    int           // candidates that are being tried now, most of which will come back
	settled chan struct{} // closed when some of these were; nil = nobody waits for that
}

// take removes the first postings of a line that is still good, as one is for those who began before it was read, however slow they are. read is for giveBack.
func (l *line) take(began time.Time, most int) (taken []*Posting, read int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	age := time.Since(l.read)
	if l.read.Before(began) && (age > max(stale, share*l.took) || l.grown && age > max(soonStale, soonShare*l.took)) {
		return nil, 0
	}
	n := max(l.width/fine, minCandidates) + most - 1
	back := min(n, len(l.back))
	more := min(n-back, len(l.waiting))
	taken = slices.Concat(l.back[:back], l.waiting[:more])
	l.back, l.waiting = l.back[back:], l.waiting[more:]
	l.lent += len(taken)
	return taken, l.reads
}

// await waits, if the line is empty, until candidates come back that others try. more is false if there are none.
func (l *line) await(ctx context.Context) (more bool, err error) {
	l.mu.Lock()
	if there := len(l.waiting)+len(l.back) > 0; there || l.lent == 0 {
		l.mu.Unlock()
		return there, nil
	}
	if l.settled == nil {
		l.settled = make(chan struct{})
	}
	settled := l.settled
	l.mu.Unlock()
	select {
	case <-settled:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// learn notes how many candidates had to be tried for a claim, and which number came with it, 0 for none.
func (l *line) learn(needed int, newest int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.width = min(max(2*needed*fine, l.width-l.width/decay), maxCandidates*fine)
	if newest == 0 {
		return
	}
	l.newest = cmp.Or(l.newest, newest)
	l.grown = l.grown || newest != l.newest
}

// giveBack ends the loan of n candidates, and puts rest back in front, which were not tried, and keeps it. A line that was read since they were taken has them in their places already.
func (l *line) giveBack(n int, rest []*Posting, read int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lent -= n
	if l.settled != nil {
		close(l.settled)
		l.settled = nil
	}
	if len(rest) == 0 || read != l.reads {
		return
	}
	if len(l.back) > 0 { // others have given back before
		rest = slices.SortedFunc(slices.Values(slices.Concat(rest, l.back)), driver.Compare)
	}
	l.back = rest
}

// refill reads the line, unless somebody began to do so after since.
func (l *line) refill(ctx context.Context, b *Board, since time.Time) error {
	l.reading.Lock()
	defer l.reading.Unlock()
	l.mu.Lock()
	current := !l.read.Before(since)
	l.mu.Unlock()
	if current {
		return nil
	}
	begin := time.Now()
	rows, err := b.List(ctx, ListOptions{OnlyUnclaimed: true})
	if err != nil {
		return err
	}
	waiting := make([]*Posting, len(rows))
	for i := range rows {
		waiting[i] = rows[i].Posting
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	l.waiting, l.back, l.read, l.took, l.newest, l.grown = waiting, nil, begin, time.Since(begin), 0, false
	return nil
}

// MaxClaims is how many claims ClaimBatch takes at once.
const MaxClaims = 500

// ClaimNext takes the first unclaimed posting for who: of the highest priority, then the oldest. ErrNothing: none is unclaimed, see WaitUnclaimed. The order is that of a listing: new postings count after 50 ms,
// what came back after a second, on large boards later. One round trip on Redis, and now and then a listing.
func (b *Board) ClaimNext(ctx context.Context, who string, o ClaimOptions) (*Claim, error) {
	claims, err := b.claimNext(ctx, who, 1, o, nil)
	if err != nil {
		return nil, err
	}
	return claims[0], nil
}

// ClaimBatch is ClaimNext of up to n postings, 1 to MaxClaims, in one round trip on Redis: for work that takes no longer than the way to the server. It does not wait for as many: fewer are claimed although there are more, when others
// claim, too. What is claimed is nobody else's meanwhile, so a batch should be done well within its TTL.
func (b *Board) ClaimBatch(ctx context.Context, who string, n int, o ClaimOptions) ([]*Claim, error) {
	if n < 1 || n > MaxClaims {
		return nil, driver.Invalid("n", strconv.Itoa(n), fmt.Sprintf("must be 1 to %d", MaxClaims))
	}
	return b.claimNext(ctx, who, n, o, nil)
}

// claimNext takes the first unclaimed postings that skip, if there is one, lets through.
func (b *Board) claimNext(ctx context.Context, who string, most int, o ClaimOptions, skip func(*Posting) bool) ([]*Claim, error) {
	begin := time.Now()
	var skipped []*Posting
	from := 0 // the reading that they are of
	defer func() { b.line.giveBack(0, skipped, from) }()
	for refilled := false; ; {
		taken, read := b.line.take(begin, most)
		if len(taken) == 0 {
			if refilled {
				more, err := b.line.await(ctx)
				if err != nil {
					return nil, fmt.Errorf("board: claim: %w", err)
				}
				if !more {
					return nil, ErrNothing
				}
				continue
			}
			if err := b.line.refill(ctx, b, begin); err != nil {
				return nil, err
			}
			refilled = true
			continue
		}
		if read != from {
			from, skipped = read, nil
		}
		lent := len(taken)
		if skip != nil {
			taken = slices.DeleteFunc(taken, func(p *Posting) bool {
				if skip(p) {
					skipped = append(skipped, p)
					return true
				}
				return false
			})
			b.line.giveBack(lent-len(taken), nil, read)
			if lent = len(taken); lent == 0 {
				continue
			}
		}
		claims, rest, err := b.claim(ctx, taken, most, who, o)
		var claimed *driver.ClaimedError
		none := errors.As(err, &claimed) || errors.Is(err, driver.ErrNotFound)
		switch {
		case err == nil:
			tried := len(taken) - len(rest)
			b.line.learn((tried+len(claims)-1)/len(claims), claims[0].grant.Newest)
		case none:
			b.line.learn(len(taken), 0)
		default:
			rest = taken
		}
		b.line.giveBack(lent, rest, read)
		if !none {
			return claims, err
		}
	}
}
