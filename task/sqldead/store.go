// Package sqldead keeps dead letters of tasks in a SQL database, for those who want them beside their other data, for longer, or out of Redis' memory.
//
// Workers put dead letters into Redis, in the same step in which the task ends. A mover takes them from there:
//
//	worker ──► Redis ──Move──► INSERT (id, time of death) ──committed──► deleted in Redis
//	                                │
//	                  Requeue: claim the row ──► Resubmit in Redis ──► row is dispatched
//
// While the database is away, letters stay in Redis; nothing is lost and nothing blocks. A mover that dies after its commit inserts nothing twice. A requeue that dies
// after the submission is found again by id and time of death, and not submitted twice, for as long as the client's Options.KnownFor.
package sqldead

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"time"

	"github.com/taktworks/takt/task"
)

// Options are the settings of a Store. The zero value is ready, for SQLite.
type Options struct {
	// Dialect is what the database speaks: SQLite (the default), Postgres or MySQL.
	Dialect Dialect
	// Table is its name, letters, digits, _ and . only; "" = dead_tasks.
	Table string
	// ClaimFor is after how long a claim of an operator who was never heard of again is void; 0 = one minute.
	ClaimFor time.Duration
	// KeepDispatched is how long rows of requeued tasks stay; 0 = 30 days, negative = for ever.
	KeepDispatched time.Duration
	// Every is how often Run looks for letters to move; 0 = one second.
	Every time.Duration
	// Log may be nil.
	Log *slog.Logger
}

const (
	defaultTable    = "dead_tasks"
	defaultClaimFor = time.Minute
	defaultKeep     = 30 * 24 * time.Hour
	defaultEvery    = time.Second
	movePage        = 100 // letters of one transaction
	callTimeout     = 30 * time.Second
)

// Store is the dead letters in one table. It is safe for concurrent use, by any number of processes.
type Store struct {
	db     *sql.DB
	client *task.Client
	o      Options
}

var _ task.DeadLetters = (*Store)(nil)

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// New makes a Store; db and client stay the caller's. Create makes its table.
func New(db *sql.DB, client *task.Client, o Options) (*Store, error) {
	if db == nil || client == nil {
		return nil, errors.New("sqldead: the database or the client is missing")
	}
	if o.Table == "" {
		o.Table = defaultTable
	}
	if !tableName.MatchString(o.Table) {
		return nil, fmt.Errorf("sqldead: Options.Table %q: want letters, digits and _, perhaps with a schema and a dot before", o.Table)
	}
	if o.Dialect == (Dialect{}) {
		o.Dialect = SQLite
	}
	for _, d := range []struct {
		name string
		at   *time.Duration
		or   time.Duration
	}{{"ClaimFor", &o.ClaimFor, defaultClaimFor}, {"Every", &o.Every, defaultEvery}} {
		if *d.at < 0 {
			return nil, fmt.Errorf("sqldead: Options.%s %v is negative", d.name, *d.at)
		}
		if *d.at == 0 {
			*d.at = d.or
		}
	}
	if o.KeepDispatched == 0 {
		o.KeepDispatched = defaultKeep
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{db, client, o}, nil
}

// Create makes the table if it is missing.
func (s *Store) Create(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, s.o.Dialect.schema(s.o.Table)); err != nil {
		return fmt.Errorf("sqldead: create %s: %w", s.o.Table, err)
	}
	return nil
}

// Run moves letters until ctx ends, and returns nil. It outlives every error of Redis and of the database. Several may run.
func (s *Store) Run(ctx context.Context) error {
	failing := false
	var pruned time.Time
	for ctx.Err() == nil {
		n, err := s.Move(ctx)
		if err == nil && time.Since(pruned) > time.Hour {
			pruned = time.Now()
			err = s.prune(ctx)
		}
		wait := s.o.Every
		switch {
		case err != nil && ctx.Err() == nil:
			if !failing {
				s.o.Log.Error("sqldead: dead letters stay in Redis", "error", err)
			}
			wait = min(10*wait, time.Minute)
		case n > 0:
			s.o.Log.Info("sqldead: dead letters moved", "letters", n)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait/2+1)):
		}
	}
	return nil
}

// Move moves what is in Redis now, and returns how many letters that were.
func (s *Store) Move(ctx context.Context) (total int, err error) {
	from := s.client.DeadLetters()
	for {
		n, err := from.Move(ctx, movePage, s.keep)
		if total += n; err != nil {
			return total, fmt.Errorf("sqldead: move: %w", err)
		}
		if n == 0 {
			return total, nil
		}
	}
}

// keep inserts letters, those that are there already aside.
func (s *Store) keep(ctx context.Context, letters []task.DeadLetter) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it says ErrTxDone
	insert, err := tx.PrepareContext(ctx, s.o.Dialect.insert(s.o.Table))
	if err != nil {
		return err
	}
	defer insert.Close()
	for i := range letters {
		if _, err := insert.ExecContext(ctx, row(&letters[i])...); err != nil {
			return fmt.Errorf("insert %s: %w", letters[i].ID, err)
		}
	}
	return tx.Commit()
}

// prune deletes rows of tasks that were requeued long ago.
func (s *Store) prune(ctx context.Context) error {
	if s.o.KeepDispatched < 0 {
		return nil
	}
	now, err := s.client.Now(ctx)
	if err != nil {
		return err
	}
	_, err = s.exec(ctx, `DELETE FROM `+s.o.Table+` WHERE status = ? AND claimed_at < ?`, dispatched, now.Add(-s.o.KeepDispatched).UnixMicro())
	return err
}

func (s *Store) exec(ctx context.Context, query string, args ...any) (int, error) {
	r, err := s.db.ExecContext(ctx, s.o.Dialect.bind(query), args...)
	if err != nil {
		return 0, fmt.Errorf("sqldead: %w", err)
	}
	n, err := r.RowsAffected()
	return int(n), err
}
