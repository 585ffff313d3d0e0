package lock

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

const (
	defaultTTL = 30 * time.Second
	minTTL     = 100 * time.Millisecond
	maxLimit   = 1_000_000_000
)

// kind is the word for a lock in scripts.
type kind string

const (
	kindMutex kind = "mutex"
	kindWrite kind = "write"
	kindRead  kind = "read"
	kindConc  kind = "conc"
	kindRate  kind = "rate"
)

// families are the beginnings of the keys.
var families = map[kind]string{
	kindMutex: "lock:mutex:", kindWrite: "lock:rw:", kindRead: "lock:rw:", kindConc: "limiter:conc:", kindRate: "limiter:rate:",
}

// order in which a list is taken: what costs quota last.
var order = map[kind]int{kindMutex: 0, kindWrite: 0, kindRead: 0, kindConc: 1, kindRate: 2}

// Spec declares one lock or limiter; it holds nothing. It is made by Mutex, Read, Write and by package limit, never changes, and
// may be used by many at once. A mistake in it is told by Validate and by every use.
type Spec struct {
	kind   kind
	typ    ObjectType
	object string // Object.name
	ttl    time.Duration
	limit  int
	window time.Duration
	items  int
	err    error
}

// SpecOption changes a lock or limiter that is held for some time.
type SpecOption func(*Spec)

// TTL is how long a lock outlives a holder that died: it is renewed every third of it. At least 100 ms; 30 s without it.
func TTL(d time.Duration) SpecOption { return func(s *Spec) { s.ttl = d } }

// Mutex is held by one owner at a time. Key: lock:mutex:{type}:{key}[:{extra}...].
func Mutex(o Object, opts ...SpecOption) Spec { return held(kindMutex, o, opts) }

// Write is the writing side of a reader-writer lock: held by one owner, with no reader. Key: lock:rw:{type}:{key}[:{extra}...].
func Write(o Object, opts ...SpecOption) Spec { return held(kindWrite, o, opts) }

// Read is the reading side of the lock that Write names: held by any number of owners, with no writer. A writer that waits
// keeps new readers out.
func Read(o Object, opts ...SpecOption) Spec { return held(kindRead, o, opts) }

// Slots is what limit.Concurrency makes: at most n owners at a time; 0 = no limit.
func Slots(o Object, n int, opts ...SpecOption) Spec {
	s := held(kindConc, o, opts)
	s.limit = n
	if n < 0 || n > maxLimit {
		s.fail("limit", strconv.Itoa(n), fmt.Sprintf("must be 0 (no limit) to %d", maxLimit))
	}
	return s
}

// Quota is what limit.Rate makes: at most limit items in any window, of which every use takes items. limit or window 0 = no limit.
func Quota(o Object, limit int, window time.Duration, items int) Spec {
	s := declare(kindRate, o)
	s.limit, s.window, s.items = limit, window, items
	switch {
	case limit < 0 || limit > maxLimit:
		s.fail("limit", strconv.Itoa(limit), fmt.Sprintf("must be 0 (no limit) to %d", maxLimit))
	case window < 0 || window > 0 && window < time.Millisecond:
		s.fail("window", window.String(), "must be 0 (no limit), or at least 1ms")
	case items < 1:
		s.fail("items", strconv.Itoa(items), "must be at least 1")
	case !s.off() && items > limit:
		s.fail("items", strconv.Itoa(items), fmt.Sprintf("must be at most the limit %d: it could never be granted", limit))
	}
	return s
}

func declare(k kind, o Object) Spec {
	name, err := o.name()
	return Spec{kind: k, typ: o.Type, object: name, items: 1, err: err}
}

func held(k kind, o Object, opts []SpecOption) Spec {
	s := declare(k, o)
	s.ttl = defaultTTL
	for _, opt := range opts {
		opt(&s)
	}
	if s.ttl < minTTL {
		s.fail("TTL", s.ttl.String(), "must be at least "+minTTL.String())
	}
	return s
}

func (s *Spec) fail(field, value, rule string) {
	if s.err == nil {
		s.err = &SpecError{field, value, rule}
	}
}

// errNoSpec is the zero value's.
var errNoSpec = errors.New("lock: the zero Spec is no lock: make one with Mutex, Read, Write, or with package limit")

// Validate is nil if the lock can be taken, else a *SpecError that names field, value and rule. Whether the object's type is registered is
// known to the Locker alone.
func (s Spec) Validate() error {
	if s.kind == "" {
		return errNoSpec
	}
	return s.err
}

// Key is the Redis key under a prefix, as the peers' page has it for parts without % and colon.
func (s Spec) Key(prefix string) string { return prefix + families[s.kind] + s.object }

// Limiter says whether this is a limiter, which a run by hand skips, and not a lock, which it takes.
func (s Spec) Limiter() bool { return s.kind == kindConc || s.kind == kindRate }

// off is a limiter without a limit: always granted, never stored.
func (s Spec) off() bool {
	return s.kind == kindConc && s.limit == 0 || s.kind == kindRate && (s.limit == 0 || s.window == 0)
}

// String is for people: "mutex task:MyTask", "rate job:7, 10 per 1m0s".
func (s Spec) String() string {
	switch {
	case s.kind == "":
		return "no lock"
	case s.err != nil:
		return fmt.Sprintf("%s %s (invalid: %v)", s.kind, s.object, s.err)
	case s.off():
		return fmt.Sprintf("%s %s, no limit", s.words(), s.object)
	case s.kind == kindConc:
		return fmt.Sprintf("%s %s, %d at a time", s.words(), s.object, s.limit)
	case s.kind == kindRate && s.items > 1:
		return fmt.Sprintf("%s %s, %d per %v, %d at once", s.words(), s.object, s.limit, s.window, s.items)
	case s.kind == kindRate:
		return fmt.Sprintf("%s %s, %d per %v", s.words(), s.object, s.limit, s.window)
	}
	return fmt.Sprintf("%s %s", s.words(), s.object)
}

func (s Spec) words() string {
	switch s.kind {
	case kindConc:
		return "concurrency"
	case kindWrite, kindRead:
		return string(s.kind) + " lock"
	}
	return string(s.kind)
}
