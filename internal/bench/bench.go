// Package bench is what benchmarks share: those of `takt bench`, and those beside other libraries in the module bench.
package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Main is the main function of a benchmark: parse reads its arguments, and run writes what it found to out and its progress to said. It ends the process with
// status 2 for arguments that are not understood, and 1 for any other error.
func Main[C any](name string, parse func(args []string, said io.Writer) (C, error), run func(ctx context.Context, c C, out, said io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status := 2
	c, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		status = 1
		err = run(ctx, c, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(status)
	}
}

// Check is an error if the value of a flag is out of its range.
func Check(flag string, value, low, high int) error {
	if value < low || value > high {
		return fmt.Errorf("--%s is %d: must be %d to %d", flag, value, low, high)
	}
	return nil
}

// ForEach calls do for 0 to n-1 from a number of goroutines. The first error ends it, and the context of the calls under way.
func ForEach(ctx context.Context, goroutines, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range goroutines {
		wait.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wait.Wait()
	return context.Cause(ctx)
}

// PerSecond says how often a second the n things are done that do does.
func PerSecond(n int, do func() error) (float64, error) {
	begun := time.Now()
	err := do()
	return float64(n) / time.Since(begun).Seconds(), err
}
