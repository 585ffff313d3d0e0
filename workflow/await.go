package workflow

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/redis"
)

// Await blocks until an execution has ended, which it is told of at once, and returns its document and the last event of its history. With Execution "" the newest one is
// meant. ErrNotFound: there is none, or it was removed. It outlives losses of Redis until ctx ends; its error is then the cause of ctx.
func (c *Client) Await(ctx context.Context, i Instance) (info Info, last Event, err error) {
	if i.Execution == "" {
		if info, err = c.Info(ctx, i); err != nil {
			return Info{}, Event{}, err
		}
		i = info.Instance
	}
	if err := i.check("Await instance"); err != nil {
		return Info{}, Event{}, err
	}
	s := c.of(i.ID)
	told, forget := c.waits.Add(ctx, s.keys.AwaitChannel(c.waits.Name), i.String())
	defer forget()
	for {
		reply, err := awaitScript.Run(ctx, c.rdb, []string{s.keys.Run(i.ID), s.keys.Document(i.ID, i.Execution), s.keys.History(i.ID, i.Execution)}, s.base, i.Execution, c.waits.Name).AsStrSlice()
		switch {
		case err == nil && len(reply) == 3:
			return ended(reply[1], reply[2])
		case err == nil && reply[0] == "none":
			return Info{}, Event{}, fmt.Errorf("%w: %s", ErrNotFound, i)
		case ctx.Err() != nil:
			return Info{}, Event{}, fmt.Errorf("workflow: await %s: %w", i, context.Cause(ctx))
		case err != nil && !redis.Away(err):
			return Info{}, Event{}, fmt.Errorf("workflow: await %s: %w", i, err)
		}
		select {
		case <-ctx.Done():
		case text := <-told:
			if doc, event, ok := strings.Cut(text, "\n"); ok {
				return ended(doc, event)
			}
		case <-time.After(redis.WaitPoll):
		}
	}
}

// ended is the end of an execution as it is stored.
func ended(doc, event string) (info Info, last Event, err error) {
	if info, err = decodeInfo(doc); err != nil || event == "" {
		return info, last, err
	}
	last, err = decodeEvent(event)
	return info, last, err
}
