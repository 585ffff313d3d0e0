package redis

import (
	"context"
	"regexp"

	"github.com/redis/rueidis"
)

var database = regexp.MustCompile(`(?:^| )db=(\d+)`)

// Database is the number of the database that rdb works in, "0" if the server does not say. Channels of Redis know no databases: a channel that carries more than a hint
// has this number in its name.
func Database(ctx context.Context, rdb rueidis.Client) string {
	info, _ := rdb.Do(ctx, rdb.B().ClientInfo().Build()).ToString() // an error: the right is missing, or the server is away
	if m := database.FindStringSubmatch(info); m != nil {
		return m[1]
	}
	return "0"
}
