package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/utf8text"
)

type boardPostCmd struct {
	boardFlags
	Name     string `arg:"" optional:"" help:"Name of the posting."`
	Details  string `help:"JSON object that whoever claims it gets, @FILE, or - for standard input." default:"{}" placeholder:"JSON"`
	Priority string `help:"VERY_HIGH, HIGH, NORMAL, LOW or VERY_LOW." default:"NORMAL"`
	Book     string `help:"Logbook of TaskFlow that it refers to." placeholder:"NAME:UUID"`
	UUID     string `name:"uuid" help:"Identity; a new one if not given. Posting again what is there under it does nothing."`
	Lines    bool   `help:"Read many from standard input, a JSON object a line: name, priority, details, book, uuid. They are posted in batches."`
	JSON     bool   `name:"json" help:"One JSON object per posting."`
}

// draftLine is what --lines reads.
type draftLine struct {
	Name     string         `json:"name"`
	Priority string         `json:"priority"`
	Details  map[string]any `json:"details"`
	Book     *board.Book    `json:"book"`
	UUID     string         `json:"uuid"`
}

func (d *draftLine) draft() (board.Draft, error) {
	p, err := board.ParsePriority(cmp.Or(d.Priority, board.Normal.String()))
	return board.Draft{Name: d.Name, Priority: p, Details: d.Details, Book: d.Book, UUID: d.UUID}, err
}

const (
	maxLine   = 4 << 20
	lineBatch = 500
)

func (c *boardPostCmd) Run(ctx context.Context, a *app) error {
	if c.Lines == (c.Name != "") {
		return &exitError{exitUsage, errors.New("give either the NAME of one posting or --lines")}
	}
	if c.Lines {
		return c.with(ctx, a, func(b *board.Board) error { return c.postLines(ctx, a, b) })
	}
	d, err := c.draft(a)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return c.ask(ctx, a, func(ctx context.Context, b *board.Board) error {
		p, err := b.Post(ctx, d)
		if err != nil {
			return err
		}
		return c.print(a, p)
	})
}

func (c *boardPostCmd) draft(a *app) (board.Draft, error) {
	text, err := a.textOf(c.Details)
	if err != nil {
		return board.Draft{}, fmt.Errorf("--details: %w", err)
	}
	line := draftLine{Name: c.Name, Priority: c.Priority, UUID: c.UUID}
	if line.Details, err = readDetails(text); err != nil {
		return board.Draft{}, fmt.Errorf("--details: %w", err)
	}
	if c.Book != "" {
		i := strings.LastIndexByte(c.Book, ':')
		if i < 1 {
			return board.Draft{}, fmt.Errorf("--book is %q: must be NAME:UUID", c.Book)
		}
		line.Book = &board.Book{Name: c.Book[:i], UUID: c.Book[i+1:]}
	}
	return line.draft()
}

// textOf is an argument, the content of the file after an @, or standard input for -.
func (a *app) textOf(arg string) ([]byte, error) {
	if file, ok := strings.CutPrefix(arg, "@"); ok || arg == "-" {
		return a.readInput(file, maxInput)
	}
	return utf8text.Of([]byte(arg))
}

// readDetails reads a JSON object; numbers stay as they are written until the board takes them.
func readDetails(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("must be a JSON object: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("must be one JSON object, and something follows it")
	}
	return v, nil
}

func (c *boardPostCmd) print(a *app, all ...*board.Posting) error {
	for _, p := range all {
		if err := a.say(c.JSON, viewOf(&board.Row{Posting: p, State: board.Unclaimed, LastModified: p.CreatedOn}), "%s\n", p.UUID); err != nil {
			return err
		}
	}
	return nil
}

func (c *boardPostCmd) postLines(ctx context.Context, a *app, b *board.Board) error {
	lines := bufio.NewScanner(a.in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	var drafts []board.Draft
	flush := func() error {
		all, err := b.PostBatch(ctx, drafts)
		if err != nil {
			return err
		}
		drafts = drafts[:0]
		return c.print(a, all...)
	}
	for n := 1; lines.Scan(); n++ {
		text, err := utf8text.Of(lines.Bytes())
		if err == nil && len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var line draftLine
		if err == nil {
			d := json.NewDecoder(bytes.NewReader(text))
			d.UseNumber()
			d.DisallowUnknownFields()
			err = d.Decode(&line)
		}
		var draft board.Draft
		if err == nil {
			draft, err = line.draft()
		}
		if err != nil {
			return &exitError{exitUsage, fmt.Errorf("line %d: %w; the lines before are posted", n, errors.Join(err, flush()))}
		}
		if drafts = append(drafts, draft); len(drafts) == lineBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	return flush()
}
