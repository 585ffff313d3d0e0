package jobstore

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
)

// configuration says whether a scope was ever configured. A scope that has something which the order requires was. For other orders
// the set of configured scopes is read.
type configuration struct {
	scope string
	key   string // of the set
	met   bool   // the scope has something that the order requires
	noted bool   // the scope is in the set
}

func (c *configuration) configured() bool { return c.met || c.noted }

func (s *Store) loadConfiguration(l *loader, c *configuration) {
	l.add(s.rdb.B().Sismember().Key(c.key).Member(c.scope).Build(), func(r rueidis.RedisResult) (err error) {
		c.noted, err = r.AsBool()
		return err
	})
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

// expect makes a commit depend on the scope being configured, where its other expectations do not say so.
func (c *configuration) expect(w *commit.Commit) {
	if c.noted {
		w.ExpectMember(c.key, c.scope)
	}
}
