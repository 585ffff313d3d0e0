package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/redis/script"
)

// Start makes an instance active and queues its first task. ErrExists: another execution of it is active. A repeat with the same ID and Execution does
// nothing and is no error, so after any error that says nothing about the instance (Redis is away) it is safe to start again.
func (c *Client) Start(ctx context.Context, s Start) error { return c.start(ctx, "", s) }

// start is Start, done once in Options.KnownFor if id is given.
func (c *Client) start(ctx context.Context, id string, s Start) error {
	if err := c.checkStart("Start", s); err != nil {
		return err
	}
	home := c.of(s.Instance.ID)
	words, err := c.startWords(home, s, home, Instance{}, nil)
	if err != nil {
		return err
	}
	word, err := home.act(ctx, id, home.keys.Run(s.Instance.ID), words...)
	switch {
	case word == "exists":
		return fmt.Errorf("%w: %s", ErrExists, s.Instance.ID)
	case err != nil:
		return fmt.Errorf("workflow: start %s: %w", s.Instance.ID, err)
	}
	return nil
}

// Signal gives an event to the execution that is active, whichever that is; it outlives a continuation until it is handed out, as the first event of a task. ErrNotFound: none is active. The same Event.ID is
// delivered once within Options.KnownFor, so after any other error it is safe to signal again. Where its start is on its way from another shard, it waits for that, 30 s at most.
func (c *Client) Signal(ctx context.Context, id string, e Event) error {
	if err := checkName("Signal id", id); err != nil {
		return err
	}
	return c.give(ctx, Instance{ID: id}, e)
}

// Cancel gives an event that asks for the end to one execution, or to the active one if i.Execution is ""; it outlives a continuation then. What becomes of it is up to its code.
// ErrNotFound: it is not active. It may be repeated as Signal may.
func (c *Client) Cancel(ctx context.Context, i Instance, e Event) error {
	if err := i.checkOrActive("Cancel instance"); err != nil {
		return err
	}
	return c.give(ctx, i, e)
}

func (c *Client) give(ctx context.Context, i Instance, e Event) error {
	text, err := c.encode("Event", e)
	if err != nil {
		return err
	}
	outlives := "0"
	if i.Execution == "" {
		outlives = "1"
	}
	home := c.of(i.ID)
	act := func() (string, error) {
		return home.act(ctx, once(i.ID, e), home.keys.Run(i.ID), "event", i.ID, i.Execution, text, outlives)
	}
	word, err := act()
	if unheard := word == "later" || word == "gone" && i.Execution == ""; unheard && len(c.shards) > 1 {
		if err = c.arrived(ctx, i.ID); err != nil {
			return fmt.Errorf("workflow: %s for %s: %w", e.Type, i.ID, err)
		}
		word, err = act()
	}
	switch {
	case err != nil && (word == "" || word == "ok" || word == "dup"):
		return fmt.Errorf("workflow: %s for %s: %w", e.Type, i.ID, err)
	case word == "ok" || word == "dup":
		return nil
	}
	return notActive(i)
}

// once is under what an event of an instance is remembered. Ids of instances have no control characters.
func once(instance string, e Event) string { return instance + "\n" + e.ID }

// SignalWithStart gives an event to the active execution, or starts one if none is, which then gets the event after its first, in one step. started says whether s is what got it.
// It is safe to repeat. ErrNotFound: none is active, and the execution that s names has been there before; choose another.
func (c *Client) SignalWithStart(ctx context.Context, e Event, s Start) (started bool, err error) {
	if err := c.checkStart("Start", s); err != nil {
		return false, err
	}
	text, err := c.encode("Event", e)
	if err != nil {
		return false, err
	}
	home := c.of(s.Instance.ID)
	words, err := c.startWords(home, s, home, Instance{}, nil)
	if err != nil {
		return false, err
	}
	word, err := home.act(ctx, once(s.Instance.ID, e), home.keys.Run(s.Instance.ID), append([]string{"either", text}, words[1:]...)...)
	switch {
	case err != nil && word != "gone":
		return false, fmt.Errorf("workflow: %s for %s, or its start: %w", e.Type, s.Instance.ID, err)
	case word == "ok" || word == "started":
		return word == "started", nil
	case word == "dup":
		_, err := home.document(ctx, s.Instance, false)
		if errors.Is(err, ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	}
	return false, absence(fmt.Sprintf("no execution of %s is active, and there was an execution %s already", s.Instance.ID, s.Instance.Execution))
}

const mostPause = 200 * time.Millisecond // before a call is repeated while Redis is away

// act runs words of act on this shard, once in Options.KnownFor if id is given. It is repeated while Redis is away and the words bear that, for as long as ctx allows, at most callTimeout.
func (s *shard) act(ctx context.Context, id, key string, words ...string) (string, error) {
	return s.actOnce(ctx, id, s.c.opts.KnownFor, key, words...)
}

func (s *shard) actOnce(ctx context.Context, id string, known time.Duration, key string, words ...string) (string, error) {
	args := append([]string{s.base, id, milliseconds(known)}, words...)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, mostPause) {
		reply, err := actScript.Run(ctx, s.c.rdb, []string{key}, args...).AsStrSlice()
		if err == nil && len(reply) == 1 {
			return reply[0], nil
		}
		if err == nil {
			return "", fmt.Errorf("act.lua replied %q", reply)
		}
		if !redis.Away(err) || ctx.Err() != nil {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(pause):
		}
	}
}

