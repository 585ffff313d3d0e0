package limit

import "github.com/taktworks/takt/lock"

// Concurrency lets at most n owners have o at a time; 0 = any number. The slot of one that died is free again after its time to live (lock.TTL, 30 s).
// An owner that has a slot and takes it again has one, for longer; releasing it once frees it. Waiters are served in the order they came, as
// many as there are free slots.
//
// When n is lowered, those that have a slot keep it. The key, limiter:conc:{type}:{key}[:{extra}...], is a sorted set of owners by the
// millisecond their slot ends, as the Python peers have it; it goes with its last owner, at the latest an hour after the last slot ended.
func Concurrency(o lock.Object, n int, opts ...lock.SpecOption) lock.Spec {
	return lock.Slots(o, n, opts...)
}
