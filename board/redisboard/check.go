package redisboard

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis"
)

// Check implements driver.Store. It reads the board and goes through the keys of the namespace in pages; what changes meanwhile may be reported wrongly, so ask twice on a busy board.
func (s *Store) Check(ctx context.Context) (problems []string, err error) {
	rows, malformed, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	trashed, _, err := s.Trashed(ctx)
	if err != nil {
		return nil, err
	}
	there, aside := map[string]bool{}, map[string]bool{}
	numbers := map[int64]string{}
	for _, r := range trashed {
		aside[r.Ref] = true
	}
	for _, m := range malformed {
		there[m.Ref] = true
		problems = append(problems, fmt.Sprintf("%s: field %q is no posting: %v: takt board trash --malformed puts it aside", s.keys.Listings(), m.Ref, m.Err))
	}
	for _, r := range rows {
		there[r.Ref] = true
		if r.UUID != r.Ref {
			problems = append(problems, fmt.Sprintf("%s: field %q has the posting with UUID %q: a program that is not TaskFlow wrote it", s.keys.Listings(), r.Ref, r.UUID))
		}
		if aside[r.Ref] {
			problems = append(problems, fmt.Sprintf("%s: posting %s is in the trash, too: purge it there", s.keys.Trash(), r.Ref))
		}
		if other, twice := numbers[r.Sequence]; twice {
			problems = append(problems, fmt.Sprintf("%s: postings %s and %s have both the sequence number %d: the counter was lost once, and TaskFlow takes them for one", s.keys.Listings(), other, r.Ref, r.Sequence))
		}
		numbers[r.Sequence] = r.Ref
	}
	more, err := s.checkKeys(ctx, there, aside)
	return append(problems, more...), err
}

// checkKeys looks for keys of postings that are gone.
func (s *Store) checkKeys(ctx context.Context, there, aside map[string]bool) (problems []string, err error) {
	prefix := s.keys.Namespace() + ":"
	seen := map[string]bool{}
	err = redis.Scan(ctx, s.rdb, redis.Glob(prefix)+"*", func(names []string) error {
		for _, name := range names {
			rest := strings.TrimPrefix(name, prefix)
			if strings.Contains(rest, ":") {
				continue // of a namespace that begins like ours
			}
			if field, ok := strings.CutSuffix(rest, keys.OwnerSuffix); ok && !there[field] && !seen[name] {
				problems = append(problems, fmt.Sprintf("%s: there is no such posting: a reader of TaskFlow deleted it as malformed; delete the key", name))
			}
			if field, ok := strings.CutSuffix(rest, keys.ModifiedSuffix); ok && !there[field] && !aside[field] && !seen[name] {
				problems = append(problems, fmt.Sprintf("%s: there is no such posting, also not in the trash; delete the key", name))
			}
			seen[name] = true
		}
		return nil
	})
	if err != nil {
		return nil, s.failed(err)
	}
	slices.Sort(problems)
	return problems, nil
}
