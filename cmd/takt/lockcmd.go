package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/task"
)

type lockCmd struct {
	List  lockListCmd  `cmd:"" looks:"" help:"List locks that are held or waited for, and limiters in use."`
	Show  lockShowCmd  `cmd:"" looks:"" help:"Show one lock or limiter, with everybody who has it."`
	Break lockBreakCmd `cmd:"" help:"Take a lock from its holder, or reset a limiter."`
}

type lockListCmd struct {
	Match string `help:"Only keys that fit this pattern, as Redis has them: lock:mutex:job:*." placeholder:"GLOB"`
	Limit int    `help:"At most so many." must:"be 1 to 100000" default:"1000"`
	JSON  bool   `name:"json" help:"One JSON object per lock."`
}

func (c *lockListCmd) Run(ctx context.Context, a *app, client *task.Client) error {
	locks, err := client.Locker().List(ctx, c.Match, c.Limit)
	if err != nil {
		return err
	}
	table := a.list(c.JSON, "KIND", "KEY", "HELD BY", "EXPIRES IN", "FENCE", "WAITERS")
	for _, l := range locks {
		table.add(l, l.Kind, l.Key, holders(&l), l.ExpiresIn.Round(time.Millisecond), l.Fence, l.Waiters)
	}
	return table.flush()
}

type lockShowCmd struct {
	Key  string `arg:"" help:"Key, as takt lock list shows it."`
	JSON bool   `name:"json" help:"One JSON object."`
}

// exactly escapes what is special in a pattern of Redis.
var exactly = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

func (c *lockShowCmd) Run(ctx context.Context, a *app, client *task.Client) error {
	found, err := client.Locker().List(ctx, exactly.Replace(c.Key)+"*", 0) // a lock that is only waited for has a key behind its own
	if err != nil {
		return err
	}
	i := slices.IndexFunc(found, func(l lock.Info) bool { return l.Key == c.Key })
	if i < 0 {
		return &exitError{exitRefused, fmt.Errorf("%s: no client holds it or waits for it", c.Key)}
	}
	l := &found[i]
	if c.JSON {
		return printJSON(a.out, l)
	}
	t := newFields(a.out)
	t.row("key", l.Key)
	t.row("kind", l.Kind)
	t.row("held by", holders(l))
	t.row("fence", l.Fence)
	t.row("waiters", l.Waiters)
	for _, o := range l.Owners {
		t.row("owner", fmt.Sprintf("%s, %s", o.Name, expires(o)))
	}
	return t.flush()
}

func expires(o lock.Owner) string {
	text := "for ever"
	if o.ExpiresIn > 0 {
		text = "expires in " + o.ExpiresIn.Round(time.Millisecond).String()
	}
	if o.Writes {
		text += ", to write"
	}
	return text
}

// holders is who has a lock, or how much of a limiter is used.
func holders(l *lock.Info) string {
	switch {
	case l.Kind == "rate":
		return fmt.Sprintf("%d of %d in %v", l.Used, l.Limit, l.Window)
	case l.Kind == "concurrency":
		return fmt.Sprintf("%d slots", l.Used)
	case l.Readers > 0:
		return fmt.Sprintf("%d readers", l.Readers)
	}
	var names []string
	for _, o := range l.Owners {
		names = append(names, o.Name)
	}
	return strings.Join(names, ", ")
}

type lockBreakCmd struct {
	Key  string `arg:"" help:"Key, as takt lock list shows it."`
	Yes  bool   `help:"Say that you know what the holder will do."`
	JSON bool   `name:"json" help:"One JSON object: the lock as it was."`
}

func (c *lockBreakCmd) Run(ctx context.Context, a *app) error {
	if !c.Yes {
		return &exitError{exitUsage, errors.New("two may hold the lock until the holder notices; say --yes if that is what you want")}
	}
	return with(ctx, a.openTasks, func(client *task.Client) error {
		l, err := client.Locker().Break(ctx, c.Key)
		return a.tell(err, c.JSON, l, "%s: broken, it was held by %s\n", l.Key, holders(&l))
	})
}
