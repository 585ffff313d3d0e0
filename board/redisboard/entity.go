package redisboard

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/taktworks/takt/board/driver"
)

// Register implements driver.Store. TaskFlow registers nothing on Redis, so the record is for Takt alone. The first time removes those of processes that were killed.
func (s *Store) Register(ctx context.Context, e driver.Entity, first bool) error {
	text, err := json.Marshal(e)
	if err != nil {
		return driver.Invalid("Entity.Metadata", fmt.Sprint(err), "must be what JSON can say")
	}
	tidy := ""
	if first {
		tidy = "1"
	}
	return s.failed(registerScript.Run(ctx, s.rdb, []string{s.keys.Entities()}, field(e), string(text), strconv.FormatInt(driver.EntityTTL.Milliseconds(), 10), tidy).Error())
}

// Unregister implements driver.Store.
func (s *Store) Unregister(ctx context.Context, e driver.Entity) error {
	return s.failed(s.rdb.Do(ctx, s.rdb.B().Hdel().Key(s.keys.Entities()).Field(field(e)).Build()).Error())
}

func field(e driver.Entity) string { return e.Kind + "/" + e.Name }

// Entities implements driver.Store. Those that were not renewed in time are left out.
func (s *Store) Entities(ctx context.Context, kind string) ([]driver.Entity, error) {
	stored, err := s.rdb.Do(ctx, s.rdb.B().Hgetall().Key(s.keys.Entities()).Build()).AsStrMap()
	if err != nil {
		return nil, s.failed(err)
	}
	now := s.now().UnixMilli()
	var all []driver.Entity
	for _, value := range stored {
		till, text, _ := strings.Cut(value, " ")
		ms, err := strconv.ParseInt(till, 10, 64)
		if err != nil || ms <= now {
			continue
		}
		var e driver.Entity
		if json.Unmarshal([]byte(text), &e) == nil && (kind == "" || e.Kind == kind) {
			all = append(all, e)
		}
	}
	return all, nil
}
