package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/task/internal/wire"
)

// Causes with which a handler's context ends, see context.Cause.
var (
	// ErrTimeout: the run took longer than its Timeout, or than its deadline. The run has failed.
	ErrTimeout = errors.New("task: the run took longer than it may")
	// ErrCancelled: somebody asked for the task's end. It ends as cancelled, whatever the handler returns but success.
	ErrCancelled = errors.New("task: cancelled")
	// ErrLost: this worker was, or may have been, declared dead. What the run returns is discarded, another worker runs the task.
	ErrLost = stream.ErrLost
	// ErrStopped: the worker stops, and its time to drain is over. The task is handed back and runs again; it is not a failure.
	ErrStopped = stream.ErrStopped
)

var (
	// ErrResultMissing: the task has not ended, or its result has expired, or there never was such a task.
	ErrResultMissing = errors.New("task: result is missing or has expired")
	// ErrNotKept: tasks of this type leave no result to wait for. Define the type with a result, or submit with Keep.
	ErrNotKept = errors.New("task: no result is kept of this task; give its type a result, or submit it with task.Keep")
	// ErrUnknownTask: a worker has no handler for the name. The task waits for one that has, and is dead after a while.
	ErrUnknownTask = errors.New("task: no handler for this name")
	// ErrLayout: a struct was written for another version of its type: it has a member that the type lacks, and lacks a field that the type has; or it came by position where its type
	// travels by name, or the other way round (Positional); or there are more arguments than the type takes. A task waits for a worker that knows it, and is dead after a while.
	ErrLayout = errors.New("task: a value of another version of its type")
	// ErrNotFound: no task of that id waits, runs, has a result or is dead.
	ErrNotFound = errors.New("task: no such task")
	// ErrTooLarge: the message is larger than Options.MaxMessage.
	ErrTooLarge = errors.New("task: message is too large")
	// ErrBacklog: the queue holds more than Options.MaxBacklog tasks. Submit later, or elsewhere.
	ErrBacklog = errors.New("task: the queue is full")
	// ErrExited: the handler ended its goroutine instead of returning. The run has failed.
	ErrExited = errors.New("task: the handler called runtime.Goexit, as the FailNow of a test does")
)

// DuplicateError says that a task with the same unique key exists already; it is the one to wait for.
type DuplicateError struct{ Key, ID string }

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("task: task %s with the unique key %q has not ended yet", e.ID, e.Key)
}

// Cancel wraps the error of a handler that no retry can mend: the task is dead at once, whatever its retry policy says.
func Cancel(err error) error { return &verdict{err: err, final: true} }

// RetryAfter wraps the error of a handler that knows when a retry may help: the task runs again after d, if its retry policy allows one more.
func RetryAfter(d time.Duration, err error) error {
	return &verdict{err: err, delay: max(d, 0), after: true}
}

// Snooze is returned by a handler that has not begun: the task runs again after d, and this was no attempt.
func Snooze(d time.Duration) error { return &verdict{delay: max(d, 0), snooze: true} }

// verdict is an error of a handler that says what to do.
type verdict struct {
	err                  error
	delay                time.Duration
	final, after, snooze bool
}

func (v *verdict) Error() string {
	switch {
	case v.err != nil:
		return v.err.Error()
	case v.snooze:
		return fmt.Sprintf("task: snoozed for %v", v.delay)
	case v.after:
		return fmt.Sprintf("task: to run again after %v", v.delay)
	}
	return "task: cancelled by its handler"
}

func (v *verdict) Unwrap() error { return v.err }

// unfit makes an error of a codec one for callers.
func unfit(err error) error {
	if f, ok := errors.AsType[*wire.FormatError](err); ok && f.Layout {
		return fmt.Errorf("%w: %w", ErrLayout, err)
	}
	return err
}

// argumentError: the message's arguments do not fit the handler's type. No repetition mends it.
type argumentError struct{ err error }

func (e *argumentError) Error() string { return "task: arguments: " + e.err.Error() }
func (e *argumentError) Unwrap() error { return e.err }

// resultError: what the handler returned cannot be written down, which is a failure of the task.
type resultError struct{ err error }

func (e *resultError) Error() string { return "task: result: " + e.err.Error() }
func (e *resultError) Unwrap() error { return e.err }

// PanicError is the error of a handler that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Error is how a task ended that did not succeed.
type Error struct {
	Type      string `json:"type"` // Go type of the handler's error, or one of "cancelled", "deliveries", "unknown", "layout", "undecodable"
	Message   string `json:"message"`
	Traceback string `json:"traceback,omitempty"` // of a panic
}

func (e *Error) Error() string { return "[" + e.Type + "] " + e.Message }
