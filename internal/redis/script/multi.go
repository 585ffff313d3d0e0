package script

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
)

// Call is one run of a script among several.
type Call struct{ Keys, Args []string }

// RunMulti is Run for many calls in one pipeline; the results are in their order. Each call stands for itself: others may fail, or run at other times.
func (s *Script) RunMulti(ctx context.Context, rdb rueidis.Client, calls []Call) []rueidis.RedisResult {
	if len(calls) == 1 {
		return []rueidis.RedisResult{s.Run(ctx, rdb, calls[0].Keys, calls[0].Args...)}
	}
	results := make([]rueidis.RedisResult, len(calls))
	cmds := make(rueidis.Commands, 0, len(calls))
	where := make([]int, 0, len(calls))
	for i, c := range calls {
		if err := s.check(rdb, c.Keys); err != nil {
			results[i] = rueidis.NewErrorResult(err)
			continue
		}
		cmds = append(cmds, rdb.B().Evalsha().Sha1(s.hash).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build())
		where = append(where, i)
	}
	for n, r := range rdb.DoMulti(ctx, cmds...) {
		i := where[n]
		if err, ok := rueidis.IsRedisErr(r.Error()); ok && err.IsNoScript() {
			r = s.Run(ctx, rdb, calls[i].Keys, calls[i].Args...)
		}
		results[i] = r
	}
	return results
}

// check refuses keys of several slots on a cluster.
func (s *Script) check(rdb rueidis.Client, keys []string) error {
	if len(keys) < 2 || rdb.Mode() != rueidis.ClientModeCluster {
		return nil
	}
	for _, k := range keys[1:] {
		if slot(k) != slot(keys[0]) {
			return fmt.Errorf("%s: %w: %q, %q", s.name, ErrCrossSlot, keys[0], k)
		}
	}
	return nil
}
