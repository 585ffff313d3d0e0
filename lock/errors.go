package lock

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrReleased is the cause with which Held.Context ends when the locks are released.
var ErrReleased = errors.New("lock: released")

// ErrNoLock is returned by Break for a key under which nothing is held, used or waited for.
var ErrNoLock = errors.New("lock: no such lock")

// HeldError says that a lock cannot be had now; nothing was taken. Try again after RetryAfter, or when the waiter is woken.
type HeldError struct {
	Spec Spec   // the lock that refused
	Key  string // its key

	// Owner has the lock: the writer, one reader, or the owner whose slot ends first. "" when it is free but kept for waiters who came before, and for
	// rates. Readers of peers that give no name are "reader without lease".
	Owner string
	Until time.Time // when Owner's lease ends unless renewed, by the clock here; zero = unknown

	// RetryAfter is when to try again, from now: for rates exact as long as nobody else comes first, else when Owner's lease ends, or when the
	// waiter whose turn it is loses it. 0 = unknown.
	RetryAfter time.Duration
	Ahead      int // waiters in front

	// Woken names waiters whose turn was found to have come, as Held.Release does: their holder let its lease end, or the waiter before
	// them did not come.
	Woken []string
}

func (e *HeldError) Error() string {
	var b strings.Builder
	b.WriteString("lock: ")
	b.WriteString(e.Key)
	switch {
	case e.Spec.kind == kindRate:
		b.WriteString(" has no quota left")
	case e.Owner == "":
		b.WriteString(" is kept for others who wait")
	default:
		b.WriteString(" is held by " + e.Owner)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, ", try again in %v", e.RetryAfter.Round(time.Millisecond))
	}
	return b.String()
}

// LostError says that a lock was lost, or may have been: the work under it must stop, for somebody else may have it.
type LostError struct {
	Key string
	Err error // why it could not be renewed in time; nil when Redis said that it is not the owner's any more
}

func (e *LostError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("lock: %s may be lost, it could not be renewed in time: %v", e.Key, e.Err)
	}
	return fmt.Sprintf("lock: %s is lost: it expired, or was broken or deleted", e.Key)
}

func (e *LostError) Unwrap() error { return e.Err }

// TypeError is a key that holds something else than a lock; nothing was changed. An operator looks what it is, and deletes it.
type TypeError struct{ Key, Want, Have string }

func (e *TypeError) Error() string {
	return fmt.Sprintf("lock: key %s holds a %s (WRONGTYPE), a %s is expected: look what it is, and delete it", e.Key, e.Have, e.Want)
}

// SpecError is a mistake in the declaration of a lock, or in a call: Value of Field breaks Rule. No repetition can mend it.
type SpecError struct{ Field, Value, Rule string }

func (e *SpecError) Error() string { return fmt.Sprintf("lock: %s %s: %s", e.Field, e.Value, e.Rule) }

// UnknownTypeError is an object type that nobody registered.
type UnknownTypeError struct {
	Type       ObjectType
	Registered []ObjectType // in order
}

func (e *UnknownTypeError) Error() string {
	return fmt.Sprintf("lock: Object.Type %q: unknown; registered are %v: add it with Types.Add", string(e.Type), e.Registered)
}
