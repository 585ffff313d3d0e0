package task_test

import (
	"errors"
	"testing"
	"time"

	"github.com/taktworks/takt/task"
)

// A verdict says the handler's error, or for itself what is to happen.
func TestVerdictTexts(t *testing.T) {
	for want, err := range map[string]error{
		"no ink":                         task.Cancel(errors.New("no ink")),
		"task: cancelled by its handler": task.Cancel(nil),
		"task: to run again after 1m0s":  task.RetryAfter(time.Minute, nil),
		"task: snoozed for 1s":           task.Snooze(time.Second),
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
