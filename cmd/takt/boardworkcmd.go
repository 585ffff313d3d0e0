package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
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

func (c *boardWorkCmd) Run(ctx context.Context, a *app, b *board.Board) error {
	o := board.ConductorOptions{
		Name: c.Name, MaxConcurrent: c.Concurrency, TTL: c.TTL, MaxDispatches: c.Max, MaxAttempts: c.MaxAttempts, Backoff: c.Backoff, ConsumeOnError: c.ConsumeOnError, Drain: c.Drain, Log: a.log,
		Observe: func(e board.ConductorEvent) {
			p := e.Claim.Posting()
			a.log.Info(string(e.Outcome), "name", p.Name, "uuid", p.UUID, "attempt", e.Claim.Attempt(), "took", e.Took.Round(time.Microsecond), "error", e.Err)
		},
	}
	if len(c.Match) > 0 {
		o.Match = func(p *board.Posting) bool { return slices.Contains(c.Match, p.Name) }
	}
	conductor, err := b.Conductor(func(ctx context.Context, claim *board.Claim) error { return c.call(ctx, a, claim) }, o)
	if err != nil {
		return err
	}
	a.log.Info("conductor is up", "concurrency", c.Concurrency)
	return conductor.Run(ctx)
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
	if exit, ok := errors.AsType[*shellError](err); ok && exit.Code == exitNoRetry {
		return board.TrashWith(err)
	}
	return err
}
