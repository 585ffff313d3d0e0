package mqtt_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/mqtt"
)

func benchBrokers(b *testing.B, bench func(b *testing.B, broker *testenv.Broker)) {
	b.Run("mosquitto", func(b *testing.B) { bench(b, testenv.Mosquitto(b)) })
	b.Run("mochi", func(b *testing.B) { bench(b, testenv.Mochi(b, embedded.MochiOptions{})) })
}

// workers runs f n times, spread over some goroutines.
func workers(b *testing.B, count int, f func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range count {
		all.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				f(int(i))
			}
		})
	}
	all.Wait()
}

// BenchmarkPublish is QoS 1 with 512 bytes, so many in flight.
func BenchmarkPublish(b *testing.B) {
	for _, window := range []int{1, 100} {
		b.Run(fmt.Sprint("window=", window), func(b *testing.B) {
			benchBrokers(b, func(b *testing.B, broker *testenv.Broker) {
				c := connected(b, broker.URL, "pub")
				m := mqtt.Message{Topic: "a", Payload: make([]byte, 512), QoS: 1}
				b.ReportAllocs()
				b.ResetTimer()
				workers(b, window, func(int) {
					if err := c.Publish(context.Background(), m); err != nil {
						b.Error(err)
					}
				})
			})
		})
	}
}

// BenchmarkReceive is QoS 1 from one connection to another, acknowledged at once, 100 in flight.
func BenchmarkReceive(b *testing.B) {
	benchBrokers(b, func(b *testing.B, broker *testenv.Broker) {
		pub, recv := connected(b, broker.URL, "pub"), connected(b, broker.URL, "recv")
		var left atomic.Int64
		left.Store(int64(b.N))
		done := make(chan struct{})
		sub := mqtt.Subscription{Filter: "a", QoS: 1, Handle: func(_ context.Context, in *mqtt.Inbound) {
			_ = in.Ack()
			if left.Add(-1) == 0 {
				close(done)
			}
		}}
		testenv.Must(b, recv.Subscribe(within(b), sub))
		m := mqtt.Message{Topic: "a", Payload: make([]byte, 512), QoS: 1}
		b.ReportAllocs()
		b.ResetTimer()
		workers(b, 100, func(int) {
			if err := pub.Publish(context.Background(), m); err != nil {
				b.Error(err)
			}
		})
		<-done
	})
}

// BenchmarkRequest is a command and its reply: four connections, two of the requester's, two of
// the server's.
func BenchmarkRequest(b *testing.B) {
	for _, window := range []int{1, 64} {
		b.Run(fmt.Sprint("window=", window), func(b *testing.B) {
			benchBrokers(b, func(b *testing.B, broker *testenv.Broker) {
				newRig(b, broker, broker.URL, broker.URL, mqtt.ServerOptions{
					Handler: &handler{}, Lane: func(m mqtt.Message) string { return m.User[0].Value },
				})
				c, _, _ := newClient(b, broker.URL, broker.URL, mqtt.ClientOptions{})
				b.ReportAllocs()
				b.ResetTimer()
				workers(b, window, func(i int) {
					if _, err := c.Request(context.Background(), commands, command(fmt.Sprint(i))); err != nil {
						b.Error(err)
					}
				})
			})
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	e := command("1")
	b.ReportAllocs()
	for b.Loop() {
		mqtt.Encode("a", e)
	}
}

func BenchmarkDecode(b *testing.B) {
	m := mqtt.Encode("a", command("1"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := mqtt.Decode(m); err != nil {
			b.Fatal(err)
		}
	}
}
