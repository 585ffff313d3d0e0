// Command tasks measures Takt's tasks beside asynq and what Redis can do at all, in one run on one machine. README.md says what is measured how.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/bench"
)

// config is what the command line says.
type config struct {
	plan
	only, measures, redisURL string
	aof, json, markdown      bool
}

func main() { bench.Main("tasks", parse, run) }

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
	if err := cmp.Or(bench.Check("n", c.N, 100, 10_000_000), bench.Check("rounds", c.Rounds, 1, 100), bench.Check("idle", c.Idle, 1, 10_000), bench.Check("rate", c.Rate, 10, 100_000)); err != nil {
		return err
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
	s, err := bench.Open(ctx, c.redisURL, c.aof)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r, err := measureAll(ctx, c, entries, servers{s, said})
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
	return report{comparison: b, server: s.redis, AOF: c.aof}, b.run(ctx)
}
