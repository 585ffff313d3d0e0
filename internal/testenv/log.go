package testenv

import (
	"os"
	"strings"
	"sync"
	"testing"
)

// Logs says whether tests show the logs of servers and of what they test: TAKT_TEST_LOGS asks for it.
func Logs() bool { return os.Getenv("TAKT_TEST_LOGS") != "" }

// testLog shows what a server says in the log of its test; what it says after the test's end is dropped.
type testLog struct {
	t    testing.TB
	name string

	once sync.Once
	mu   sync.Mutex
	over bool
}

func (l *testLog) Write(p []byte) (int, error) {
	l.once.Do(func() {
		l.t.Cleanup(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.over = true
		})
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.t.Logf("%s: %s", l.name, strings.TrimSpace(string(p)))
	}
	return len(p), nil
}
