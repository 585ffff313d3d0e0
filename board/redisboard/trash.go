package redisboard

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/redis/script"
)

// Trashed implements driver.Store.
func (s *Store) Trashed(ctx context.Context) ([]driver.Row, []driver.Malformed, error) {
	all, err := s.rdb.Do(ctx, s.rdb.B().Hgetall().Key(s.keys.Trash()).Build()).AsStrMap()
	if err != nil {
		return nil, nil, s.failed(err)
	}
	rows := make([]driver.Row, 0, len(all))
	var malformed []driver.Malformed
	for field, raw := range all {
		p, err := decodePosting(field, []byte(raw))
		if err != nil {
			malformed = append(malformed, driver.Malformed{Ref: field, Err: err})
			continue
		}
		rows = append(rows, driver.Row{Posting: p, State: driver.Trashed})
	}
	return rows, malformed, nil
}

// Restore implements driver.Store.
func (s *Store) Restore(ctx context.Context, ref string) error {
	return s.said(restoreScript.Run(ctx, s.rdb, []string{s.keys.Listings(), s.keys.Trash(), s.keys.LastModified(ref)}, ref, s.keys.Events()))
}

// Purge implements driver.Store.
func (s *Store) Purge(ctx context.Context, ref string) error {
	return s.said(purgeScript.Run(ctx, s.rdb, []string{s.keys.Listings(), s.keys.Trash(), s.keys.LastModified(ref)}, ref))
}

// said is what the reply of a script means that is one word.
func (s *Store) said(r rueidis.RedisResult) error {
	text, err := r.ToString()
	switch {
	case err != nil:
		return s.failed(err)
	case text == "ok":
		return nil
	case text == "exists":
		return driver.ErrExists
	case text == "not_found":
		return driver.ErrNotFound
	case text == "lost":
		return driver.ErrClaimLost
	}
	return fmt.Errorf("redisboard: a script replied %q", text)
}

// Quarantine implements driver.Store.
func (s *Store) Quarantine(ctx context.Context, ref string) error {
	raw, err := s.rdb.Do(ctx, s.rdb.B().Hget().Key(s.keys.Listings()).Field(ref).Build()).AsBytes()
	if rueidis.IsRedisNil(err) {
		return driver.ErrNotFound
	}
	if err != nil {
		return s.failed(err)
	}
	if _, err := decodePosting(ref, raw); err == nil {
		return driver.Invalid("ref", ref, "must be that of a record that is no posting: claim a posting, and trash it")
	}
	names := []string{s.keys.Listings(), s.keys.Trash(), s.keys.Owner(ref), s.keys.LastModified(ref)}
	return s.said(quarantineScript.Run(ctx, s.rdb, names, ref, script.SHA1(string(raw)), s.keys.Events()))
}
