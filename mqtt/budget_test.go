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
	"github.com/taktworks/takt/internal/testenv/long"
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
	if err != nil {
		t.Fatal(err)
	}
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

// A decision takes several times the bytes of its message, so a handler is asked about few large messages at once. One that waits for longer than Hold is
// answered that it may come again; small ones do not wait.
func TestFewLargeMessagesAreDecidedAtOnce(t *testing.T) {
	long.Test(t, "waits until messages are given up")
	const large = 100 << 10 // more than half of what is decided at once
	b := testenv.Mosquitto(t)
	var now, most atomic.Int64
	open := make(chan struct{})
	ok := func(e cloudevent.Event) *cloudevent.Event {
		reply := e.Reply(nil, "", "urn:takt", time.Now())
		return &reply
	}
	h := &handler{handle: func(ctx context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
		if len(e.Data) < large {
			return ok(e), nil
		}
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		select {
		case <-open:
			return ok(e), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	recv := newConn(t, b.URL, "recv", func(o *mqtt.Options) { o.ReceiveBytes = 2 << 20 })
	pub := connected(t, b.URL, "pub")
	server, err := mqtt.NewServer(recv, pub, mqtt.ServerOptions{Filters: []string{"large/#"}, Handler: h, Hold: 3 * time.Second, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	answers := map[string]cloudevent.ErrorKind{}
	mes := newConn(t, b.URL, "mes")
	if err := mes.Subscribe(t.Context(), mqtt.Subscription{Filter: "mes/large", QoS: 1, Handle: func(_ context.Context, in *mqtt.Inbound) {
		e, err := mqtt.Decode(in.Message)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		answers[e.CausationID] = e.ErrorKind
		_ = in.Ack()
	}}); err != nil {
		t.Fatal(err)
	}
	for _, f := range []func(context.Context) error{recv.Run, server.Run, mes.Run} {
		run(t, f)
	}
	ready(t, recv)
	ready(t, mes)
	send := func(id string, size int) {
		t.Helper()
		e := command(id).WithData(bytes.Repeat([]byte("1"), size), "")
		e.Delivery.ResponseTopic = "mes/large"
		publish(t, pub, mqtt.Encode("large/"+id, e))
	}
	answered := func(kind cloudevent.ErrorKind) (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, k := range answers {
			if k == kind {
				n++
			}
		}
		return n
	}
	for i := range 5 {
		send(fmt.Sprintf("L-%d", i), large)
	}
	for i := range 20 {
		send(fmt.Sprintf("S-%d", i), 10)
	}
	eventually(t, "the small ones are answered", func() bool { return answered("") == 20 })
	eventually(t, "those that wait are answered", func() bool { return answered(cloudevent.KindServiceUnavailable) == 4 })
	close(open)
	eventually(t, "the first is answered", func() bool { return answered("") == 21 })
	send("L-6", large)
	eventually(t, "another is answered", func() bool { return answered("") == 22 })
	if most.Load() != 1 {
		t.Errorf("%d large messages were decided at once, want 1", most.Load())
	}
}
