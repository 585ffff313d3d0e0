package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobhistory"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

type jobHistoryCmd struct {
	ID     string `arg:"" help:"Job order id."`
	Follow bool   `help:"Go on with what happens from now on, until the order is cleared." short:"f"`
	JSON   bool   `name:"json" help:"One JSON object per commit."`
}

// readHistory reads all that is there, by jobhistory.Read, or its beginning, by Open. An order without a history is an error that says why.
func readHistory(ctx context.Context, store *jobstore.Store, id string, read func(context.Context, *jobstore.Store, isa95.JobOrderID) (*jobhistory.History, error)) (*jobhistory.History, error) {
	parsed, err := isa95.ParseJobOrderID(id)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	h, err := read(ctx, store, parsed)
	if errors.Is(err, jobhistory.ErrNone) {
		return nil, &exitError{exitFailed, fmt.Errorf("job order %q has no history: it was never stored, or it was cleared longer ago than --end-state-retention of takt serve; see takt job list", parsed)}
	}
	return h, err
}

func (c *jobHistoryCmd) Run(ctx context.Context, a *app, store *jobstore.Store) error {
	h, err := readHistory(ctx, store, c.ID, jobhistory.Open)
	if err != nil {
		return err
	}
	show, wait, ended := h.Entries, time.Duration(0), false
	for {
		for i := range show {
			r, err := h.Recipe(ctx, &show[i])
			if err == nil {
				err = c.print(a, &show[i], r)
			}
			if err != nil {
				return err
			}
		}
		if len(show) > 0 {
			ended = show[len(show)-1].State.IsEnd()
		} else if !c.Follow || ended {
			return nil
		} else {
			wait = time.Second
		}
		if show, err = h.Reader.Next(ctx, wait); ctx.Err() != nil {
			return nil
		} else if jobstore.Away(err) && c.Follow {
			a.log.Warn("Redis does not answer", "err", err)
			lifecycle.Sleep(ctx, time.Second)
		} else if err != nil {
			return err
		}
	}
}

func (c *jobHistoryCmd) print(a *app, e *jobstore.HistoryEntry, r *recipe.Recipe) error {
	if c.JSON {
		return printJSON(a.out, jobhistory.LineOf(e, r))
	}
	_, err := printf(a.out, "%s  %s\n", e.Time.UTC().Format("2006-01-02 15:04:05.000"), jobhistory.Head(e))
	for i := 0; i < len(e.Facts) && err == nil; i++ {
		_, err = printf(a.out, "                         %s\n", e.Facts[i].Text(r))
	}
	return err
}

// historyPoint is a point of a history: --at.
type historyPoint struct {
	at     time.Time
	offset time.Duration
	isSet  bool
	start  bool // offset counts, from the start of the recipe
}

// UnmarshalText reads an RFC 3339 time, or +DURATION.
func (i *historyPoint) UnmarshalText(text []byte) (err error) {
	i.isSet = true
	if after, ok := strings.CutPrefix(string(text), "+"); ok {
		i.start = true
		if i.offset, err = time.ParseDuration(after); err != nil {
			return fmt.Errorf("%q is no duration, such as +90s: %w", text, err)
		}
		return nil
	}
	if i.at, err = time.Parse(time.RFC3339Nano, string(text)); err != nil {
		return fmt.Errorf("%q is neither a time of RFC 3339, such as 2026-11-28T08:15:00Z, nor +DURATION from the start, such as +90s", text)
	}
	return nil
}

