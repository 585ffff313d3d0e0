package redis

import (
	"context"
	"slices"

	"github.com/redis/rueidis"
)

// DoBlocking is rdb.DoMulti for a pipeline with a command that blocks. On a cluster it has a connection of its own, which follows no redirection: an answer may be
// MOVED or ASK, an error of the kind Away, also when others of the pipeline were carried out. The library follows them, but marks the ASKING before such a pipeline as
// blocking, does not know it again then, and panics over the answers (rueidis 1.0.79, mux.DoMulti and clusterClient.askingMulti).
func DoBlocking(ctx context.Context, rdb rueidis.Client, cmds ...rueidis.Completed) []rueidis.RedisResult {
	if rdb.Mode() != rueidis.ClientModeCluster {
		return rdb.DoMulti(ctx, cmds...)
	}
	return doApart(ctx, rdb, cmds...)
}

// doApart is rdb.DoMulti on a connection of its own.
func doApart(ctx context.Context, rdb rueidis.Client, cmds ...rueidis.Completed) []rueidis.RedisResult {
	conn, release := rdb.Dedicate()
	defer release()
	replies := conn.DoMulti(ctx, cmds...)
	if slices.ContainsFunc(replies, func(r rueidis.RedisResult) bool { return r.NonRedisError() != nil }) {
		conn.Close() // what is still to come on it would be taken for the answer to something else
	}
	return replies
}
