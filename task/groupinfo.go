package task

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/task/internal/wire"
)

var (
	cancelGroupScript = script.Load(files, "task/cancelgroup")
	innerScript       = script.LoadReader(files, "task/inner")
)

// GroupInfo is how far a group is.
type GroupInfo struct {
	ID        string      `json:"id"`
	Children  int         `json:"children"`
	Submitted int         `json:"submitted"` // of Children; less only while Spawn is at work, or was cut short
	Remaining int         `json:"remaining"` // that have not ended
	OK        int         `json:"ok"`        // that are done
	Failed    int         `json:"failed"`    // that are dead or cancelled
	Policy    GroupPolicy `json:"policy"`
	Outer     string      `json:"outer,omitempty"` // child of another group whose place it takes, see Inherit; "" = none
	Stopped   bool        `json:"stopped"`         // what has not ended is to be cancelled
	Fired     string      `json:"fired"`           // "" while children remain; then what followed: "callback", "failure" or "none"
	Created   time.Time   `json:"created"`
	Expires   time.Time   `json:"expires,omitzero"` // unless a child ends before; by the clock of this process
}

// ChildID is the id of the child in that place, from 0.
func (g *Group) ChildID(i int) string { return childID(g.ID, i) }

// CallbackID is the id of the callback task; Type.HandleOf makes a handle of it, to await what it returns.
func (g *Group) CallbackID() string { return callbackID(g.ID) }

// FailureID is the id of the OnFailure task.
func (g *Group) FailureID() string { return failureID(g.ID) }

// Info looks how far the group is. ErrNotFound: it has expired. One round trip.
func (g *Group) Info(ctx context.Context) (GroupInfo, error) { return g.client.Group(ctx, g.ID) }

// Cancel is Client.CancelGroup.
func (g *Group) Cancel(ctx context.Context) error { return g.client.CancelGroup(ctx, g.ID) }

// Group looks how far a group is. ErrNotFound: there is none of that id, or not any more. One round trip.
func (c *Client) Group(ctx context.Context, id string) (GroupInfo, error) {
	key, b := c.keys.GroupState(id), c.rdb.B()
	replies := c.rdb.DoMulti(ctx,
		b.Hmget().Key(key).Field("total", "sent", "ok", "failed", "policy", "stopped", "fired", "created", "outer").Build(),
		b.Get().Key(c.keys.GroupRemaining(id)).Build(), b.Pttl().Key(key).Build())
	fields, err := replies[0].ToArray()
	if err != nil {
		return GroupInfo{}, fmt.Errorf("task: group %s: %w", id, err)
	}
	text := func(i int) string { s, _ := fields[i].ToString(); return s }
	number := func(i int) int { n, _ := strconv.Atoi(text(i)); return n }
	if text(0) == "" {
		return GroupInfo{}, fmt.Errorf("%w: group %s", ErrNotFound, id)
	}
	left, err := replies[1].AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return GroupInfo{}, fmt.Errorf("task: group %s: %w", id, err)
	}
	ttl, err := replies[2].AsInt64()
	if err != nil {
		return GroupInfo{}, fmt.Errorf("task: group %s: %w", id, err)
	}
	return GroupInfo{
		ID: id, Children: number(0), Submitted: number(1), Remaining: int(left), OK: number(2), Failed: number(3), Policy: GroupPolicy(text(4)),
		Outer: text(8), Stopped: text(5) != "", Fired: text(6), Created: time.UnixMilli(int64(number(7))), Expires: time.Now().Add(time.Duration(ttl) * time.Millisecond),
	}, nil
}

// Child is a child of a group.
type Child struct {
	ID     string `json:"id"`
	Name   string `json:"name,omitempty"`   // of its type; "" = not known: nothing keeps it of one that is done
	State  State  `json:"state,omitempty"`  // "" = it has not ended, and is not near an end of the places where tasks wait
	Worker string `json:"worker,omitempty"` // that runs it, as that said last
	Error  string `json:"error,omitempty"`  // why it failed
	// Inner is the group that takes its place, if it was spawned with Inherit and without GroupID: ID, Children, OK, Failed and Fired of it.
	Inner *GroupInfo `json:"inner,omitempty"`
}

