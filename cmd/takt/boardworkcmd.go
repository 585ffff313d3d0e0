package main

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/taktworks/takt/board"
)

type boardWorkCmd struct {
	boardFlags
	Exec           string        `required:"" help:"Command line for /bin/sh: the posting on standard input as JSON."`
	Name           string        `help:"Name of the owner of the claims; host:pid if not given."`
	Concurrency    int           `help:"How many run at once." default:"1"`
	Match          []string      `help:"Only postings of these names." placeholder:"NAME"`
	Timeout        time.Duration `help:"How long one run may take; 0 = without end. What takes longer is given back." default:"0s"`
	TTL            time.Duration `name:"ttl" help:"Others take the postings of a dead process over after this time, on Redis." default:"30s"`
	MaxAttempts    int           `help:"A posting that was claimed as often is put aside; -1 = never." default:"25"`
	Backoff        time.Duration `help:"Time until a posting that was given back is tried again; it doubles." default:"1s"`
	Max            int           `help:"End after so many postings; 0 = never." default:"0"`
	ConsumeOnError bool          `help:"Consume a posting although the command failed, as conductors of TaskFlow do."`
	Drain          time.Duration `help:"How long a stop waits for what runs." default:"10s"`
}

func (boardWorkCmd) Help() string {
	return `Claims postings in their order, keeps the claims alive and runs the command for each: the posting on standard input as takt board show --json prints it; TAKT_BOARD_UUID, TAKT_BOARD_NAME, TAKT_BOARD_OWNER, TAKT_BOARD_ATTEMPT and TAKT_BOARD_FENCE in the environment.

Exit status 0 consumes the posting, 65 (EX_DATAERR) puts it aside, any other gives it back for a later try. When the claim is lost, the time is over or the process is to stop, the command and its children get SIGTERM, and SIGKILL after 5 s. When this process itself is killed with SIGKILL, the command goes on, beside that of the next owner. What a command printed on standard output is passed through when it has ended, up to 1 MiB; the end of its standard error is in the log if it failed.

Examples:
  takt board work --exec './resize' --concurrency 4
  takt board work --exec 'jq .details' --max 1 --board zookeeper://127.0.0.1/taskflow/jobs`
}

func (c *boardWorkCmd) Run(ctx context.Context, a *app) error {
	names := map[string]bool{}
	for _, n := range c.Match {
		names[n] = true
	}
	o := board.ConductorOptions{
		Name: c.Name, MaxConcurrent: c.Concurrency, TTL: c.TTL, MaxDispatches: c.Max, MaxAttempts: c.MaxAttempts, Backoff: c.Backoff, ConsumeOnError: c.ConsumeOnError, Drain: c.Drain, Log: a.log,
		Observe: func(e board.ConductorEvent) {
			p := e.Claim.Posting()
			a.log.Info(string(e.Outcome), "name", p.Name, "uuid", p.UUID, "attempt", e.Claim.Attempt(), "took", e.Took.Round(time.Microsecond), "error", e.Err)
		},
	}
	if len(names) > 0 {
		o.Match = func(p *board.Posting) bool { return names[p.Name] }
	}
	return c.with(ctx, a, func(b *board.Board) error {
		conductor, err := b.Conductor(func(ctx context.Context, claim *board.Claim) error { return c.call(ctx, a, claim) }, o)
		if err != nil {
			return err
		}
		a.log.Info("conductor is up", "concurrency", c.Concurrency)
		return conductor.Run(ctx)
	})
}

// call runs the command for one posting.
func (c *boardWorkCmd) call(ctx context.Context, a *app, claim *board.Claim) error {
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	p := claim.Posting()
	input, err := json.Marshal(viewOf(&board.Row{Posting: p, State: board.Claimed, Owner: claim.Owner()}))
	if err != nil {
		return board.TrashWith(err)
	}
	out, err := shell(ctx, c.Exec, []string{
		"TAKT_BOARD_UUID=" + p.UUID, "TAKT_BOARD_NAME=" + p.Name, "TAKT_BOARD_OWNER=" + claim.Owner(),
		"TAKT_BOARD_ATTEMPT=" + strconv.Itoa(claim.Attempt()), "TAKT_BOARD_FENCE=" + strconv.FormatUint(claim.Fence(), 10),
	}, append(input, '\n'))
	if _, e := a.out.Write(out); e != nil {
		a.log.Warn("what the command printed is lost", "uuid", p.UUID, "err", e)
	}
	if errors.Is(err, errOutput) { // its work is done all the same
		a.log.Warn("the end of what the command printed is left out", "uuid", p.UUID, "err", err)
		return nil
	}
	var exit *shellError
	if errors.As(err, &exit) && exit.Code == exitNoRetry {
		return board.TrashWith(err)
	}
	return err
}
