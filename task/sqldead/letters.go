package sqldead

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/taktworks/takt/task"
)

// List reads one page of letters that were not requeued, oldest first. One query.
func (s *Store) List(ctx context.Context, f task.DeadFilter) (task.DeadPage, error) {
	f, err := f.Complete()
	if err != nil {
		return task.DeadPage{}, err
	}
	where, args := []string{"status <> ?"}, []any{dispatched}
	add := func(condition string, values ...any) { where, args = append(where, condition), append(args, values...) }
	if f.Name != "" {
		add("task_class = ?", f.Name)
	}
	if f.Reason != "" {
		add("reason = ?", f.Reason)
	}
	if f.Queue != "" {
		add("queue = ?", string(f.Queue))
	}
	if !f.Since.IsZero() {
		add("died_at >= ?", f.Since.UnixMicro())
	}
	if !f.Until.IsZero() {
		add("died_at < ?", f.Until.UnixMicro())
	}
	if f.After != "" {
		at, id, ok := strings.Cut(f.After, " ")
		died, err := strconv.ParseInt(at, 10, 64)
		if err != nil || !ok {
			return task.DeadPage{}, fmt.Errorf("sqldead: DeadFilter.After %q: want DeadPage.Next of a page before", f.After)
		}
		add("(died_at > ? OR died_at = ? AND id > ?)", died, died, id)
	}
	query := "SELECT id, died_at, letter FROM " + s.o.Table + " WHERE " + strings.Join(where, " AND ") + " ORDER BY died_at, id LIMIT " + strconv.Itoa(f.Limit+1)
	found, err := s.query(ctx, query, args...)
	if err != nil {
		return task.DeadPage{}, err
	}
	var page task.DeadPage
	for i, r := range found {
		if i == f.Limit {
			last := found[i-1]
			page.Next = strconv.FormatInt(last.died, 10) + " " + last.letter.ID
			break
		}
		page.Letters = append(page.Letters, r.letter)
	}
	return page, nil
}

// record is one row.
type record struct {
	died   int64 // its second key, µs
	letter task.DeadLetter
}

func (s *Store) query(ctx context.Context, query string, args ...any) ([]record, error) {
	rows, err := s.db.QueryContext(ctx, s.o.Dialect.bind(query), args...)
	if err != nil {
		return nil, fmt.Errorf("sqldead: %w", err)
	}
	defer rows.Close()
	var all []record
	for rows.Next() {
		var r record
		var id string
		var stored []byte
		if err := rows.Scan(&id, &r.died, &stored); err != nil {
			return nil, fmt.Errorf("sqldead: %w", err)
		}
		r.letter = task.ReadDeadLetter(id, stored)
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sqldead: %w", err)
	}
	return all, nil
}

// Show is the newest letter of a task that was not requeued.
func (s *Store) Show(ctx context.Context, id string) (task.DeadLetter, error) {
	r, err := s.newest(ctx, id)
	return r.letter, err
}

func (s *Store) newest(ctx context.Context, id string) (record, error) {
	found, err := s.query(ctx, "SELECT id, died_at, letter FROM "+s.o.Table+" WHERE id = ? AND status <> ? ORDER BY died_at DESC LIMIT 1", id, dispatched)
	if err != nil {
		return record{}, err
	}
	if len(found) == 0 {
		return record{}, fmt.Errorf("%w: no dead letter of %s", task.ErrNotFound, id)
	}
	return found[0], nil
}

// ErrClaimed: another operator is requeueing the letter. Should it never be heard of again, the letter is free after Options.ClaimFor.
var ErrClaimed = errors.New("sqldead: another operator is requeueing it")

// Requeue claims each row, submits its task, and marks the row.
func (s *Store) Requeue(ctx context.Context, ids ...string) (n int, err error) {
	var all []error
	for _, id := range ids {
		if err := s.requeue(ctx, id); err != nil {
			all = append(all, &task.RequeueError{ID: id, Err: err})
		} else {
			n++
		}
	}
	return n, errors.Join(all...)
}

func (s *Store) requeue(ctx context.Context, id string) error {
	r, err := s.newest(ctx, id)
	if err != nil {
		return err
	}
	now, err := s.client.Now(ctx)
	if err != nil {
		return err
	}
	mine := now.UnixMicro()
	n, err := s.exec(ctx, "UPDATE "+s.o.Table+" SET status = ?, claimed_at = ? WHERE id = ? AND died_at = ? AND (status = ? OR status = ? AND claimed_at < ?)",
		claimed, mine, id, r.died, pending, claimed, now.Add(-s.o.ClaimFor).UnixMicro())
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrClaimed
	}
	_, failed := s.client.Resubmit(ctx, r.letter)
	status := dispatched
	if failed != nil { // should it be there all the same, it is found when this is repeated
		status = pending
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	_, err = s.exec(call, "UPDATE "+s.o.Table+" SET status = ? WHERE id = ? AND died_at = ? AND status = ? AND claimed_at = ?", status, id, r.died, claimed, mine)
	return errors.Join(failed, err)
}

// Delete deletes all rows of these tasks that were not requeued.
func (s *Store) Delete(ctx context.Context, ids ...string) (total int, err error) {
	for _, id := range ids {
		n, err := s.exec(ctx, "DELETE FROM "+s.o.Table+" WHERE id = ? AND status <> ?", id, dispatched)
		if total += n; err != nil {
			return total, err
		}
	}
	return total, nil
}
