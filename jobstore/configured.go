package jobstore

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/isa95"
)

// configuration says whether a scope was ever configured. A scope that has something which the order requires was. For other orders
// the set of configured scopes is read, and for scopes that older builds configured, which do not keep it, the keys of their
// configuration.
type configuration struct {
	scope string
	key   string // of the set
	met   bool   // the scope has something that the order requires
	noted bool   // the scope is in the set
	older bool   // the scope has configuration and is not in the set
}

func (c *configuration) configured() bool { return c.met || c.noted || c.older }

func (s *Store) loadConfiguration(l *loader, c *configuration) {
	l.add(s.rdb.B().Sismember().Key(c.key).Member(c.scope).Build(), func(r rueidis.RedisResult) (err error) {
		c.noted, err = r.AsBool()
		return err
	})
	l.add(s.rdb.B().Exists().Key(s.configurationKeys(c.scope)...).Build(), func(r rueidis.RedisResult) error {
		n, err := r.AsInt64()
		c.older = n > 0 && !c.noted
		return err
	})
}

// configurationKeys are the keys of one scope that configuration events write.
func (s *Store) configurationKeys(scope string) []string {
	keys := []string{s.keys.JobAcceptance(scope), s.keys.WorkMasterList(scope)}
	for _, kind := range isa95.ConfigKinds() {
		if kind != isa95.ConfigWorkMaster && kind != isa95.ConfigJobAcceptance {
			keys = append(keys, s.keys.ResourceList(string(kind), scope))
		}
	}
	return keys
}

// decideConfiguration reads whether the scope was configured when it has nothing that the order requires.
func (s *Store) decideConfiguration(ctx context.Context, a *Acceptance) error {
	c := a.configuration
	if c == nil || len(a.members) == 0 {
		return nil
	}
	for _, m := range a.members {
		c.met = c.met || m.member
	}
	if c.met {
		return nil
	}
	var l loader
	s.loadConfiguration(&l, c)
	return l.run(ctx, s.rdb)
}

// expect makes a commit depend on the scope being configured, where its other expectations do not say so. A scope that an older
// build configured is noted.
func (c *configuration) expect(w *commit.Commit) {
	switch {
	case c.noted:
		w.ExpectMember(c.key, c.scope)
	case c.older:
		w.SAdd(c.key, c.scope)
	}
}
