// Package long marks the tests that the gate leaves out.
package long

import "testing"

// Test skips a test under -short, the mode of the gate. why completes "it ...": waits for a lease, kills a process, runs a cluster.
// `make test-all` and the suites that docs/testing.md lists run these tests.
func Test(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("not under -short: it " + why)
	}
}
