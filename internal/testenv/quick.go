package testenv

import (
	"testing"
	"time"
)

// tries is how often OnceWithin looks.
const tries = 10

// OnceWithin runs round until it takes less than limit, and fails the test if none of ten does. It tells apart two ways to one end, as being told and looking now and then, where
// nothing but their time differs: a busy machine is slow again and again, a defect is slow each time. round returns how long what is measured took.
func OnceWithin(t testing.TB, limit time.Duration, round func(try int) time.Duration) {
	t.Helper()
	least := time.Duration(-1)
	for try := range tries {
		took := round(try)
		if t.Failed() || took < limit {
			return
		}
		if least < 0 || took < least {
			least = took
		}
	}
	t.Errorf("took %v at the least in %d tries, want less than %v", least, tries, limit)
}

// LongEnough runs round with a limit that what is measured sets itself, first at first, then twice as long and so on, until round says that the limit was long enough for this
// machine. It fails the test if a limit of minutes is not.
func LongEnough(t testing.TB, first time.Duration, round func(limit time.Duration) bool) {
	t.Helper()
	limit := first
	for ; limit <= Patience; limit *= 2 {
		if round(limit) || t.Failed() {
			return
		}
	}
	t.Errorf("%v are not long enough", limit/2)
}
