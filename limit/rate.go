package limit

import (
	"time"

	"github.com/taktworks/takt/lock"
)

// RateOption changes a rate.
type RateOption func(*rate)

type rate struct{ items int }

// Items is how much of the limit one grant takes; 1 without it. More than the limit is refused at validation, for it could never be granted.
func Items(n int) RateOption { return func(r *rate) { r.items = n } }

// Rate lets at most limit items through in any interval as long as window, wherever it begins; limit or window 0 = any number. A burst up to
// the limit passes at once. Refusals say when to come again (lock.HeldError.RetryAfter). What was granted stays used, also after the release;
// it is given back by Held.Refund, and when a later lock of the same list refuses.
//
// It is an exact log and not a token bucket, which lets nearly twice the limit through in a window that begins with a full bucket. Up to a limit of
// 1024 each grant is one cell with its microsecond, so that quota comes back exactly one window after it was used. Above, a window has 1024 cells, a
// grant counts as made at the end of its cell, and quota comes back up to window/1024 late, never early. So the memory is at most that of
// min(limit, 1024)+1 cells, some 30 bytes each, and goes a window after the last grant; a grant costs the same whatever the limit.
//
// When the server's clock is set back, quota comes back as much later, but at most a window. The key is
// limiter:rate:{type}:{key}[:{extra}...], a hash; those of Python peers have a number of the window behind, so that the two count apart.
func Rate(o lock.Object, limit int, window time.Duration, opts ...RateOption) lock.Spec {
	r := rate{items: 1}
	for _, opt := range opts {
		opt(&r)
	}
	return lock.Quota(o, limit, window, r.items)
}
