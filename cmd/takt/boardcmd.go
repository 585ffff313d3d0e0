package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taktworks/takt/board"
)

type boardCmd struct {
	Post     boardPostCmd     `cmd:"" help:"Post work."`
	List     boardListCmd     `cmd:"" looks:"" help:"List postings, or those in the trash."`
	Show     boardShowCmd     `cmd:"" looks:"" help:"Show one posting."`
	Claim    boardClaimCmd    `cmd:"" help:"Claim a posting, or the next one."`
	Consume  boardFinishCmd   `cmd:"" help:"Finish a claim: the posting is done."`
	Abandon  boardFinishCmd   `cmd:"" help:"Give a claim back, also a stuck one of another program."`
	Trash    boardTrashCmd    `cmd:"" help:"Put a claimed posting aside, or a record that is none."`
	Restore  boardAsideCmd    `cmd:"" help:"Post a posting from the trash again."`
	Purge    boardAsideCmd    `cmd:"" help:"Delete a posting from the trash for good."`
	Watch    boardWatchCmd    `cmd:"" looks:"" help:"Tell what happens on the board."`
	Work     boardWorkCmd     `cmd:"" help:"Claim postings and run a command for each."`
	Entities boardEntitiesCmd `cmd:"" looks:"" help:"List conductors that are there."`
	Stats    boardStatsCmd    `cmd:"" looks:"" help:"Count postings by state and priority."`
	Check    boardCheckCmd    `cmd:"" looks:"" help:"List what is inconsistent in the records of the board."`
}

// boardFlags say which board.
type boardFlags struct {
	Board   string        `help:"redis://host:port/db?namespace=taskflow, or zookeeper://host1,host2/taskflow/jobs. The board taskflow on --redis if not given." placeholder:"URL"`
	Session time.Duration `help:"ZooKeeper ends the claims of a process that it has not heard of for this long." default:"10s"`
}

// ProvideBoard opens the board, for the Run of a command, until that has ended.
func (f *boardFlags) ProvideBoard(ctx context.Context, a *app) (*board.Board, error) {
	url := f.Board
	if url == "" {
		a.useEndpoints()
		url = a.Redis
	}
	if url == "" {
		return nil, &exitError{exitUsage, errors.New("no board is named: give --board URL or TAKT_BOARD, for example redis://127.0.0.1:6379?namespace=taskflow")}
	}
	c := a.boardConnect(url, f.Session, a.looks, a.log)
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	b, err := c.Open(ctx)
	if err != nil {
		return nil, storeError(err)
	}
	a.atEnd = append(a.atEnd, func() { _ = b.Close() })
	return b, nil
}

// with opens the board for do.
func (f *boardFlags) with(ctx context.Context, a *app, do func(*board.Board) error) error {
	return with(ctx, func(ctx context.Context) (*board.Board, error) { return f.ProvideBoard(ctx, a) }, do)
}

// onZooKeeper says what kind of board a URL names.
func onZooKeeper(url string) bool { return strings.HasPrefix(strings.ToLower(url), "zookeeper:") }

// ask is with for a command that asks the board once: do gets a context that ends after openTimeout.
func (f *boardFlags) ask(ctx context.Context, a *app, do func(context.Context, *board.Board) error) error {
	return f.with(ctx, a, func(b *board.Board) error {
		ctx, cancel := context.WithTimeout(ctx, openTimeout)
		defer cancel()
		return do(ctx, b)
	})
}

// postingView is a posting for programs.
type postingView struct {
	board.View
	Event   string `json:"event,omitempty"` // of watch
	Fence   uint64 `json:"fence,omitempty"` // of claim
	Attempt int    `json:"attempt,omitempty"`
}

func viewOf(r *board.Row) *postingView { return &postingView{View: board.ViewOf(r)} }

type boardListCmd struct {
	boardFlags
	Unclaimed  bool `help:"Only those that can be claimed."`
	Trash      bool `help:"Postings in the trash."`
	AsTaskFlow bool `name:"as-taskflow" help:"In the order in which TaskFlow has them."`
	Limit      int  `help:"At most so many; 0 = all." must:"not be negative" default:"0"`
	JSON       bool `name:"json" help:"One JSON object per posting."`
}

func (c *boardListCmd) Run(ctx context.Context, a *app, b *board.Board) error {
	rows, err := c.rows(ctx, b)
	if err != nil {
		return err
	}
	if c.Limit > 0 {
		rows = rows[:min(len(rows), c.Limit)]
	}
	l := a.list(c.JSON, "UUID", "NAME", "PRIORITY", "STATE", "OWNER", "CREATED", "SEQUENCE")
	for _, r := range rows {
		created := ""
		if !r.CreatedOn.IsZero() {
			created = r.CreatedOn.Format(time.RFC3339)
		}
		l.add(viewOf(&r), r.UUID, r.Name, r.Priority, r.State, cmp.Or(r.Owner, "-"), created, r.Sequence)
	}
	return l.flush()
}

