package zkboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

// Check implements driver.Store.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	c, err := s.contents(ctx)
	trash, errTrash := s.names(ctx, s.trash)
	if err := errors.Join(err, errTrash); err != nil {
		return nil, err
	}
	var problems []string
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	malformed, err := s.read(ctx, c.refs)
	if err != nil {
		return nil, err
	}
	for _, m := range malformed {
		say("node %s is no posting: %v. Quarantine puts it aside", s.posting(m.Ref), m.Err)
	}
	there := make(map[string]bool, len(c.refs))
	for _, ref := range c.refs {
		there[ref] = true
	}
	locks, err := s.checkLocks(ctx, c, there)
	if err != nil {
		return nil, err
	}
	problems = append(problems, locks...)
	for _, name := range trash {
		if there[name] {
			say("node %s/%s has the name of a posting that is on the board: TaskFlow cannot trash that one. Purge what is in the trash, or restore it on the board that it is from", s.trash, name)
		}
	}
	slices.Sort(problems[len(malformed):])
	return problems, nil
}

// checkLocks looks for locks that keep a posting from being claimed, and for those of none.
func (s *Store) checkLocks(ctx context.Context, c contents, there map[string]bool) (problems []string, err error) {
	refs := make([]string, 0, len(c.locks))
	for ref := range c.locks {
		refs = append(refs, ref)
	}
	var mu sync.Mutex
	err = each(len(refs), func(i int) error {
		path := s.lock(refs[i])
		n, err := s.node(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		_, bad := decodeObject(n.data)
		_, owned := decodeOwner(n.data)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case !there[refs[i]]:
			problems = append(problems, fmt.Sprintf("node %s is a lock without a posting. It goes with session %#x; delete it if that is 0x0", path, n.stat.EphemeralOwner))
		case bad != nil:
			problems = append(problems, fmt.Sprintf("node %s is a lock that cannot be read: %v. TaskFlow fails on it. Delete it, if its owner in session %#x is gone", path, bad, n.stat.EphemeralOwner))
		case !owned:
			problems = append(problems, fmt.Sprintf("node %s is a lock without an owner: TaskFlow cannot claim the posting. Delete the node", path))
		case n.stat.EphemeralOwner == 0:
			problems = append(problems, fmt.Sprintf("node %s is a lock that will not go with a session. Delete it, if its owner is gone", path))
		}
		return nil
	})
	return problems, err
}
