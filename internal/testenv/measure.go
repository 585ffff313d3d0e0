package testenv

import "testing"

// Measures skips a test of memory or cost with the race detector, which changes both. what completes "it measures ...".
func Measures(t testing.TB, what string) {
	t.Helper()
	if RaceDetector {
		t.Skip("not with -race: it measures " + what)
	}
}
