package jobstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// The broker keeps sessions for every process that takes messages. If one never comes back, what is routed to its sessions waits
// there: another process must take them over. So the sessions are known, and the heartbeats tell which processes live.

// Session is what the broker keeps for a process: subscriptions, and what comes by them while the process is away.
type Session struct {
	Instance string // name of the process
	Name     string // of the session; "" is that of commands
}

// field is the name of a session in the register. No instance has a slash in its name.
func (s Session) field() string {
	if s.Name == "" {
		return s.Instance
	}
	return s.Instance + "/" + s.Name
}

func sessionOf(field string) Session {
	instance, name, _ := strings.Cut(field, "/")
	return Session{Instance: instance, Name: name}
}

// Enlist notes that the broker has sessions for this process: their names, and which roles a process needs to take each over.
func (s *Store) Enlist(ctx context.Context, roles map[string]string) error {
	set := s.rdb.B().Hset().Key(s.keys.Instances()).FieldValue()
	for name, roles := range roles {
		set = set.FieldValue(Session{s.opt.Instance, name}.field(), roles)
	}
	if err := s.rdb.Do(ctx, set.Build()).Error(); err != nil {
		return fmt.Errorf("jobstore: enlist: %w", err)
	}
	return nil
}

// Delist notes that a session is over.
func (s *Store) Delist(ctx context.Context, session Session) error {
	err := s.rdb.Do(ctx, s.rdb.B().Hdel().Key(s.keys.Instances()).Field(session.field()).Build()).Error()
	if err != nil {
		return fmt.Errorf("jobstore: delist %s: %w", session.field(), err)
	}
	return nil
}

// Dead returns the sessions of processes that give no sign of life, with the roles that each needs; those of this process are not among them.
func (s *Store) Dead(ctx context.Context) (map[Session]string, error) {
	all, err := s.rdb.Do(ctx, s.rdb.B().Hgetall().Key(s.keys.Instances()).Build()).AsStrMap()
	if err != nil {
		return nil, fmt.Errorf("jobstore: instances: %w", err)
	}
	dead := make(map[Session]string, len(all))
	var l loader
	for field, roles := range all {
		session := sessionOf(field)
		if session.Instance == s.opt.Instance {
			continue
		}
		l.add(s.rdb.B().Exists().Key(s.keys.Worker(session.Instance)).Build(), func(r rueidis.RedisResult) error {
			lives, err := r.AsBool()
			if err == nil && !lives {
				dead[session] = roles
			}
			return err
		})
	}
	if err := l.run(ctx, s.rdb); err != nil {
		return nil, err
	}
	return dead, nil
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
