// Command tasks measures Takt's tasks beside asynq and what Redis can do at all, in one run on one machine. README.md says what is measured how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const (
	exitFailed = 1 // an error, or an invalid run
	exitUsage  = 2
)

// config is what the command line says.
type config struct {
	plan
	only, measures, redisURL string
	aof, json, markdown      bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "tasks:", err)
		os.Exit(exitUsage)
	}
	if err := run(ctx, c, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "tasks:", err)
		os.Exit(exitFailed)
	}
}

func parse(args []string, out io.Writer) (config, error) {
	c := config{plan: plan{IdleMax: 1200 * time.Millisecond, Seconds: 3}}
	f := flag.NewFlagSet("tasks", flag.ContinueOnError)
	f.SetOutput(out)
	f.IntVar(&c.N, "n", 100_000, "tasks of a run; peers that are slow by nature take a part of them")
	f.IntVar(&c.Rounds, "rounds", 3, "runs of each measure, of which the median counts")
	f.IntVar(&c.Idle, "idle", 20, "tasks per round whose latency at idle is measured, one every 0.7 s")
	f.IntVar(&c.Rate, "rate", 5000, "tasks per second at which latency is measured")
	f.StringVar(&c.only, "only", "", "libraries, of "+strings.Join(libraries(), ",")+" (default all)")
	f.StringVar(&c.measures, "measures", "", "measures, for example process,end_to_end (default all)")
	f.StringVar(&c.redisURL, "redis", "", "`URL` of a Redis (default: a redis-server of its own, in memory)")
	f.BoolVar(&c.aof, "aof", false, "its own redis-server writes an append-only file, flushed every second")
	f.BoolVar(&c.json, "json", false, "end with one JSON object instead of a table")
	f.BoolVar(&c.markdown, "markdown", false, "end with a table for a page")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	return c, c.check(f.Args())
}

func (c *config) check(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("%q is not understood", rest[0])
	}
	for _, n := range []struct {
		name             string
		value, low, high int
	}{{"n", c.N, 100, 10_000_000}, {"rounds", c.Rounds, 1, 100}, {"idle", c.Idle, 1, 10_000}, {"rate", c.Rate, 10, 100_000}} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("--%s is %d: must be %d to %d", n.name, n.value, n.low, n.high)
		}
	}
	if c.aof && c.redisURL != "" {
		return errors.New("--aof is for a redis-server started here: leave out --redis")
	}
	if c.json && c.markdown {
		return errors.New("--json and --markdown are alternatives")
	}
	if _, err := choose(c.only); err != nil {
		return err
	}
	var err error
	c.Measures, err = chooseMeasures(c.measures)
	return err
}

// run measures and tells; progress goes to said.
func run(ctx context.Context, c config, out, said io.Writer) (err error) {
	entries, err := choose(c.only)
	if err != nil {
		return err
	}
	s, stop, err := startServers(ctx, c.redisURL, c.aof, said)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	r, err := measureAll(ctx, c, entries, s)
	if err != nil {
		return err
	}
	write := r.table
	switch {
	case c.json:
		write = r.json
	case c.markdown:
		write = r.markdown
	}
	return write(out)
}

func measureAll(ctx context.Context, c config, entries []entry, s servers) (r report, err error) {
	b, err := openPeers(ctx, c.plan, entries, s)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	return report{bench: b, servers: s, AOF: c.aof}, b.run(ctx)
}
