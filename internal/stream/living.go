package stream

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/keys"
)

// Living says which of these workers have a heartbeat of their own now: not those that are being taken over. One round trip.
func Living(ctx context.Context, rdb rueidis.Client, k keys.Keys, ids []string) (map[string]bool, error) {
	alive := make(map[string]bool, len(ids))
	if len(ids) == 0 {
		return alive, nil
	}
	cmds := make(rueidis.Commands, len(ids))
	for i, id := range ids {
		cmds[i] = rdb.B().Get().Key(k.Worker(id)).Build()
	}
	for i, r := range rdb.DoMulti(ctx, cmds...) {
		token, err := r.ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, err
		}
		alive[ids[i]] = err == nil && !strings.HasPrefix(token, takeoverMark)
	}
	return alive, nil
}

// Before says whether the entry of id a stands before that of id b.
func Before(a, b string) bool { return compareIDs(a, b) < 0 }
