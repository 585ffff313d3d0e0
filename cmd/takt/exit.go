package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/workflow"
)

// Exit codes. Everything else is 1.
const (
	exitOK       = 0
	exitFailed   = 1 // something was found, or went wrong
	exitUsage    = 2 // the command line or the configuration is wrong
	exitRefused  = 3 // Takt answered with a ReturnStatus other than 1
	exitNoAnswer = 4 // Redis, the broker or Takt did not answer, or Redis refuses the user or a right
)

// exitError ends the program with code; a nil Err prints nothing more.
type exitError struct {
	Code int
	Err  error
}

func (e *exitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

func (e *exitError) Unwrap() error { return e.Err }

// exitOf gives an error of a package its exit code and, where the error has none, a next step; list is the command that lists what there is. What has an exit code keeps it.
func exitOf(err error, list string) error {
	switch {
	case err == nil, is[*exitError](err):
		return err
	case is[*board.InvalidError](err), is[*workflow.NameError](err), is[*workflow.EventError](err):
		return &exitError{exitUsage, err}
	case errors.Is(err, workflow.ErrNotFinished):
		return &exitError{exitRefused, fmt.Errorf("%w: end it with takt workflow cancel or terminate", err)}
	case errors.Is(err, workflow.ErrNotFound):
		return &exitError{exitRefused, fmt.Errorf("%w: see %s", err, list)}
	case errors.Is(err, workflow.ErrExists):
		return &exitError{exitRefused, fmt.Errorf("%w: see takt workflow schedule show", err)}
	case is[*task.DuplicateError](err), is[*task.StateError](err), is[*board.ClaimedError](err), is[*board.NotOwnerError](err):
		return &exitError{exitRefused, err}
	case is[*task.ReplicasError](err), redis.Away(err), errors.Is(err, board.ErrAway), errors.Is(err, context.DeadlineExceeded):
		return &exitError{exitNoAnswer, err}
	}
	for _, refusal := range []error{
		task.ErrNotFound, task.ErrResultMissing, task.ErrBacklog, task.ErrNoSchedule, task.ErrScheduleExists, task.ErrDeclared,
		board.ErrNotFound, board.ErrUnowned, board.ErrExists, board.ErrClaimLost, board.ErrNothing, lock.ErrNoLock,
	} {
		if errors.Is(err, refusal) {
			return &exitError{exitRefused, err}
		}
	}
	return err
}

// is says whether err is, or wraps, an error of a type.
func is[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

// storeError gives an error of opening the store its exit code: a server that cannot be used, or settings that cannot.
func storeError(err error) error {
	if is[*redis.Error](err) || redis.Away(err) {
		return &exitError{exitNoAnswer, err}
	}
	return &exitError{exitUsage, err}
}
