package stream

import (
	"context"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

// The heartbeat does not wait behind what else this process sends and is sent, such as large documents on a slow link: here behind a command that Redis does not answer.
func TestHeartbeatOvertakes(t *testing.T) {
	e := newEnv(t, testenv.Redis(t))
	m := e.join("w", Group{Handle: acks})
	waiting := e.srv.Prefix(t) + ":waiting"
	e.eventually("it is alive", func() bool { return e.number("EXISTS", e.keys.Worker("w")) == 1 })
	answered := make(chan error, 1)
	go func() { // on the connection that all share, for the library does not know that it blocks
		answered <- m.rdb.Do(context.Background(), m.rdb.B().Arbitrary("BLPOP", waiting, "0").Build()).Error()
	}()
	e.eventually("the command blocks", func() bool {
		clients, err := e.do("CLIENT", "LIST").ToString()
		return err == nil && strings.Contains(clients, "cmd=blpop")
	})
	e.must("PEXPIRE", e.keys.Worker("w"), "1000000")
	e.eventually("the heartbeat is renewed", func() bool {
		ttl, err := e.do("PTTL", e.keys.Worker("w")).AsInt64()
		return err == nil && ttl > 0 && ttl <= survivorTTL.Milliseconds()
	})
	e.must("LPUSH", waiting, "x")
	if err := <-answered; err != nil {
		t.Error(err)
	}
	m.leave()
}
