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

var cancelGroupScript = script.Load(files, "task/cancelgroup")

// GroupInfo is how far a group is.
type GroupInfo struct {
	ID        string      `json:"id"`
	Children  int         `json:"children"`
	Submitted int         `json:"submitted"` // of Children; less only while Spawn is at work, or was cut short
	Remaining int         `json:"remaining"` // that have not ended
	OK        int         `json:"ok"`        // that are done
	Failed    int         `json:"failed"`    // that are dead or cancelled
	Policy    GroupPolicy `json:"policy"`
	Stopped   bool        `json:"stopped"` // what has not ended is to be cancelled
	Fired     string      `json:"fired"`   // "" while children remain; then what followed: "callback", "failure" or "none"
	Created   time.Time   `json:"created"`
	Expires   time.Time   `json:"expires"` // unless a child ends before; by the clock of this process
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
		b.Hmget().Key(key).Field("total", "sent", "ok", "failed", "policy", "stopped", "fired", "created").Build(),
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
		Stopped: text(5) != "", Fired: text(6), Created: time.UnixMilli(int64(number(7))), Expires: time.Now().Add(time.Duration(ttl) * time.Millisecond),
	}, nil
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
