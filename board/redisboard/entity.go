package redisboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/taktworks/takt/board/driver"
)

const (
	entityTTL   = 30 * time.Second
	entityRenew = entityTTL / 3
)

// Register implements driver.Store. TaskFlow registers nothing on Redis, so the record is for Takt alone; it is renewed until the release.
func (s *Store) Register(ctx context.Context, e driver.Entity) (release func(context.Context) error, err error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, driver.Invalid("Entity.Metadata", fmt.Sprint(err), "must be what JSON can say")
	}
	field := e.Kind + "/" + e.Name
	renew := func(ctx context.Context, tidy string) error {
		err := registerScript.Run(ctx, s.rdb, []string{s.keys.Entities()}, field, string(text), strconv.FormatInt(entityTTL.Milliseconds(), 10), tidy).Error()
		return s.failed(err)
	}
	if err := renew(ctx, "1"); err != nil {
		return nil, err
	}
	loop, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(entityRenew)
		defer ticks.Stop()
		for {
			select {
			case <-loop.Done():
				return
			case <-s.done:
				return
			case <-ticks.C:
			}
			if err := renew(loop, ""); err != nil && loop.Err() == nil {
				s.log.Warn("board: entity not renewed", "entity", field, "err", err)
			}
		}
	}()
	return func(ctx context.Context) error {
		stop()
		<-ended
		return s.failed(s.rdb.Do(ctx, s.rdb.B().Hdel().Key(s.keys.Entities()).Field(field).Build()).Error())
	}, nil
}

// Entities implements driver.Store. Those that were not renewed in time are left out.
func (s *Store) Entities(ctx context.Context, kind string) ([]driver.Entity, error) {
	replies := s.rdb.DoMulti(ctx, s.rdb.B().Time().Build(), s.rdb.B().Hgetall().Key(s.keys.Entities()).Build())
	clock, errClock := replies[0].AsIntSlice()
	stored, err := replies[1].AsStrMap()
	if err = cmp.Or(errClock, err); err == nil && len(clock) != 2 {
		err = errors.New("TIME has no two parts")
	}
	if err != nil {
		return nil, s.failed(err)
	}
	var all []driver.Entity
	for _, value := range stored {
		till, text, _ := strings.Cut(value, " ")
		ms, err := strconv.ParseInt(till, 10, 64)
		if err != nil || ms <= clock[0]*1000+clock[1]/1000 {
			continue
		}
		var e driver.Entity
		if json.Unmarshal([]byte(text), &e) == nil && (kind == "" || e.Kind == kind) {
			all = append(all, e)
		}
	}
	return all, nil
}
