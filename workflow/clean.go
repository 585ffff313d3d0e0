package workflow

import (
	"context"
	"strconv"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
)

const (
	cleanEvery = time.Minute
	cleanMost  = 1000 // pages of what ended first, each time
	cleanRound = 10   // pages of the index that are looked at each time, wherever they are in it
)

// cleaner drops from the indexes of a shard what has expired. Documents expire by themselves, each after the retention of the program that ended it and by the clock of Redis; so neither the
// retention nor the clock of the process that cleans counts, only that the document is gone.
type cleaner struct {
	s  *shard
	at uint64 // cursor of the round
}

func (k *cleaner) run(ctx context.Context) error {
	for lifecycle.Sleep(ctx, cleanEvery) {
		if err := k.clean(ctx); err != nil && ctx.Err() == nil {
			k.s.c.log.Warn("workflow: indexes keep what has expired, for now", "shard", k.s.n, "error", err)
		}
	}
	return nil
}

// clean drops what ended first for as long as that has expired, and goes on with a round through the whole index: behind what is kept for long may be what was not.
func (k *cleaner) clean(ctx context.Context) error {
	for range cleanMost {
		oldest, err := k.s.c.rdb.Do(ctx, k.s.c.rdb.B().Zrange().Key(k.s.keys.Ended()).Min("0").Max(strconv.Itoa(removePage-1)).Build()).AsStrSlice()
		if err != nil {
			return err
		}
		if dropped, err := k.drop(ctx, oldest); err != nil {
			return err
		} else if dropped == 0 {
			break
		}
	}
	for range cleanRound {
		page, err := k.s.c.rdb.Do(ctx, k.s.c.rdb.B().Zscan().Key(k.s.keys.Ended()).Cursor(k.at).Count(removePage).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		var members []string
		for i := 0; i < len(page.Elements); i += 2 { // each with its score
			members = append(members, page.Elements[i])
		}
		if _, err := k.drop(ctx, members); err != nil {
			return err
		}
		if k.at = page.Cursor; k.at == 0 {
			break
		}
	}
	return nil
}

// drop drops those members of the index that have expired, and says how many were dropped.
func (k *cleaner) drop(ctx context.Context, members []string) (dropped int, err error) {
	for len(members) > 0 {
		n := min(len(members), removePage) // a small index is scanned as a whole
		list := make([]Instance, n)
		for i, m := range members[:n] {
			list[i] = ParseInstance(m)
		}
		words, err := k.s.remove(ctx, list, true)
		if err != nil {
			return dropped, err
		}
		for _, w := range words {
			if w != "kept" {
				dropped++
			}
		}
		members = members[n:]
	}
	return dropped, nil
}
