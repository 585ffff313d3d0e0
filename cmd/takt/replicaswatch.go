package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/jobstore"
)

// How often the replicas are asked whether they acknowledge what is written: while they do, and while they do not.
const (
	replicasEvery = 5 * time.Second
	replicasAgain = time.Second
)

// replicasWatch knows whether as many replicas of Redis acknowledge writes as --redis-wait wants. While fewer do, each command is stored and answered
// SERVICE_UNAVAILABLE, and no equipment command leaves.
type replicasWatch struct {
	ask func(context.Context) error
	log *slog.Logger

	mu     sync.Mutex
	lack   error         // nil = enough
	enough chan struct{} // closed once they were enough
}

func newReplicasWatch(store *jobstore.Store, log *slog.Logger) *replicasWatch {
	return &replicasWatch{ask: store.AskReplicas, log: log, lack: errors.New("not yet known whether replicas acknowledge what is written"), enough: make(chan struct{})}
}

// Ready is part of /readyz.
func (w *replicasWatch) Ready(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lack
}

// Await waits until replicas were enough once; false: ctx ended.
func (w *replicasWatch) Await(ctx context.Context) bool {
	select {
	case <-w.enough:
		return true
	case <-ctx.Done():
		return false
	}
}

// Run asks until ctx ends, and logs each change of the answer.
func (w *replicasWatch) Run(ctx context.Context) error {
	said := ""
	for pause := replicasEvery; ctx.Err() == nil; lifecycle.Sleep(ctx, pause) {
		lack := replicasLack(w.ask(ctx))
		if ctx.Err() != nil {
			break
		}
		w.mu.Lock()
		w.lack = lack
		w.mu.Unlock()
		if lack == nil {
			pause = replicasEvery
			if said != "" {
				w.log.Info("enough replicas acknowledge what is written")
			}
			said = ""
			select {
			case <-w.enough:
			default:
				close(w.enough)
			}
			continue
		}
		pause = replicasAgain
		var short *jobstore.ReplicasError
		if errors.As(lack, &short) && short.Err == nil && lack.Error() != said { // that Redis does not answer is told elsewhere
			said = lack.Error()
			w.log.Warn("this process is not ready: commands are stored, but answered SERVICE_UNAVAILABLE, and none goes to equipment", "err", lack)
		}
	}
	return nil
}

// replicasLack says what an answer of AskReplicas means for who runs the servers.
func replicasLack(err error) error {
	var short *jobstore.ReplicasError
	switch {
	case !errors.As(err, &short) || short.Err != nil || short.NotOnMaster:
		return err
	case short.OnDisk:
		return &lackError{short, "replicas have on their disks", "--redis-wait with --redis-wait-disk", "start replicas with appendonly yes"}
	}
	return &lackError{short, "replicas acknowledge", "--redis-wait", "start replicas of this master"}
}

// lackError is a *jobstore.ReplicasError in the words of the flags.
type lackError struct {
	short           *jobstore.ReplicasError
	do, flags, next string
}

func (e *lackError) Error() string {
	return fmt.Sprintf("%d %s what is written within %v, %s wants %d: %s, or give a smaller --redis-wait", e.short.Acknowledged, e.do, e.short.Within, e.flags, e.short.Want, e.next)
}

func (e *lackError) Unwrap() error { return e.short }
