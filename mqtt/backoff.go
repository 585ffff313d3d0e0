package mqtt

import (
	"math/rand/v2"
	"time"
)

const (
	backoffFirst = 50 * time.Millisecond
	backoffLast  = 30 * time.Second
	// stableAfter is how long a connection must have lived to count as a success. A broker that
	// accepts and closes at once would otherwise be called twenty times a second.
	stableAfter = time.Second
	// backoffUp is the longest wait while the broker has answered within the last minute: it is there, and the link flaps.
	backoffUp   = 5 * time.Second
	recentlyFor = time.Minute
	// calmAfter is the same where someone else may be using our client id: coming back at once
	// would only throw him out in turn.
	calmAfter = time.Minute
)

// ending is how a connection ended.
type ending int

const (
	broken ending = iota // network, time-out, or a broker that gave a reason
	closed               // the broker closed it without a word, which is also how mosquitto 2.0 takes a session over
	taken                // the broker said: taken over
)

// backoff is the waiting time between connection attempts: 50 ms, doubled up to 30 s, or to 5 s if there was
// a connection within the last minute, each shortened by up to half at random, so that a fleet does not come back in one instant.
type backoff struct {
	failures int
	up       time.Time // when a connection was there last; zero: never
}

// ended notes that a connection which was up for lived has ended.
func (b *backoff) ended(lived time.Duration, how ending) {
	b.up = time.Now()
	switch {
	case lived >= calmAfter:
		b.failures = 0
	case how == taken:
		b.failures = max(b.failures, 5) // 1.6 s
	case how == closed:
		b.failures = min(b.failures, 6) // 3.2 s
	case lived >= stableAfter:
		b.failures = 0
	}
}

// next is how long to wait before the next attempt.
func (b *backoff) next() time.Duration {
	d := backoffLast
	if b.failures < 10 {
		d = min(backoffFirst<<b.failures, backoffLast)
	}
	if !b.up.IsZero() && time.Since(b.up) < recentlyFor {
		d = min(d, backoffUp)
	}
	b.failures++
	return d/2 + rand.N(d/2)
}