// GroupChildren are at most 500 children of a group, from the place from on. ErrNotFound: there is no group of that id, or not any more. As FindNear it looks
// for those that have not ended at both ends of the places where tasks wait, and among what workers said last, so one that just began may still be waiting. At most 14 commands.
func (c *Client) GroupChildren(ctx context.Context, id string, from, most int) ([]Child, error) {
	if from < 0 || most < 1 || most > resultPage {
		return nil, fmt.Errorf("task: children of group %s: %d from %d on: want 1 to %d, from 0 on", id, most, from, resultPage)
	}
	info, err := c.Group(ctx, id)
	if err != nil || from >= info.Children {
		return nil, err
	}
	children := make([]Child, min(most, info.Children-from))
	var errors, results, ids, inner []string
	for i := range children {
		children[i].ID = childID(id, from+i)
		inner = append(inner, c.keys.GroupState(inheritID(children[i].ID)))
		errors, results, ids = append(errors, "error "+strconv.Itoa(from+i)), append(results, c.keys.GroupResult(id, children[i].ID)), append(ids, children[i].ID)
	}
	b := c.rdb.B()
	var of [4][]rueidis.RedisMessage
	for i, r := range c.rdb.DoMulti(ctx, b.Hmget().Key(c.keys.GroupState(id)).Field(errors...).Build(), b.Mget().Key(results...).Build(),
		b.Hmget().Key(c.keys.TaskBlocked()).Field(ids...).Build(), b.Hmget().Key(c.keys.TaskDead()).Field(ids...).Build()) {
		if of[i], err = r.ToArray(); err != nil {
			return nil, fmt.Errorf("task: children of group %s: %w", id, err)
		}
	}
	groups, err := innerScript.Run(ctx, c.rdb, inner).ToArray()
	if err != nil {
		return nil, fmt.Errorf("task: children of group %s: %w", id, err)
	}
	if info.Remaining > 0 {
		if err := c.liveChildren(ctx, id, children); err != nil {
			return nil, fmt.Errorf("task: children of group %s: %w", id, err)
		}
	}
	for i := range children {
		child := &children[i]
		if words, err := groups[i].AsStrSlice(); err == nil && words[0] != "" {
			number := func(i int) int { n, _ := strconv.Atoi(words[i]); return n }
			child.Inner = &GroupInfo{ID: inheritID(child.ID), Children: number(0), OK: number(1), Failed: number(2), Fired: words[3]}
		}
		if raw, err := of[2][i].ToString(); err == nil {
			child.Name, child.State = viewOf(raw).Name, StateBlocked
		}
		if raw, err := of[3][i].AsBytes(); err == nil {
			if l, err := letterCodec.DecodeValue(raw); err == nil {
				child.Name = ofLetter(child.ID, &l).Name
			}
		}
		if !of[1][i].IsNil() {
			child.State = StateDone
		}
		if raw, err := of[0][i].AsBytes(); err == nil {
			child.State = StateDead
			result, err := wire.DecodeResult(raw)
			if err != nil {
				child.Error = err.Error()
			} else if failed := failureOf(&result); failed != nil {
				child.Error = failed.Error()
				if failed.Type == string(Cancelled) {
					child.State = StateCancelled
				}
			}
		}
	}
	return children, nil
}

// liveChildren says what is known of children that wait or run.
func (c *Client) liveChildren(ctx context.Context, gid string, children []Child) error {
	by := make(map[string]*Child, len(children))
	for i := range children {
		by[children[i].ID] = &children[i]
	}
	tasks, err := c.peek(ctx, ownName+gid+":", peeked)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if child := by[t.ID]; child != nil {
			child.Name, child.State = t.Name, t.State
		}
	}
	workers, err := c.Workers(ctx)
	for _, w := range workers {
		for _, run := range w.Running {
			if child := by[run.ID]; child != nil {
				child.Name, child.State, child.Worker = run.Name, StateRunning, w.ID
			}
		}
	}
	return err
}

// OuterGroup is the id of the group with the child whose place this group takes; "" = none.
func (i *GroupInfo) OuterGroup() string {
	return strings.TrimPrefix(i.Outer[:max(0, strings.LastIndex(i.Outer, ":"))], ownName)
}

