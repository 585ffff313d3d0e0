package stream

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/testenv"
)

// The heartbeat is deleted again and again while entries are handled: none is forgotten.
func TestHeartbeatLostAgainAndAgain(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *testenv.RedisServer{"redis": testenv.Redis, "miniredis": testenv.Miniredis} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, start(t))
			const n = 300
			var mu sync.Mutex
			left := map[string]bool{}
			all := make(chan struct{})
			for i := range n {
				left[strconv.Itoa(i)] = true
			}
			var m *member
			ready := make(chan struct{})
			m = e.join("w", Group{Slots: 3, MaxDeliveries: -1, Handle: func(ctx context.Context, en *Entry) (Result, error) {
				<-ready
				result := Ack
				if len(en.Fields["v"])%2 == 0 {
					c := commit.New()
					en.Settle(c)
					if _, err := c.Run(context.WithoutCancel(ctx), m.rdb); err != nil {
						return Ack, err
					}
					result = Settled
				}
				mu.Lock()
				defer mu.Unlock()
				if left[en.Fields["v"]] {
					if delete(left, en.Fields["v"]); len(left) == 0 {
						close(all)
					}
				}
				return result, nil
			}})
			close(ready)
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for i := range n {
				e.add(strconv.Itoa(i))
				if i%10 == 0 {
					<-tick.C
					e.must("DEL", e.keys.Worker("w"))
				}
			}
			select {
			case <-all:
			case <-time.After(patience):
				mu.Lock()
				t.Fatalf("never handled: %v; %s", left, fmt.Sprint(e.must("XPENDING", e.stream, "g", "-", "+", "10").ToAny()))
			}
			e.empty()
		})
	}
}
