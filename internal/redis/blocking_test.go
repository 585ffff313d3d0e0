package redis_test

import (
	"strconv"
	"testing"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// A pipeline that blocks says so when the slot of its keys is just being moved, and is served when it has moved.
func TestBlockingAsked(t *testing.T) {
	long.Test(t, "runs a cluster")
	c := testenv.StartCluster(t)
	prefix := c.Prefix(t)
	slot, owner := c.Slot(t, prefix), c.Owner(t, prefix)
	from, to := c.Nodes[owner], c.Nodes[(owner+1)%3]
	rdb := c.Connect(t, redis.Options{Prefix: prefix})
	pipeline := func() []rueidis.RedisResult {
		b := rdb.B()
		return redis.DoBlocking(t.Context(), rdb,
			b.Set().Key(prefix+":a").Value("1").Build(),
			b.Xread().Block(1).Streams().Key(prefix+":stream").Id("0").Build(),
			b.Get().Key(prefix+":a").Build())
	}
	must := func(n *testenv.Node, args ...string) {
		t.Helper()
		testenv.Must(t, n.Do(t, args...).Error())
	}
	must(to, "CLUSTER", "SETSLOT", strconv.Itoa(slot), "IMPORTING", from.ID(t))
	must(from, "CLUSTER", "SETSLOT", strconv.Itoa(slot), "MIGRATING", to.ID(t))
	for _, r := range pipeline() {
		if err := r.Error(); err == nil || !redis.Away(err) {
			t.Errorf("while the slot moves: %v, want an ASK", err)
		}
	}
	for _, n := range []*testenv.Node{to, from} {
		must(n, "CLUSTER", "SETSLOT", strconv.Itoa(slot), "NODE", to.ID(t))
	}
	eventually(t, "the new node serves it", func() bool {
		replies := pipeline()
		value, err := replies[2].ToString()
		return err == nil && value == "1" && rueidis.IsRedisNil(replies[1].Error())
	})
}
