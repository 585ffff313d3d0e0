package jobstore

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
)

// The broker keeps a session for every process that takes commands. If one never comes back, what is routed to its session waits
// there: another process must take it over. So the processes that have a session are known, and their heartbeat tells who lives.

// Enlist notes that this process has a session at the broker, and with which roles.
func (s *Store) Enlist(ctx context.Context, roles string) error {
	err := s.rdb.Do(ctx, s.rdb.B().Hset().Key(s.keys.Instances()).FieldValue().FieldValue(s.opt.Instance, roles).Build()).Error()
	if err != nil {
		return fmt.Errorf("jobstore: enlist: %w", err)
	}
	return nil
}

// Delist notes that the session of a process is over.
func (s *Store) Delist(ctx context.Context, instance string) error {
	err := s.rdb.Do(ctx, s.rdb.B().Hdel().Key(s.keys.Instances()).Field(instance).Build()).Error()
	if err != nil {
		return fmt.Errorf("jobstore: delist %s: %w", instance, err)
	}
	return nil
}

// Dead returns the enlisted processes that give no sign of life, with their roles; this one is not among them.
func (s *Store) Dead(ctx context.Context) (map[string]string, error) {
	all, err := s.rdb.Do(ctx, s.rdb.B().Hgetall().Key(s.keys.Instances()).Build()).AsStrMap()
	if err != nil {
		return nil, fmt.Errorf("jobstore: instances: %w", err)
	}
	delete(all, s.opt.Instance)
	var l loader
	for instance := range all {
		l.add(s.rdb.B().Exists().Key(s.keys.Worker(instance)).Build(), func(r rueidis.RedisResult) error {
			alive, err := r.AsBool()
			if alive {
				delete(all, instance)
			}
			return err
		})
	}
	if err := l.run(ctx, s.rdb); err != nil {
		return nil, err
	}
	return all, nil
}

// IsProcess says whether name is a process of this installation: one that is enlisted or gives a sign of life.
func (s *Store) IsProcess(ctx context.Context, name string) (bool, error) {
	var is bool
	var l loader
	for _, ask := range []rueidis.Completed{
		s.rdb.B().Hexists().Key(s.keys.Instances()).Field(name).Build(),
		s.rdb.B().Exists().Key(s.keys.Worker(name)).Build(),
	} {
		l.add(ask, func(r rueidis.RedisResult) error {
			yes, err := r.AsBool()
			is = is || yes
			return err
		})
	}
	if err := l.run(ctx, s.rdb); err != nil {
		return false, err
	}
	return is, nil
}
