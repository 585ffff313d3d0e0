package publisher_test

import (
	"fmt"
	"testing"

	"github.com/taktworks/takt/isa95"
)

// BenchmarkBatch is one change of a job order, from before its commit until an MES has the state index, among so many live job
// orders. trips/op are round trips to Redis.
func BenchmarkBatch(b *testing.B) {
	for _, live := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint("live=", live), func(b *testing.B) {
			p := newPlant(b)
			for n := range live {
				p.move(scope, isa95.JobOrderID(fmt.Sprintf("JO-%04d", n)), isa95.StoreAndStart)
			}
			proxy, through := p.counted()
			i := p.start(through, func(s *setup) { s.Coalesce = -1 })
			p.move(scope, "JO-0000", isa95.Run)
			p.inSync()
			methods := []isa95.Method{isa95.Pause, isa95.Resume}
			before := i.Stats()
			proxy.Reset()
			n := 0
			for b.Loop() {
				b.StopTimer()
				p.forget()
				b.StartTimer()
				p.move(scope, "JO-0000", methods[n%2])
				n++
				p.eventually("the index", func() error { return p.atLeast(1, "m42/state-index") })
			}
			b.ReportMetric(float64(proxy.Trips())/float64(n), "trips/op")
			b.ReportMetric(float64(i.Stats().Batches-before.Batches)/float64(n), "batches/op")
		})
	}
}

// BenchmarkBacklog is what an outage leaves: so many stored job orders, published at the start.
func BenchmarkBacklog(b *testing.B) {
	p := newPlant(b)
	const orders = 1000
	for n := range orders {
		p.move(scope, isa95.JobOrderID(fmt.Sprintf("JO-%04d", n)), isa95.StoreAndStart)
	}
	for b.Loop() {
		b.StopTimer()
		p.redisDo("DEL", p.keys.PubDone("m42"))
		p.forget()
		b.StartTimer()
		i := p.start()
		p.eventually("everything published", func() error { return p.atLeast(orders+1, "m42/") })
		i.stop()
	}
	b.ReportMetric(float64(orders*b.N)/b.Elapsed().Seconds(), "orders/s")
}
