package script

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
)

// Call is one run of a script among several.
type Call struct{ Keys, Args []string }

// RunMulti is Run for many calls in one pipeline; the results are in their order. Each call stands for itself: others may fail, or run at other times. What the server
// answers with NOSCRIPT goes in one more pipeline, on a cluster in one for each node that does.
func (s *Script) RunMulti(ctx context.Context, rdb rueidis.Client, calls []Call) []rueidis.RedisResult {
	if len(calls) == 1 {
		return []rueidis.RedisResult{s.Run(ctx, rdb, calls[0].Keys, calls[0].Args...)}
	}
	results := make([]rueidis.RedisResult, len(calls))
	left := make([]int, 0, len(calls))
	for i, c := range calls {
		if err := s.check(rdb, c.Keys); err != nil {
			results[i] = rueidis.NewErrorResult(err)
			continue
		}
		left = append(left, i)
	}
	for teach := false; len(left) > 0; teach = true { // the first of those that met NOSCRIPT brings the script for the others
		cmds := make(rueidis.Commands, 0, len(left))
		for n, i := range left {
			c := calls[i]
			if teach && n == 0 {
				cmds = append(cmds, rdb.B().Eval().Script(s.src).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build())
			} else {
				cmds = append(cmds, rdb.B().Evalsha().Sha1(s.hash).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build())
			}
		}
		unknown := left[:0]
		for n, r := range rdb.DoMulti(ctx, cmds...) {
			if err, ok := rueidis.IsRedisErr(r.Error()); ok && err.IsNoScript() {
				unknown = append(unknown, left[n])
			} else {
				results[left[n]] = r
			}
		}
		left = unknown
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
