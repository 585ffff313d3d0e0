// Package lifecycle runs the parts of a process and stops them in order.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Stage is parts that start and stop together, by name. Each runs until its context ends and then returns nil once all
// it held is settled or handed back.
type Stage map[string]func(context.Context) error

// lastWait is how long parts get after the contexts of all stages have ended because the time to drain was over.
const lastWait = 5 * time.Second

// Run starts all stages, the last one first, and waits until ctx ends or a part returns. Then it stops the stages in the order
// of the list: intake, then work, then what reports the work, then connections. It returns the errors of the parts, each
// with its name; a part that returns nil while ctx is alive has stopped by itself, which is an error too. After drain, counted over all
// stages, the contexts of those that still run end at once; whoever has not returned five seconds later is left behind and named in the error.
func Run(ctx context.Context, drain time.Duration, stages ...Stage) error {
	r := &runner{cancels: make([]context.CancelFunc, len(stages)), left: make([]map[string]bool, len(stages))}
	parts := 0
	for _, stage := range stages {
		parts += len(stage)
	}
	r.ends = make(chan end, parts) // so that a part that was left behind can still end
	for i, stage := range slices.Backward(stages) {
		var stageCtx context.Context
		stageCtx, r.cancels[i] = context.WithCancel(context.WithoutCancel(ctx))
		defer r.cancels[i]()
		r.left[i] = map[string]bool{}
		for name, run := range stage {
			r.left[i][name] = true
			go func() { r.ends <- end{i, name, run(stageCtx)} }()
		}
	}
	select {
	case <-ctx.Done():
	case e := <-r.ends:
		r.take(e, ctx.Err() != nil)
	}
	r.stop(drain)
	return errors.Join(r.errs...)
}

// end is a part that has returned.
type end struct {
	stage int
	name  string
	err   error
}

type runner struct {
	cancels []context.CancelFunc // by stage
	left    []map[string]bool    // names of the parts that have not returned, by stage
	ends    chan end
	errs    []error
}

// take notes the end of a part.
func (r *runner) take(e end, stopping bool) {
	delete(r.left[e.stage], e.name)
	switch {
	case e.err != nil && !(stopping && errors.Is(e.err, context.Canceled)):
		r.errs = append(r.errs, fmt.Errorf("%s: %w", e.name, e.err))
	case !stopping:
		r.errs = append(r.errs, fmt.Errorf("%s: stopped by itself", e.name))
	}
}

// stop ends stage after stage, each when the one before has ended, and all when drain is over.
func (r *runner) stop(drain time.Duration) {
	late := time.NewTimer(drain)
	defer late.Stop()
	overdue := false
	for i := range r.cancels {
		r.cancels[i]()
		for len(r.left[i]) > 0 {
			select {
			case e := <-r.ends:
				r.take(e, true)
			case <-late.C:
				if overdue {
					r.leave(drain)
					return
				}
				overdue = true
				for _, cancel := range r.cancels {
					cancel()
				}
				late.Reset(lastWait)
			}
		}
	}
}

// leave names those who do not end.
func (r *runner) leave(drain time.Duration) {
	var names []string
	for _, left := range r.left {
		names = append(names, slices.Sorted(maps.Keys(left))...)
	}
	if len(names) > 0 {
		r.errs = append(r.errs, fmt.Errorf("not stopped %v after being told to: %s", drain+lastWait, strings.Join(names, ", ")))
	}
}