func (c *boardListCmd) rows(ctx context.Context, b *board.Board) ([]board.Row, error) {
	if c.Trash {
		return b.TrashList(ctx)
	}
	return b.List(ctx, board.ListOptions{OnlyUnclaimed: c.Unclaimed, AsTaskFlow: c.AsTaskFlow, LastModified: c.JSON})
}

// boardID names a posting.
type boardID struct {
	ID string `arg:"" help:"UUID of the posting, or its name in the store (ref)."`
}

type boardShowCmd struct {
	boardFlags
	boardID
	JSON bool `name:"json" help:"One JSON object."`
}

func (c *boardShowCmd) Run(ctx context.Context, a *app) error {
	return c.ask(ctx, a, func(ctx context.Context, b *board.Board) error {
		r, err := b.Find(ctx, c.ID)
		if err != nil {
			return err
		}
		v := viewOf(&r)
		if c.JSON {
			return printJSON(a.out, v)
		}
		t := newFields(a.out)
		t.row("uuid", v.UUID)
		t.row("name", v.Name)
		t.row("priority", v.Priority)
		t.row("state", v.State)
		t.row("owner", cmp.Or(v.Owner, "nobody"))
		if r.ExpiresIn > 0 {
			t.row("claim ends in", r.ExpiresIn.Round(time.Millisecond).String()+", unless it is extended")
		}
		for name, at := range map[string]*time.Time{"created": v.CreatedOn, "last modified": v.LastModified} {
			if at != nil {
				t.row(name, at.Format(time.RFC3339Nano))
			}
		}
		t.row("sequence", v.Sequence)
		if v.Book != nil {
			t.row("book", v.Book.Name+":"+v.Book.UUID)
		}
		details, err := json.Marshal(v.Details)
		if err != nil {
			return err
		}
		t.row("details", string(details))
		t.row("ref", v.Ref)
		return t.flush()
	})
}

type boardWatchCmd struct {
	boardFlags
	JSON bool `name:"json" help:"One JSON object per event: the posting, and event."`
}

func (c *boardWatchCmd) Run(ctx context.Context, a *app, b *board.Board) error {
	for e, err := range b.Watch(ctx) {
		if err != nil {
			return err
		}
		v := viewOf(&e.Row)
		v.Event = string(e.Kind)
		if err := a.say(c.JSON, v, "%s  %-8s  %s  %s  %s\n", clock(), e.Kind, v.UUID, v.Name, v.Owner); err != nil {
			return err
		}
	}
	return nil
}

type boardEntitiesCmd struct {
	boardFlags
	Kind string `help:"Only of this kind: conductor."`
	JSON bool   `name:"json" help:"One JSON object per entity."`
}

func (c *boardEntitiesCmd) Run(ctx context.Context, a *app) error {
	return c.ask(ctx, a, func(ctx context.Context, b *board.Board) error {
		all, err := b.Entities(ctx, c.Kind)
		if err != nil {
			return err
		}
		l := a.list(c.JSON, "KIND", "NAME", "METADATA")
		for _, e := range all {
			text, err := json.Marshal(e.Metadata)
			if err != nil {
				return err
			}
			l.add(e, e.Kind, e.Name, string(text))
		}
		return l.flush()
	})
}

type boardStatsCmd struct {
	boardFlags
	JSON bool `name:"json" help:"One JSON object."`
}

func (c *boardStatsCmd) Run(ctx context.Context, a *app, b *board.Board) error {
	contents, err := b.Contents(ctx, 0)
	if err != nil {
		return err
	}
	s := contents.Stats()
	if c.JSON {
		return printJSON(a.out, s)
	}
	t := newTable(a.out, "COUNT", "VALUE")
	t.row("unclaimed", s.Unclaimed)
	t.row("claimed", s.Claimed)
	t.row("owners", s.Owners)
	t.row("put aside", s.Trashed)
	t.row("malformed", s.Malformed)
	t.row("entities", s.Entities)
	for p := board.VeryHigh; p >= board.VeryLow; p-- {
		t.field("unclaimed "+p.String(), s.Priorities[p.String()])
	}
	if !s.Oldest.IsZero() {
		t.row("oldest unclaimed", s.Oldest.Format(time.RFC3339))
	}
	return t.flush()
}

type boardCheckCmd struct {
	boardFlags
	JSON bool `name:"json" help:"One JSON object per problem."`
}

func (c *boardCheckCmd) Run(ctx context.Context, a *app, b *board.Board) error {
	problems, err := b.Check(ctx)
	if err != nil {
		return err
	}
	for _, p := range problems {
		if err := a.say(c.JSON, map[string]string{"problem": p}, "%s\n", p); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return &exitError{exitFailed, fmt.Errorf("%d problems", len(problems))}
	}
	if !c.JSON {
		_, err = fmt.Fprintln(a.out, "nothing found")
	}
	return err
}
