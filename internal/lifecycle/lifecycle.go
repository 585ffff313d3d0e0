// Package lifecycle runs the parts of a process and stops them in order.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Stage is parts that start and stop together, by name. Each runs until its context ends and then returns nil once all
// it held is settled or handed back.
type Stage map[string]func(context.Context) error

// Run starts all stages, the last one first, and waits until ctx ends or a part returns. Then it stops the stages in the order
// of the list: intake, then work, then what reports the work, then connections. It returns the errors of the parts, each
// with its name; a part that returns nil while ctx is alive has stopped by itself, which is an error too. Stages that have
// not stopped after drain, all together, are told to by ending the context they work in; Run still waits for them.
func Run(ctx context.Context, drain time.Duration, stages ...Stage) error {
	type ended struct {
		name string
		err  error
	}
	ends := make(chan ended)
	cancels := make([]context.CancelFunc, len(stages))
	left := make([]int, len(stages))
	stageOf := make(map[string]int)
	for i, stage := range slices.Backward(stages) {
		var stageCtx context.Context
		stageCtx, cancels[i] = context.WithCancel(context.WithoutCancel(ctx))
		defer cancels[i]()
		left[i] = len(stage)
		for name, run := range stage {
			stageOf[name] = i
			go func() { ends <- ended{name, run(stageCtx)} }()
		}
	}
	var errs []error
	take := func(e ended, stopping bool) {
		left[stageOf[e.name]]--
		switch {
		case e.err != nil && !(stopping && errors.Is(e.err, context.Canceled)):
			errs = append(errs, fmt.Errorf("%s: %w", e.name, e.err))
		case !stopping:
			errs = append(errs, fmt.Errorf("%s: stopped by itself", e.name))
		}
	}
	select {
	case <-ctx.Done():
	case e := <-ends:
		take(e, ctx.Err() != nil)
	}
	late := time.NewTimer(drain)
	defer late.Stop()
	for i := range stages {
		cancels[i]()
		for left[i] > 0 {
			select {
			case e := <-ends:
				take(e, true)
			case <-late.C:
				for _, cancel := range cancels {
					cancel()
				}
			}
		}
	}
	return errors.Join(errs...)
}
