package mqtt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/mqtt"
)

// While nothing can be decided, a process holds at most the bytes that it may, over lost connections too; the broker has the rest,
// and all of it is handled afterwards.
func TestReceiveBytes(t *testing.T) {
	const (
		messages, size = 200, 100 << 10
		budget         = 1 << 20
	)
	b := testenv.Mosquitto(t)
	var away atomic.Bool
	away.Store(true)
	var mu sync.Mutex
	done := map[string]bool{}
	h := &handler{handle: func(_ context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
		if away.Load() {
			return nil, errors.New("the store is away")
		}
		mu.Lock()
		defer mu.Unlock()
		done[e.ID] = true
		return nil, nil
	}}
	handled := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(done)
	}
	recv := newConn(t, b.URL, "recv", withSession, func(o *mqtt.Options) {
		o.ReceiveBytes, o.ReceiveMaximum, o.KeepAlive = budget, 512, time.Second
	})
	pub := connected(t, b.URL, "pub")
	server, err := mqtt.NewServer(recv, pub, mqtt.ServerOptions{Filters: []string{"budget/#"}, Handler: h, Log: quiet()})
	testenv.Must(t, err)
	run(t, recv.Run)
	run(t, server.Run)
	ready(t, recv)
	for i := range messages {
		e := command(fmt.Sprintf("C-%03d", i)).WithData(bytes.Repeat([]byte("1"), size), "")
		e.Delivery.ResponseTopic = ""
		publish(t, pub, mqtt.Encode(fmt.Sprintf("budget/%d", i), e))
	}
	most := 0
	held := func() int {
		n := recv.Facts().HeldBytes
		most = max(most, n)
		return n
	}
	eventually(t, "the budget is used", func() bool { return held() > budget-2*size })
	eventually(t, "the connection was lost for want of room, and is back", func() bool {
		held()
		f := recv.Facts()
		return f.Losses > 0 && f.Connected
	})
	eventually(t, "the budget is used again", func() bool { return held() > budget-2*size })
	away.Store(false)
	eventually(t, "everything is handled", func() bool { held(); return handled() == messages })
	eventually(t, "nothing is held", func() bool { return held() == 0 })
	if most > budget {
		t.Errorf("%d bytes were held, want at most %d", most, budget)
	}
}
