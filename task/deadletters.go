package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/task/internal/wire"
)

var (
	requeueScript = script.Load(files, "task/requeue")
	unburyScript  = script.Load(files, "task/unbury")
)

// DeadLetters are the tasks that failed for good, and the messages that could not be read. They are kept until somebody requeues or deletes them. All methods are safe for
// concurrent use, by several operators too: of two that requeue one letter, one does.
type DeadLetters interface {
	// List reads one page, oldest first.
	List(ctx context.Context, f DeadFilter) (DeadPage, error)
	// Show is one letter; ErrNotFound: there is none.
	Show(ctx context.Context, id string) (DeadLetter, error)
	// Requeue gives tasks another life, with the same id, fresh counters and the history of failures that they had. It returns how many it did; the error, of errors.Join,
	// has one *RequeueError for each that it did not: ErrNotFound, ErrUnreadable, a *DuplicateError, or of the connection: then it is safe to repeat.
	Requeue(ctx context.Context, ids ...string) (int, error)
	// Delete forgets letters for good, and returns how many there were.
	Delete(ctx context.Context, ids ...string) (int, error)
}

// DeadLetter is one task that failed for good, or a message that could not be read.
type DeadLetter struct {
	Task
	Reason   string `json:"reason"`   // type of its last error, or one of "deliveries", "unknown", "timeout", "undecodable"
	Readable bool   `json:"readable"` // false: it cannot be requeued, and Raw has the bytes

	Stored []byte `json:"-"` // as it is kept, for ReadDeadLetter

	message []byte // as it died: a TaskMessage, if Readable
}

// DeadFilter says which letters are meant. The zero value is all.
type DeadFilter struct {
	Name   string    // of the type, "" = all
	Reason string    // "" = all
	Queue  Queue     // "" = all
	Since  time.Time // died then or later; zero = whenever
	Until  time.Time // died before; zero = whenever
	Limit  int       // letters of one page, 1 to 500; 0 = 100
	After  string    // DeadPage.Next of the page before; "" = from the beginning
}

// DeadPage is one page of dead letters. With a filter it may be short or empty while Next is not "".
type DeadPage struct {
	Letters []DeadLetter `json:"letters"`
	Next    string       `json:"next,omitempty"` // for DeadFilter.After; "" = this was the last
}

// Matches says whether the filter lets a letter through.
func (f DeadFilter) Matches(d *DeadLetter) bool {
	return (f.Name == "" || d.Name == f.Name) && (f.Reason == "" || d.Reason == f.Reason) && (f.Queue == "" || d.Queue == f.Queue) &&
		(f.Since.IsZero() || !d.Died.Before(f.Since)) && (f.Until.IsZero() || d.Died.Before(f.Until))
}

// Complete checks the filter, and fills Limit in.
func (f DeadFilter) Complete() (DeadFilter, error) {
	if f.Limit < 0 || f.Limit > maxLimit {
		return f, fmt.Errorf("task: DeadFilter.Limit %d: want 1 to %d, 0 for %d", f.Limit, maxLimit, defaultLimit)
	}
	f.Limit = cmp.Or(f.Limit, defaultLimit)
	return f, nil
}

// ErrUnreadable: the dead letter holds no message that could be submitted. Look at its bytes with Show, and delete it.
var ErrUnreadable = errors.New("task: the dead letter holds no message that can be read")

// RequeueError says why one dead letter was not requeued.
type RequeueError struct {
	ID  string
	Err error
}

func (e *RequeueError) Error() string {
	return fmt.Sprintf("task: dead letter %s is not requeued: %v", e.ID, e.Err)
}
func (e *RequeueError) Unwrap() error { return e.Err }

// RequeueAll requeues the letters that a filter means, those that are there when it begins: what dies again meanwhile is left. It holds their ids in memory.
func RequeueAll(ctx context.Context, d DeadLetters, f DeadFilter) (int, error) {
	return eachPage(ctx, d, f, d.Requeue)
}

// DeleteAll deletes the letters that a filter means, as RequeueAll.
func DeleteAll(ctx context.Context, d DeadLetters, f DeadFilter) (int, error) {
	return eachPage(ctx, d, f, d.Delete)
}

