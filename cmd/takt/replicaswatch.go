package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/jobstore"
)

// replicasEvery is how often the replicas are asked whether they acknowledge what is written.
const replicasEvery = 2 * time.Second

// replicasWatch knows whether as many replicas of Redis acknowledge writes as --redis-wait wants. While fewer do, each command is stored and answered
// SERVICE_UNAVAILABLE, and no equipment command leaves.
type replicasWatch struct {
	ask  func(context.Context) error
	log  *slog.Logger
	lack atomic.Pointer[error] // *nil = enough; nil = not yet known
}

// Ready is part of /readyz.
func (w *replicasWatch) Ready(context.Context) error {
	if lack := w.lack.Load(); lack != nil {
		return *lack
	}
	return errors.New("not yet known whether replicas acknowledge what is written")
}

// Run asks until ctx ends, and logs each change of the answer.
func (w *replicasWatch) Run(ctx context.Context) error {
	said := ""
	for first := true; first || lifecycle.Sleep(ctx, replicasEvery); first = false {
		lack := replicasLack(w.ask(ctx))
		if ctx.Err() != nil {
			break
		}
		w.lack.Store(&lack)
		var short *jobstore.ReplicasError
		switch {
		case lack == nil && said != "":
			said = ""
			w.log.Info("enough replicas acknowledge what is written")
		case errors.As(lack, &short) && short.Err == nil && lack.Error() != said: // that Redis does not answer is told elsewhere
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
