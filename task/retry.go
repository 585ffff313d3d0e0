package task

import (
	"cmp"
	"math"
	"math/rand/v2"
	"time"
)

// RetryPolicy says whether and when a failed task runs again. It must be safe for concurrent use.
type RetryPolicy interface {
	// Delay is the time from the failure of attempt (1 for the first run) to the next; false = no more. err is what the handler returned, for
	// errors.Is and errors.As.
	Delay(attempt int, err error) (time.Duration, bool)
}

// NoRetry never runs a task again.
type NoRetry struct{}

// Delay is never.
func (NoRetry) Delay(int, error) (time.Duration, bool) { return 0, false }

// Defaults of Backoff.
const (
	DefaultBackoffBase = 10 * time.Second
	DefaultBackoffMax  = time.Hour
	DefaultRetries     = 5
)

// Backoff runs a task again after Base, 2 Base, 4 Base and so on, at most Max, with jitter. Its zero value is ready.
type Backoff struct {
	Base    time.Duration // before the first retry; 0 = DefaultBackoffBase
	Max     time.Duration // longest delay; 0 = DefaultBackoffMax
	Retries int           // runs after the first; 0 = DefaultRetries, negative = without end
	Exact   bool          // no jitter. With it the delay is drawn from its upper half, so that those who failed together do not come back together
}

// Delay implements RetryPolicy: MaxRetries = retries, so that a task runs at most 1 + Retries times.
func (b Backoff) Delay(attempt int, _ error) (time.Duration, bool) {
	if n := b.retries(); n >= 0 && attempt > n {
		return 0, false
	}
	base, longest := b.Base, b.Max
	if base <= 0 {
		base = DefaultBackoffBase
	}
	if longest <= 0 {
		longest = DefaultBackoffMax
	}
	d := longest
	if f := float64(base) * math.Pow(2, float64(max(attempt, 1)-1)); f < float64(longest) {
		d = time.Duration(f)
	}
	if b.Exact || d < 2 {
		return d, true
	}
	return d/2 + rand.N(d/2), true
}

func (b Backoff) retries() int { return cmp.Or(b.Retries, DefaultRetries) }

// MaxAttempts is 1 + Retries, 0 = without end.
func (b Backoff) MaxAttempts() int { return max(b.retries()+1, 0) }

// MaxAttempts is 1.
func (NoRetry) MaxAttempts() int { return 1 }

// maxAttempts is what a policy says of itself, 0 if it does not.
func maxAttempts(p RetryPolicy) int {
	if m, ok := p.(interface{ MaxAttempts() int }); ok {
		return m.MaxAttempts()
	}
	return 0
}
