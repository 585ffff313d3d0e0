package goworkflows_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cschleiden/go-workflows/activity"
	gowf "github.com/cschleiden/go-workflows/workflow"
)

// program is a workflow made up by chance. What it does depends on nothing else, so its history is the same wherever it runs, but for the order in which things end that run at once.
type program struct {
	Steps []step
	Again int // times that it continues as new with the same steps
	Sum   int // so far
	Fails bool
}

type step struct {
	Does  string
	N     int
	Fails int       // attempts of an activity
	Sub   []program // of a sub-workflow, or of all that run at once
}

var kinds = []string{"activity", "flaky", "hopeless", "timer", "no timer", "signal", "side effect", "sub", "sub signals", "all"}

func anyProgram(r *rand.Rand, depth int) program {
	p := program{Fails: r.IntN(8) == 0}
	for range 1 + r.IntN(5) {
		s := step{Does: kinds[r.IntN(len(kinds))], N: 1 + r.IntN(100), Fails: r.IntN(4)}
		switch {
		case depth == 0 && len(s.Does) >= 3 && s.Does[:3] == "sub":
			s.Does = "activity"
		case s.Does == "sub", s.Does == "sub signals":
			s.Sub = []program{anyProgram(r, depth-1)}
		case s.Does == "all":
			for range r.IntN(5) {
				s.Sub = append(s.Sub, anyProgram(r, 0))
			}
		}
		p.Steps = append(p.Steps, s)
	}
	if r.IntN(4) == 0 {
		p.Again = 1 + r.IntN(2)
	}
	return p
}

func double(_ context.Context, n int) (int, error) { return 2 * n, nil }

// flaky fails in its first attempts.
func flaky(ctx context.Context, n, fails int) (int, error) {
	if activity.Attempt(ctx) < fails {
		return 0, fmt.Errorf("attempt %d of %d: %w", activity.Attempt(ctx), n, errBusy)
	}
	return n, nil
}

var errBusy = errors.New("busy")

func hopeless(_ context.Context, n int) (int, error) {
	return 0, gowf.NewPermanentError(fmt.Errorf("%d is hopeless", n))
}

// run is the workflow that does what a program says.
func run(ctx gowf.Context, p program) (int, error) {
	sum := p.Sum
	for n, s := range p.Steps {
		v, err := s.run(ctx, n)
		if err != nil {
			v = -s.N // goes on, and the error is in the history
		}
		sum = (3*sum + v) % 1_000_003
	}
	if p.Again > 0 {
		p.Again--
		p.Sum = sum
		return sum, gowf.ContinueAsNew(ctx, p)
	}
	if p.Fails {
		return 0, fmt.Errorf("at %d: %w", sum, errBusy)
	}
	return sum, nil
}

func (s step) run(ctx gowf.Context, n int) (int, error) {
	retry := gowf.ActivityOptions{RetryOptions: gowf.RetryOptions{MaxAttempts: 3}}
	me := gowf.WorkflowInstance(ctx).InstanceID
	switch s.Does {
	case "activity":
		return gowf.ExecuteActivity[int](ctx, gowf.DefaultActivityOptions, double, s.N).Get(ctx)
	case "flaky":
		return gowf.ExecuteActivity[int](ctx, retry, flaky, s.N, s.Fails).Get(ctx)
	case "hopeless":
		return gowf.ExecuteActivity[int](ctx, retry, hopeless, s.N).Get(ctx)
	case "timer":
		return s.N, gowf.Sleep(ctx, time.Duration(s.N%3)*time.Millisecond)
	case "no timer":
		return s.cancelTimer(ctx)
	case "signal":
		if _, err := gowf.SignalWorkflow(ctx, me, "self", s.N).Get(ctx); err != nil {
			return 0, err
		}
		v, _ := gowf.NewSignalChannel[int](ctx, "self").Receive(ctx)
		return v, nil
	case "side effect":
		return gowf.SideEffect(ctx, func(gowf.Context) int { return s.N }).Get(ctx)
	case "sub":
		return s.sub(ctx, n, 0).Get(ctx)
	case "sub signals":
		p := s.Sub[0]
		sub := gowf.CreateSubWorkflowInstance[int](ctx, gowf.SubWorkflowOptions{InstanceID: fmt.Sprintf("%s/%d", me, n)}, report, me, fmt.Sprint("sub ", n), p)
		v, _ := gowf.NewSignalChannel[int](ctx, fmt.Sprint("sub ", n)).Receive(ctx)
		got, err := sub.Get(ctx)
		return v + got, err
	case "all":
		return s.all(ctx, n)
	}
	return 0, fmt.Errorf("step %q: there is none", s.Does)
}

func (s step) cancelTimer(ctx gowf.Context) (int, error) {
	until, cancel := gowf.WithCancel(ctx)
	long := gowf.ScheduleTimer(until, time.Hour)
	v, err := gowf.ExecuteActivity[int](ctx, gowf.DefaultActivityOptions, double, s.N).Get(ctx)
	cancel()
	if _, canceled := long.Get(ctx); !errors.Is(canceled, gowf.Canceled) {
		return 0, fmt.Errorf("the timer: %w", canceled)
	}
	return v, err
}

func (s step) sub(ctx gowf.Context, n, k int) gowf.Future[int] {
	id := fmt.Sprintf("%s/%d.%d", gowf.WorkflowInstance(ctx).InstanceID, n, k)
	return gowf.CreateSubWorkflowInstance[int](ctx, gowf.SubWorkflowOptions{InstanceID: id}, run, s.Sub[k])
}

// all runs an activity, a timer and the programs at once.
func (s step) all(ctx gowf.Context, n int) (int, error) {
	sum := 0
	futures := []gowf.Future[int]{gowf.ExecuteActivity[int](ctx, gowf.DefaultActivityOptions, double, s.N)}
	timer := gowf.ScheduleTimer(ctx, time.Millisecond)
	for k := range s.Sub {
		futures = append(futures, s.sub(ctx, n, k))
	}
	var errs error
	for _, f := range futures {
		v, err := f.Get(ctx)
		sum, errs = sum+v, errors.Join(errs, err)
	}
	_, err := timer.Get(ctx)
	return sum, errors.Join(errs, err)
}

// report is run, and tells its parent something first.
func report(ctx gowf.Context, parent, signal string, p program) (int, error) {
	if _, err := gowf.SignalWorkflow(ctx, parent, signal, len(p.Steps)).Get(ctx); err != nil {
		return 0, err
	}
	return run(ctx, program{Steps: p.Steps, Fails: p.Fails})
}
