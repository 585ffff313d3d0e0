package main

import (
	"time"

	"github.com/taktworks/takt/task"
)

// replicasFlags are those of commands that write what a failover must not undo.
type replicasFlags struct {
	RedisWait       int           `help:"Succeed only when so many replicas of Redis have it; 0 = the master is enough." must:"be 0 (the master is enough) or more" default:"0" placeholder:"N"`
	RedisWaitDisk   bool          `help:"They, and the master, must have it in their append-only files, not in memory alone: Valkey, or Redis 7.2 or later."`
	RedisWaitWithin time.Duration `help:"How long they may take. Then it fails with exit status 4, though it is done; repeated, it waits again." must:"be at least 1ms" default:"1s" placeholder:"DURATION"`
}

func (f replicasFlags) task() task.Options {
	return task.Options{Replicas: f.RedisWait, WaitForDisk: f.RedisWaitDisk, ReplicasWithin: f.RedisWaitWithin}
}