// of is the last entry of h at i.
func (i historyPoint) of(h *jobhistory.History) (*jobstore.HistoryEntry, time.Time, error) {
	at := i.at
	if i.start {
		begun := slices.IndexFunc(h.Entries, func(e jobstore.HistoryEntry) bool { return e.Execution != nil && !e.Snapshot })
		switch {
		case h.Entries[0].Snapshot:
			return nil, at, &exitError{exitFailed, errors.New("the start is no longer in the history: give --at as a time of RFC 3339, at or after " + h.Entries[0].Time.UTC().Format(time.RFC3339Nano))}
		case begun < 0:
			return nil, at, &exitError{exitFailed, fmt.Errorf("the recipe of job order %s was never started; see takt job why %s", h.ID, h.ID)}
		}
		at = h.Entries[begun].Time.Add(i.offset)
	}
	if now := h.Now(); at.After(now) {
		return nil, at, &exitError{exitUsage, fmt.Errorf("--at: %s is in the future, it is %s: leave --at out for the chart as it stands now", at.UTC().Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339))}
	}
	last := -1
	for n := range h.Entries {
		if !h.Entries[n].Time.After(at) {
			last = n
		}
	}
	if last < 0 {
		why := "the order was stored then"
		if h.Entries[0].Snapshot {
			why = "what was before is gone but for a snapshot of that time"
		}
		return nil, at, &exitError{exitFailed, fmt.Errorf("the history of job order %s begins at %s: %s", h.ID, h.Entries[0].Time.UTC().Format("2006-01-02T15:04:05.000Z"), why)}
	}
	return &h.Entries[last], at, nil
}

type jobReplayCmd struct {
	ID     string `arg:"" help:"Job order id."`
	Recipe string `help:"Recipe file; - is standard input." required:"" placeholder:"FILE"`
	JSON   bool   `name:"json" help:"One JSON object."`
}

// replayGrace is by how much takt serve may have been late with a timer.
const replayGrace = 5 * time.Second

// replayed is a replay, for programs.
type replayed struct {
	JobOrderID string         `json:"job_order_id"`
	Recorded   string         `json:"recorded_recipe"` // SHA-256
	Replayed   string         `json:"replayed_recipe"`
	Entries    int            `json:"entries"`
	Parted     *replayParting `json:"parted,omitempty"`
	Commands   []string       `json:"other_commands,omitempty"` // actions whose recorded commands would be others, with what differs
	Left       []string       `json:"left,omitempty"`
	Ends       replayEnds     `json:"recorded_end"`
	NowEnds    replayEnds     `json:"replayed_end"`
}

type replayParting struct {
	After    string        `json:"after_start"` // a duration
	Recorded []recipe.Fact `json:"recorded"`
	Replayed []recipe.Fact `json:"replayed"`
}

type replayEnds struct {
	Phase       recipe.Phase `json:"phase"`
	CurrentStep string       `json:"current_step"`
	ActiveSteps []string     `json:"active_steps,omitempty"`
	Error       string       `json:"error,omitempty"`
}

func endsOf(x *recipe.Execution) replayEnds {
	return replayEnds{x.Phase(), x.CurrentStep, x.ActiveSteps, x.Error}
}

func (e replayEnds) String() string {
	text := fmt.Sprintf("%s at step %s", e.Phase, e.CurrentStep)
	if e.Error != "" {
		text += ": " + e.Error
	}
	return text
}

func (c *jobReplayCmd) Run(ctx context.Context, a *app, store *jobstore.Store) error {
	text, err := a.readInput(c.Recipe, maxRecipe)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	program, err := recipe.Compile(text)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("%s: %w", c.Recipe, err)}
	}
	if delivered := new(bytes.Buffer); json.Compact(delivered, text) == nil { // as a delivery stores it, so that its hash is that one
		if program, err = recipe.Compile(delivered.Bytes()); err != nil {
			return err
		}
	}
	h, err := readHistory(ctx, store, c.ID, jobhistory.Read)
	if err != nil {
		return err
	}
	snap, err := store.Load(ctx, jobstore.Query{JobOrderID: h.ID})
	if err != nil {
		return err
	}
	record, ok := jobstore.Recorded(h.Entries)
	last := h.Last()
	switch {
	case last.Execution == nil || snap.Job == nil:
		return &exitError{exitFailed, fmt.Errorf("job order %s is %s, and no recipe was started; see takt job why %s", h.ID, last.State, h.ID)}
	case !ok:
		return &exitError{exitFailed, fmt.Errorf("the start of the recipe of job order %s is no longer in its history, which begins at %s", h.ID, h.Entries[0].Time.UTC().Format(time.RFC3339Nano))}
	}
	was, err := h.Recipe(ctx, last)
	if err != nil {
		return err
	}
	got, err := program.Replay(snap.Job.RecipeOrder(), last.Execution.WorkMasterID, record, replayGrace)
	if err != nil {
		return err
	}
	out := replayed{JobOrderID: string(h.ID), Recorded: last.Execution.Recipe, Replayed: program.SHA(), Entries: got.Entries, Left: got.Left, Ends: endsOf(last.Execution), NowEnds: endsOf(got.Execution)}
	if was != nil {
		out.Commands = otherCommands(record, was, program.Recipe())
	}
	if p := got.Parted; p != nil {
		out.Parted = &replayParting{p.At.Sub(record[0].At).String(), p.Recorded, p.Replayed}
	}
	if err := c.print(a, &out, was, program.Recipe()); err != nil {
		return err
	}
	if out.Parted != nil || len(out.Commands) > 0 {
		return &exitError{Code: exitFailed}
	}
	return nil
}

