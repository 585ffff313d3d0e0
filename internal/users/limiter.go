package users

import (
	"sync"
	"time"
)

// Limiter lets limitBurst attempts of a kind through at once, and then one each limitEvery.
type Limiter struct {
	mu   sync.Mutex
	used map[string]time.Time // up to when the attempts of a kind are used up
}

const (
	limitBurst = 10
	limitEvery = 6 * time.Second
	limitKinds = 10_000 // that are remembered; those beyond it count as one
)

// Take takes an attempt of all kinds, or says how long to wait. give returns it. The zero value is ready.
func (l *Limiter) Take(now time.Time, kinds ...string) (give func(), wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used == nil {
		l.used = make(map[string]time.Time)
	}
	if len(l.used) >= limitKinds {
		for kind, until := range l.used {
			if !until.After(now) {
				delete(l.used, kind)
			}
		}
	}
	for i, kind := range kinds {
		if _, known := l.used[kind]; !known && len(l.used) >= limitKinds {
			kinds[i] = "the rest"
		}
		if until := l.used[kinds[i]]; until.After(now) {
			wait = max(wait, until.Sub(now)-(limitBurst-1)*limitEvery)
		}
	}
	if wait > 0 {
		return nil, wait
	}
	add := func(d time.Duration) {
		for _, kind := range kinds {
			from := l.used[kind]
			if from.Before(now) {
				from = now
			}
			l.used[kind] = from.Add(d)
		}
	}
	add(limitEvery)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		add(-limitEvery)
	}, 0
}
