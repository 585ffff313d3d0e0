package testenv

import (
	"bytes"
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

// Log is a log that a test reads while it is written. The zero value is ready.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count says how often text is in it.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }
