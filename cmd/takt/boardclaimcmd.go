package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/taktworks/takt/board"
)

type boardClaimCmd struct {
	boardFlags
	ID    string        `arg:"" optional:"" help:"UUID of the posting, or its name in the store (ref)."`
	Next  bool          `help:"The next unclaimed posting."`
	Wait  bool          `help:"With --next: wait until there is one."`
	Who   string        `help:"Name of the owner." required:""`
	Exact bool          `help:"The owner's text is the name and nothing more, as TaskFlow has it; else it is made unique."`
	TTL   time.Duration `name:"ttl" help:"How long the claim lives, on Redis." default:"5m"`
	Hold  bool          `help:"Keep the claim until this command is stopped, then give it back unless it is finished. Needed on ZooKeeper, where claims end with the process."`
	JSON  bool          `name:"json" help:"One JSON object."`
}

func (c *boardClaimCmd) Run(ctx context.Context, a *app) error {
	if c.Next == (c.ID != "") {
		return &exitError{exitUsage, errors.New("give either the ID of a posting or --next")}
	}
	if !c.Hold && onZooKeeper(c.Board) {
		return &exitError{exitUsage, errors.New("claims on ZooKeeper end with the process: use --hold, or takt board work")}
	}
	return c.with(ctx, a, func(b *board.Board) error {
		claim, err := c.claim(ctx, b)
		if err != nil {
			return err
		}
		if err := c.print(a, claim); err != nil || !c.Hold {
			return err
		}
		a.log.Info("the claim is held", "ref", claim.Posting().Ref, "owner", claim.Owner())
		select {
		case <-ctx.Done():
		case <-claim.Context().Done():
			return context.Cause(claim.Context())
		}
		giveBack, cancel := context.WithTimeout(context.WithoutCancel(ctx), openTimeout)
		defer cancel()
		err = claim.Abandon(giveBack)
		if errors.Is(err, board.ErrClaimLost) {
			return nil // finished meanwhile
		}
		return err
	})
}

func (c *boardClaimCmd) claim(ctx context.Context, b *board.Board) (*board.Claim, error) {
	o := board.ClaimOptions{TTL: c.TTL, ExactOwner: c.Exact, NoKeepAlive: !c.Hold}
	if !c.Next {
		ctx, cancel := context.WithTimeout(ctx, openTimeout)
		defer cancel()
		r, err := b.Find(ctx, c.ID)
		if err != nil {
			return nil, err
		}
		return b.Claim(ctx, r.Posting, c.Who, o)
	}
	for {
		claim, err := b.ClaimNext(ctx, c.Who, o)
		if !errors.Is(err, board.ErrNothing) || !c.Wait {
			return claim, err
		}
		if err := b.WaitUnclaimed(ctx); err != nil {
			return nil, err
		}
	}
}

func (c *boardClaimCmd) print(a *app, claim *board.Claim) error {
	v := viewOf(&board.Row{Posting: claim.Posting(), State: board.Claimed, Owner: claim.Owner()})
	v.Fence, v.Attempt = claim.Fence(), claim.Attempt()
	return a.say(c.JSON, v, "%s\t%s\n", v.UUID, v.Owner)
}

// finish finishes a claim by its owner's text.
func (f *boardFlags) finish(ctx context.Context, a *app, id, owner string, how func(*board.Board, context.Context, *board.Posting, string) error) error {
	return f.ask(ctx, a, func(ctx context.Context, b *board.Board) error {
		r, err := b.Find(ctx, id)
		if err != nil {
			return err
		}
		return how(b, ctx, r.Posting, owner)
	})
}

// boardFinishCmd is takt board consume and abandon.
type boardFinishCmd struct {
	boardFlags
	boardID
	Owner string `help:"Text of the owner, as takt board claim and list print it." required:""`
}

func (c *boardFinishCmd) Run(ctx context.Context, a *app) error {
	how := (*board.Board).Consume
	if a.kong.Selected().Name == "abandon" {
		how = (*board.Board).Abandon
	}
	return c.finish(ctx, a, c.ID, c.Owner, how)
}

type boardTrashCmd struct {
	boardFlags
	boardID
	Owner     string `help:"Text of the owner, as takt board claim and list print it."`
	Malformed bool   `help:"The record is no posting, so that nobody can claim it."`
}

func (c *boardTrashCmd) Run(ctx context.Context, a *app) error {
	if c.Malformed == (c.Owner != "") {
		return &exitError{exitUsage, errors.New("give either --owner or --malformed")}
	}
	if c.Malformed {
		return c.ask(ctx, a, func(ctx context.Context, b *board.Board) error { return b.Quarantine(ctx, c.ID) })
	}
	return c.finish(ctx, a, c.ID, c.Owner, (*board.Board).Trash)
}

// boardAsideCmd is takt board restore and purge, of what was put aside.
type boardAsideCmd struct {
	boardFlags
	boardID
}

func (c *boardAsideCmd) Run(ctx context.Context, a *app) error {
	return c.ask(ctx, a, func(ctx context.Context, b *board.Board) error {
		rows, err := b.TrashList(ctx)
		if err != nil {
			return err
		}
		ref := c.ID
		if i := slices.IndexFunc(rows, func(r board.Row) bool { return r.Ref == c.ID || r.UUID == c.ID }); i >= 0 {
			ref = rows[i].Ref
		}
		if a.kong.Selected().Name == "purge" {
			return b.Purge(ctx, ref)
		}
		return b.Restore(ctx, ref)
	})
}
