package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/task"
)

// replicasFlags are those of commands that write what a failover must not undo.
type replicasFlags struct {
	RedisWait       int           `help:"Succeed only when so many replicas of Redis have it; 0 = the master is enough." default:"0" placeholder:"N"`
	RedisWaitDisk   bool          `help:"They, and the master, must have it in their append-only files, not in memory alone: Valkey, or Redis 7.2 or later."`
	RedisWaitWithin time.Duration `help:"How long they may take. Then it fails with exit status 4, though it is done; repeated, it waits again." default:"1s" placeholder:"DURATION"`
}

// check names the flag and the rule.
func (f replicasFlags) check() error {
	var errs []error
	if f.RedisWait < 0 {
		errs = append(errs, fmt.Errorf("--redis-wait is %d: must be 0 (the master is enough) or more", f.RedisWait))
	}
	if f.RedisWaitWithin < time.Millisecond {
		errs = append(errs, fmt.Errorf("--redis-wait-within is %v: must be at least 1ms", f.RedisWaitWithin))
	}
	return errors.Join(errs...)
}

func (f replicasFlags) task() (task.Options, error) {
	if err := f.check(); err != nil {
		return task.Options{}, &exitError{exitUsage, err}
	}
	return task.Options{Replicas: f.RedisWait, WaitForDisk: f.RedisWaitDisk, ReplicasWithin: f.RedisWaitWithin}, nil
}

// isShort says that something is done, and that too few replicas have it.
func isShort(err error) bool {
	var short *task.ReplicasError // that of jobstore is the same type
	return errors.As(err, &short)
}
