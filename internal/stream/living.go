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
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = k.Worker(id)
	}
	tokens, err := rdb.Do(ctx, rdb.B().Mget().Key(names...).Build()).ToArray()
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		token, err := tokens[i].ToString()
		alive[id] = err == nil && !strings.HasPrefix(token, takeoverMark)
	}
	return alive, nil
}

// Before says whether the entry of id a stands before that of id b.
func Before(a, b string) bool { return compareIDs(a, b) < 0 }