// CancelGroup has all children cancelled that have not ended: those that run now have the end of their context to obey, those that wait end when their turn
// comes. What follows is up to the group's policy, as after any failure. A group whose children have all ended stays as it is. ErrNotFound: there is none of
// that id. One round trip.
func (c *Client) CancelGroup(ctx context.Context, id string) error {
	k := c.keys
	reply, err := cancelGroupScript.Run(ctx, c.rdb, []string{k.GroupState(id), k.GroupRemaining(id), k.TaskCancelled()}, groupMark(id), k.TaskControl()).AsStrSlice()
	switch {
	case err != nil:
		return fmt.Errorf("task: cancel group %s: %w", id, err)
	case len(reply) == 1 && reply[0] == "none":
		return fmt.Errorf("%w: group %s", ErrNotFound, id)
	case len(reply) != 1 || reply[0] != "ok" && reply[0] != "ended":
		return fmt.Errorf("task: cancelgroup.lua replied %q", reply)
	}
	return nil
}

// GroupResults are the results of the children of the group that called back, for the handler of its callback or OnFailure task: in the order of the children, with an Err
// where one failed (Type "cancelled" if it was cancelled, "missing" if it has not ended or its result has expired). R is what all of them return; any takes all there is.
// One round trip for up to 500 children, and one more for each 500.
func GroupResults[R any](ctx context.Context) ([]Result[R], error) {
	r := running(ctx)
	if r == nil {
		return nil, errors.New("task: GroupResults: want a handler's context")
	}
	gid := r.msg.Labels.String(callbackLabel)
	if gid == "" {
		return nil, errors.New("task: GroupResults: this task is not the callback of a group")
	}
	return GroupResultsOf[R](ctx, r.worker.client, gid)
}

const resultPage = 500 // children of one round trip

// GroupResultsOf is GroupResults for a group by its id, from anywhere and at any time. ErrNotFound: there is none of that id, or not any more.
func GroupResultsOf[R any](ctx context.Context, c *Client, id string) ([]Result[R], error) {
	codec, err := wire.NewCodec[R](wire.EitherForm)
	if err != nil {
		return nil, fmt.Errorf("task: results of group %s: %w", id, err)
	}
	total, failures, err := c.groupFailures(ctx, id)
	if err != nil {
		return nil, err
	}
	results := make([]Result[R], total)
	for from := 0; from < total; from += resultPage {
		page := results[from:min(from+resultPage, total)]
		names := make([]string, len(page))
		for i := range page {
			names[i] = c.keys.GroupResult(id, childID(id, from+i))
		}
		values, err := c.rdb.Do(ctx, c.rdb.B().Mget().Key(names...).Build()).ToArray()
		if err != nil {
			return nil, fmt.Errorf("task: results of group %s: %w", id, err)
		}
		for i := range page {
			raw, err := values[i].AsBytes()
			switch {
			case failures[from+i] != nil:
				page[i].Err = failures[from+i]
			case err != nil:
				page[i].Err = &Error{Type: "missing", Message: "the child has not ended, or its result has expired"}
			case len(raw) == 1 && raw[0] == 0xc0: // nil
			default:
				if page[i].Value, err = codec.DecodeValue(raw); err != nil {
					return nil, fmt.Errorf("task: result of %s: %w", childID(id, from+i), unfit(err))
				}
			}
		}
	}
	return results, nil
}

// groupFailures is how many children a group has, and how some failed, by slot.
func (c *Client) groupFailures(ctx context.Context, id string) (total int, failures map[int]*Error, err error) {
	state, err := c.rdb.Do(ctx, c.rdb.B().Hgetall().Key(c.keys.GroupState(id)).Build()).AsStrMap()
	if err != nil {
		return 0, nil, fmt.Errorf("task: group %s: %w", id, err)
	}
	if total, err = strconv.Atoi(state["total"]); err != nil || total < 0 || total > maxChildren {
		return 0, nil, fmt.Errorf("%w: group %s", ErrNotFound, id)
	}
	failures = make(map[int]*Error)
	for field, value := range state {
		text, ok := strings.CutPrefix(field, "error ")
		slot, err := strconv.Atoi(text)
		if !ok || err != nil {
			continue
		}
		result, err := wire.DecodeResult([]byte(value))
		if err != nil {
			return 0, nil, fmt.Errorf("task: error of %s: %w", childID(id, slot), err)
		}
		failures[slot] = failureOf(&result)
	}
	return total, failures, nil
}