// otherCommands lists actions that sent a command, and would send another one now.
func otherCommands(record []recipe.Recorded, was, now *recipe.Recipe) (all []string) {
	find := func(r *recipe.Recipe, name string) *recipe.Action {
		i := slices.IndexFunc(r.Actions, func(a recipe.Action) bool { return a.Name == name })
		if i < 0 {
			return &recipe.Action{}
		}
		return &r.Actions[i]
	}
	looked := make(map[string]bool)
	for _, entry := range record {
		for _, f := range entry.Facts {
			if f.Kind != recipe.FactCommand || looked[f.Action] {
				continue
			}
			looked[f.Action] = true
			a, b := find(was, f.Action), find(now, f.Action)
			switch {
			case b.Name == "": // the run parts
			case a.TypeID != b.TypeID:
				all = append(all, fmt.Sprintf("%s: TypeId %s, recorded %s", f.Action, b.TypeID, a.TypeID))
			case string(a.Parameters) != string(b.Parameters):
				all = append(all, fmt.Sprintf("%s: Parameters %s, recorded %s", f.Action, b.Parameters, a.Parameters))
			}
		}
	}
	return all
}

func (c *jobReplayCmd) print(a *app, r *replayed, was, now *recipe.Recipe) error {
	if c.JSON {
		return printJSON(a.out, r)
	}
	printf(a.out, "job order %s, recorded with recipe %.12s, replayed with %s (%.12s): %d entries\n", r.JobOrderID, r.Recorded, c.Recipe, r.Replayed, r.Entries)
	if p := r.Parted; p == nil {
		fmt.Fprintln(a.out, map[bool]string{true: "it goes the same way", false: "it goes the same way, with other commands"}[len(r.Commands) == 0])
	} else {
		printf(a.out, "they part %s after the start:\n", p.After)
		same := 0
		for same < min(len(p.Recorded), len(p.Replayed)) && p.Recorded[same].Text(was) == p.Replayed[same].Text(now) {
			same++
		}
		c.side(a, "both      ", p.Recorded[:same], was)
		c.side(a, "recorded  ", p.Recorded[same:], was)
		c.side(a, "replayed  ", p.Replayed[same:], now)
	}
	for _, other := range r.Commands {
		printf(a.out, "another command of %s\n", other)
	}
	for _, left := range r.Left {
		printf(a.out, "recorded, and no action waits for it: %s\n", left)
	}
	_, err := printf(a.out, "recorded end: %s\nreplayed end: %s\n", r.Ends, r.NowEnds)
	return err
}

func (c *jobReplayCmd) side(a *app, name string, facts []recipe.Fact, r *recipe.Recipe) {
	if len(facts) == 0 && name != "both      " {
		printf(a.out, "  %snothing more\n", name)
	}
	for i := range facts {
		printf(a.out, "  %s%s\n", name, facts[i].Text(r))
	}
}
