package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Missed says what happens to slots that passed while nobody fired them.
type Missed int

const (
	RunOnce Missed = iota // the latest of them fires, whatever its age
	Skip                  // the latest of them fires if it is at most Grace old
	RunAll                // all of them fire, oldest first, up to a maximum; beyond it the oldest are dropped
)

// Grace is how late a slot may be and still fire under Skip: more than another process needs to take over.
const Grace = time.Minute

const (
	defaultRunAll = 100
	maxRunAll     = 10_000
)

// Due returns the slots to fire at now when the last one fired, or was dropped, was last, oldest first, and the next slot to wait for.
// For an entry that never fired, last is the time of its registration. After firing, the slot to remember is the last of
// slots; where slots is empty, last stays.
//
// max is for RunAll: the most slots that fire at once; 0 or less is 100, more than 10,000 is 10,000. Count says how many were
// dropped. next is after both last and now, so that a clock set back fires nothing twice. ok is false when there is no next
// slot: once slots are fired, the entry is finished.
//
// The work is bounded: it grows with max and the logarithm of now - last, not with the number of slots missed.
func Due(s Schedule, last, now time.Time, policy Missed, max int) (slots []time.Time, next time.Time, ok bool) {
	next, ok = s.Next(later(last, now))
	switch policy {
	case RunAll:
		slots = latest(s, last, now, runAll(max))
	case Skip:
		slots = latest(s, later(last, now.Add(-Grace-1)), now, 1)
	default:
		slots = latest(s, last, now, 1)
	}
	return slots, next, ok
}

func runAll(max int) int {
	if max < 1 {
		return defaultRunAll
	}
	return min(max, maxRunAll)
}

// Count returns how many slots lie after the one time and up to the other, but no more than limit; it looks at each.
func Count(s Schedule, after, until time.Time, limit int) int {
	n := 0
	for ; n < limit; n++ {
		slot, ok := s.Next(after)
		if !ok || slot.After(until) {
			break
		}
		after = slot
	}
	return n
}

// latest returns the last n slots after the one time and up to the other, oldest first.
func latest(s Schedule, after, until time.Time, n int) []time.Time {
	var slots []time.Time
	gap := time.Second // to the slot before, as far as we can tell
	for len(slots) < n {
		slot, ok := before(s, after, until, gap)
		if !ok {
			break
		}
		if len(slots) > 0 {
			gap = slots[len(slots)-1].Sub(slot)
		}
		slots = append(slots, slot)
		until = slot.Add(-1)
	}
	slices.Reverse(slots)
	return slots
}

// before returns the last slot after the one time and up to the other. It steps back in ever longer steps, the first
// being a guess, until a slot lies ahead, and then halves what is between that slot and the end.
func before(s Schedule, after, until time.Time, step time.Duration) (slot time.Time, ok bool) {
	for {
		from := until.Add(-step)
		if from.Before(after) || step < 0 { // a Duration ends after 292 years
			from = after
		}
		if slot, ok = s.Next(from); ok && !slot.After(until) {
			break
		}
		if !from.After(after) {
			return time.Time{}, false
		}
		step *= 2
		until = from
	}
	for {
		next, ok := s.Next(slot)
		if !ok || next.After(until) {
			return slot, true
		}
		slot = next
		middle := slot.Add(until.Sub(slot) / 2)
		if next, ok := s.Next(middle); ok && !next.After(until) {
			slot = next
		} else {
			until = middle
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Jitter returns the time at which to fire a slot: up to max later, and always the same for the same slot and entry, so that two
// processes agree on it. It spreads entries that are due at one time, such as midnight. max of 0 or less returns the slot. The slot
// remains the name of the firing; keep max shorter than the time between slots.
func Jitter(slot time.Time, entry string, max time.Duration) time.Time {
	if max <= 0 {
		return slot
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s@%d.%09d", entry, slot.Unix(), slot.Nanosecond()))
	share, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:]), uint64(max)+1)
	return slot.Add(time.Duration(share))
}