// Terminate ends an execution from outside, or the active one if i.Execution is "": its code does not run any more, activities that wait are dropped, results of
// those that run are refused. A parent gets EventSubFailed. ErrNotFound: it is not active. After any other error it is unknown whether it has ended.
func (c *Client) Terminate(ctx context.Context, i Instance, reason string) error {
	if err := i.checkOrActive("Terminate instance"); err != nil {
		return err
	}
	home := c.of(i.ID)
	for ctx.Err() == nil {
		doc, err := home.document(ctx, i, true)
		if err != nil {
			return err
		}
		word, err := c.terminate(ctx, home, doc, reason)
		switch {
		case err != nil:
			return fmt.Errorf("workflow: terminate %s: %w", i.ID, err)
		case word == "ok":
			return nil
		case word == "none" && i.Execution != "": // else it may have continued as new since
			return notActive(i)
		}
	}
	return fmt.Errorf("workflow: terminate %s: %w", i.ID, context.Cause(ctx))
}

// terminate decides the end of an execution on its document and commits it.
func (c *Client) terminate(ctx context.Context, home *shard, doc string, reason string) (string, error) {
	var info Info
	more, err := strictly(doc, &info)
	if err != nil {
		return "", err
	}
	after, event, parent := terminated(info, time.Now(), reason)
	text, err := encodeOver(doc, more, after)
	if err != nil {
		return "", err
	}
	last, err := c.encode("event", event)
	if err != nil {
		return "", err
	}
	args := []string{home.base, info.ID, info.Execution, script.SHA1(doc), text, last, c.opts.keep(), "", "", "", "", "", "", ""}
	if g := info.Gate; g != nil {
		args[7], args[8], args[9] = g.Key, c.of(g.Key).name(home), home.name(c.of(g.Key))
	}
	if parent != nil {
		told, err := c.encode("event", *parent)
		if err != nil {
			return "", err
		}
		args[10], args[11], args[12], args[13] = c.of(info.Parent.ID).name(home), info.Parent.ID, info.Parent.Execution, told
	}
	reply, err := terminateScript.Run(ctx, c.rdb, []string{home.keys.Run(info.ID), home.keys.Document(info.ID, info.Execution), home.keys.History(info.ID, info.Execution)}, args...).AsStrSlice()
	if err != nil || len(reply) != 1 {
		return "", errors.Join(err, fmt.Errorf("terminate.lua replied %q", reply))
	}
	return reply[0], nil
}

// terminated is what an execution, its history and its parent (nil = none) get when it is ended from outside.
func terminated(before Info, now time.Time, reason string) (after Info, last Event, parent *Event) {
	after = before
	after.State, after.Outcome, after.Ended, after.LastEvent = Finished, Terminated, &now, ""
	after.LastSequence++
	data, _ := json.Marshal(map[string]string{"reason": reason}) // strings always can be
	last = Event{ID: newID(), Type: EventTerminated, Sequence: after.LastSequence, Time: now, Data: data}
	if before.Parent == nil {
		return after, last, nil
	}
	data, _ = json.Marshal(map[string]any{"error": map[string]string{"type": "*workflow.Terminated", "message": "the sub-workflow was terminated: " + reason}})
	return after, last, &Event{ID: newID(), Type: EventSubFailed, Ref: before.ParentEvent, Time: now, Data: data}
}