func eachPage(ctx context.Context, d DeadLetters, f DeadFilter, do func(context.Context, ...string) (int, error)) (n int, err error) {
	var ids []string
	for f.Limit = maxLimit; ; {
		page, err := d.List(ctx, f)
		if err != nil {
			return 0, err
		}
		for i := range page.Letters {
			ids = append(ids, page.Letters[i].ID)
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	var all []error
	for part := range slices.Chunk(ids, maxLimit) {
		m, err := do(ctx, part...)
		n += m
		if err != nil {
			all = append(all, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return n, errors.Join(all...)
}

// RedisDeadLetters are the dead letters where workers put them.
type RedisDeadLetters struct{ c *Client }

var _ DeadLetters = (*RedisDeadLetters)(nil)

// DeadLetters are those in Redis.
func (c *Client) DeadLetters() *RedisDeadLetters { return &RedisDeadLetters{c} }

// Count is how many there are. One command.
func (d *RedisDeadLetters) Count(ctx context.Context) (int64, error) {
	n, err := d.c.rdb.Do(ctx, d.c.rdb.B().Hlen().Key(d.c.keys.TaskDead()).Build()).AsInt64()
	return n, deadError("count", err)
}

// List takes at most 16 commands and reads up to 4,000 letters for one page.
func (d *RedisDeadLetters) List(ctx context.Context, f DeadFilter) (DeadPage, error) {
	f, err := f.Complete()
	if err != nil {
		return DeadPage{}, err
	}
	at, err := parsePosition(f.After)
	if err != nil {
		return DeadPage{}, err
	}
	var page DeadPage
	for range listCommands / 2 {
		index, err := d.c.setPage(ctx, d.c.keys.TaskDeadIndex(), at, int64(f.Limit))
		if err != nil || len(index) == 0 {
			return page, deadError("list", err)
		}
		letters, err := d.c.letters(ctx, index)
		if err != nil {
			return page, deadError("list", err)
		}
		for i, raw := range letters {
			if raw != "" { // else it is gone meanwhile
				l := ReadDeadLetter(index[i].Member, []byte(raw))
				if f.Matches(&l) && len(page.Letters) == f.Limit {
					page.Next = at.String()
					return page, nil
				}
				if f.Matches(&l) {
					page.Letters = append(page.Letters, l)
				}
			}
			at = at.behind(index[i].Score)
		}
		if len(index) < f.Limit {
			return page, nil
		}
		if len(page.Letters) == f.Limit {
			break
		}
	}
	page.Next = at.String()
	return page, nil
}

func deadError(what string, err error) error {
	if err != nil {
		err = fmt.Errorf("task: dead letters: %s: %w", what, err)
	}
	return err
}

// ReadDeadLetter reads DeadLetter.Stored again, for stores of dead letters. What cannot be read is shown in hex.
func ReadDeadLetter(id string, stored []byte) DeadLetter {
	l, err := letterCodec.DecodeValue(stored)
	if err != nil {
		l = letter{ErrType: "undecodable", ErrMessage: err.Error(), Message: stored}
	}
	d := DeadLetter{Task: ofLetter(id, &l), Reason: l.ErrType, Readable: l.Readable, Stored: stored, message: l.Message}
	if d.Name == "" {
		d.Readable = false
	}
	return d
}

// Show is one letter. One round trip.
func (d *RedisDeadLetters) Show(ctx context.Context, id string) (DeadLetter, error) {
	raw, err := d.c.rdb.Do(ctx, d.c.rdb.B().Hget().Key(d.c.keys.TaskDead()).Field(id).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return DeadLetter{}, fmt.Errorf("%w: no dead letter of %s", ErrNotFound, id)
	}
	if err != nil {
		return DeadLetter{}, deadError("show "+id, err)
	}
	return ReadDeadLetter(id, []byte(raw)), nil
}

// Requeue is one script for each letter, in two round trips; three if the task has a deadline.
func (d *RedisDeadLetters) Requeue(ctx context.Context, ids ...string) (n int, err error) {
	var all []error
	for _, id := range ids {
		if err := d.requeue(ctx, id); err != nil {
			all = append(all, &RequeueError{id, err})
		} else {
			n++
		}
	}
	return n, errors.Join(all...)
}

func (d *RedisDeadLetters) requeue(ctx context.Context, id string) error {
	for range moveChases {
		l, err := d.Show(ctx, id)
		if err != nil {
			return err
		}
		word, _, err := d.c.requeue(ctx, &l, "0")
		if err != nil || word == "ok" {
			return err
		}
		if word == "gone" {
			return fmt.Errorf("%w: no dead letter of %s", ErrNotFound, id)
		}
	}
	return errors.New("it dies again and again, try again")
}

// Resubmit gives a task another life whose letter was moved out of Redis, as Requeue does; l is what Move handed over, or ReadDeadLetter made of it. A death is requeued once,
// here or by Requeue, for Options.KnownFor, so it is safe to repeat. It is for stores of dead letters.
func (c *Client) Resubmit(ctx context.Context, l DeadLetter) (Ref, error) {
	_, entry, err := c.requeue(ctx, &l, "1")
	if err != nil {
		return Ref{}, err
	}
	return Ref{ID: l.ID, Queue: l.Queue, Entry: entry}, nil
}

// requeue is requeue.lua. elsewhere "1" = the letter need not be in Redis.
func (c *Client) requeue(ctx context.Context, l *DeadLetter, elsewhere string) (word, entry string, err error) {
	raw, m, err := c.newLife(ctx, l)
	if err != nil {
		return "", "", err
	}
	k := c.keys
	queue := queueOfMessage(&m)
	if err := queue.validate(); err != nil {
		return "", "", err
	}
	stream, err := c.target(ctx, queue)
	if err != nil {
		return "", "", fmt.Errorf("task: requeue %s: %w", m.ID, err)
	}
	unique := stream
	if m.Meta.Unique != "" {
		unique = k.TaskUnique(m.Meta.Unique)
	}
	death := k.TaskKnown(fmt.Sprintf("requeue:%s@%d", m.ID, l.Died.UnixMicro()))
	keys := []string{k.TaskDead(), k.TaskDeadIndex(), stream, k.TaskResult(m.ID), k.TaskCancelled(), k.TaskKnown("id:" + m.ID), death, unique}
	reply, err := requeueScript.Run(ctx, c.rdb, keys, m.ID, script.SHA1(string(l.Stored)), rueidis.BinaryString(raw), ms(defaultUniqueFor), ms(c.opts.KnownFor), elsewhere).AsStrSlice()
	switch {
	case err != nil:
		return "", "", fmt.Errorf("task: requeue %s: %w", m.ID, err)
	case len(reply) == 2 && reply[0] == "duplicate":
		return "", "", &DuplicateError{Key: m.Meta.Unique, ID: reply[1]}
	case len(reply) == 2:
		return reply[0], reply[1], nil
	case len(reply) == 1:
		return reply[0], "", nil
	}
	return "", "", fmt.Errorf("task: requeue.lua replied %q", reply)
}

// newLife is the message of a dead task as it begins anew: no attempt counts, a deadline that is over by the server's clock is gone, the history stays. One round
// trip if it has a deadline, else none.
func (c *Client) newLife(ctx context.Context, l *DeadLetter) ([]byte, wire.Message, error) {
	if !l.Readable {
		return nil, wire.Message{}, ErrUnreadable
	}
	m, err := wire.Decode(l.message)
	if err != nil {
		return nil, m, errors.Join(ErrUnreadable, err)
	}
	m.Labels = slices.DeleteFunc(slices.Clone(m.Labels), func(l wire.Label) bool { return l.Key == retryLabel })
	m.Meta.Snoozes, m.Meta.Blocked, m.Meta.Unknown, m.Meta.Start = 0, 0, 0, ""
	if m.Meta.Deadline > 0 {
		now, err := c.Now(ctx)
		if err != nil {
			return nil, m, err
		}
		if m.Meta.Deadline <= now.UnixMilli() {
			m.Meta.Deadline = 0
		}
	}
	raw, err := m.Append(nil)
	return raw, m, err
}

// Delete is one round trip for 500 letters.
func (d *RedisDeadLetters) Delete(ctx context.Context, ids ...string) (n int, err error) {
	for part := range slices.Chunk(ids, maxLimit) {
		args := make([]string, 0, 2*len(part))
		for _, id := range part {
			args = append(args, id, "")
		}
		m, err := d.delete(ctx, args)
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// delete is unbury.lua.
func (d *RedisDeadLetters) delete(ctx context.Context, args []string) (int, error) {
	n, err := unburyScript.Run(ctx, d.c.rdb, []string{d.c.keys.TaskDead(), d.c.keys.TaskDeadIndex()}, args...).AsInt64()
	return int(n), deadError("delete", err)
}

// Move hands the oldest letters, at most n (1 to 500), to keep, and deletes them if it returns nil, and if they are still what they were. So a letter is in Redis until another
// store has it; keep must bear getting it twice. It returns how many were moved.
func (d *RedisDeadLetters) Move(ctx context.Context, n int, keep func(context.Context, []DeadLetter) error) (int, error) {
	if n < 1 || n > maxLimit {
		return 0, fmt.Errorf("task: Move: %d letters, want 1 to %d", n, maxLimit)
	}
	index, err := d.c.setPage(ctx, d.c.keys.TaskDeadIndex(), position{}, int64(n))
	if err != nil || len(index) == 0 {
		return 0, deadError("move", err)
	}
	raws, err := d.c.letters(ctx, index)
	if err != nil {
		return 0, deadError("move", err)
	}
	var letters []DeadLetter
	var args []string
	for i, raw := range raws {
		if raw == "" { // gone meanwhile; should it only be listed, the next look must get further
			args = append(args, index[i].Member, "-")
			continue
		}
		letters = append(letters, ReadDeadLetter(index[i].Member, []byte(raw)))
		args = append(args, index[i].Member, script.SHA1(raw))
	}
	if len(letters) > 0 {
		if err := keep(ctx, letters); err != nil {
			return 0, err
		}
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout) // they are elsewhere now, so finish it
	defer cancel()
	return d.delete(call, args)
}
