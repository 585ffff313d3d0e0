package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/mqtt"
)

// liveBench is what --live measured: processor time of a Store in a scope without live job orders, and in one with many.
type liveBench struct {
	LiveOrders     int     `json:"live_orders"`
	Stores         int     `json:"stores"` // measured, in each of the two scopes
	RedisEmpty     float64 `json:"redis_ms_per_store_empty"`
	RedisLive      float64 `json:"redis_ms_per_store_live"`
	RedisRatio     float64 `json:"redis_ratio"`
	TaktEmpty      float64 `json:"takt_ms_per_store_empty"`
	TaktLive       float64 `json:"takt_ms_per_store_live"`
	TaktRatio      float64 `json:"takt_ratio"`
	IndexBytes     int     `json:"index_bytes"`         // of the largest state index
	LargeIndexes   int     `json:"large_indexes"`       // state indexes of more than 256 KiB while Stores came
	LargePerSecond float64 `json:"large_indexes_per_s"` // the most in any second
	Seconds        float64 `json:"seconds"`
	Store          string  `json:"store"`
	Broker         string  `json:"broker"`
}

const (
	scopeEmpty = "bench-0" // --live needs two scopes, which are configured as those of the other measurements
	scopeLive  = "bench-1"

	liveRounds     = 5
	livePause      = 50 * time.Millisecond  // between two Stores: each is a batch of the publisher
	liveRest       = 500 * time.Millisecond // after a round: what is published later belongs to it
	largeIndexSize = 256 << 10
)

// live measures what a Store costs with so many live job orders in its scope.
func (b *jobsRun) live(ctx context.Context) error {
	b.progress.say(fmt.Sprintf("storing %d job orders", b.Live))
	err := forEach(ctx, 64, b.Live, func(i int) error {
		_, err := b.client.Store(ctx, scopeLive, benchOrder(fmt.Sprintf("LIVE-%06d", i)))
		return err
	})
	if err != nil {
		return err
	}
	n := min(max(b.N/liveRounds, 1), 100)
	if err := b.stores(ctx, n, scopeEmpty, scopeLive); err != nil { // caches have their size
		return err
	}
	if err := b.cancelStored(ctx); err != nil {
		return err
	}
	var idle, empty, live costs
	for i := range liveRounds {
		b.progress.say(fmt.Sprintf("round %d of %d", i+1, liveRounds))
		for _, r := range []struct {
			sum    *costs
			scopes []isa95.Scope
		}{{&idle, nil}, {&empty, []isa95.Scope{scopeEmpty}}, {&live, []isa95.Scope{scopeLive}}} {
			cost, err := b.costOf(ctx, func() error { return b.stores(ctx, n, r.scopes...) })
			if err != nil {
				return err
			}
			r.sum.redis, r.sum.takt = r.sum.redis+cost.redis, r.sum.takt+cost.takt
			if err := b.cancelStored(ctx); err != nil {
				return err
			}
		}
	}
	f := &b.liveFound
	f.LiveOrders, f.Stores = b.Live, n*liveRounds
	each := func(d, idle time.Duration) float64 { return (d - idle).Seconds() * 1000 / float64(f.Stores) }
	f.RedisEmpty, f.RedisLive = each(empty.redis, idle.redis), each(live.redis, idle.redis)
	f.TaktEmpty, f.TaktLive = each(empty.takt, idle.takt), each(live.takt, idle.takt)
	f.RedisRatio, f.TaktRatio = ratio(f.RedisLive, f.RedisEmpty), ratio(f.TaktLive, f.TaktEmpty)
	return b.countIndexes(ctx, 2*n)
}

// ratio is 0 if so little was stored that an idle round took as long.
func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

// costs is processor time.
type costs struct{ redis, takt time.Duration }

// costOf is what do costs, and what follows it within liveRest.
func (b *jobsRun) costOf(ctx context.Context, do func() error) (costs, error) {
	before, err := b.spent(ctx)
	if err != nil {
		return costs{}, err
	}
	if err := do(); err != nil {
		return costs{}, err
	}
	lifecycle.Sleep(ctx, liveRest)
	after, err := b.spent(ctx)
	return costs{after.redis - before.redis, after.takt - before.takt}, err
}

func (b *jobsRun) spent(ctx context.Context) (costs, error) {
	redis, err := b.store.ProcessorTime(ctx)
	if err != nil {
		return costs{}, err
	}
	takt, err := processorTime()
	if err != nil {
		return costs{}, fmt.Errorf("processor time of this process: %w", err)
	}
	return costs{redis, takt}, nil
}

// stores stores n job orders in each scope, one after the other; without a scope it takes as long and stores none.
func (b *jobsRun) stores(ctx context.Context, n int, scopes ...isa95.Scope) error {
	tick := time.NewTicker(livePause)
	defer tick.Stop()
	for range n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, scope := range scopes {
			b.first++
			id := fmt.Sprintf("S-%d", b.first)
			if _, err := b.client.Store(ctx, scope, benchOrder(id)); err != nil {
				return err
			}
			b.stored = append(b.stored, mes.Call{Method: isa95.Cancel, Scope: scope, JobOrderID: isa95.JobOrderID(id)})
		}
	}
	return nil
}

// cancelStored takes back what stores stored.
func (b *jobsRun) cancelStored(ctx context.Context) error {
	if len(b.stored) == 0 {
		return nil
	}
	err := forEach(ctx, 16, len(b.stored), func(i int) error {
		_, err := b.client.Call(ctx, b.stored[i])
		return err
	})
	b.stored = nil
	lifecycle.Sleep(ctx, liveRest)
	return err
}

// countIndexes counts the state indexes of the scope with live job orders that arrive while job orders are stored there. It is not measured at
// the same time: receiving them costs this process, too.
func (b *jobsRun) countIndexes(ctx context.Context, n int) error {
	b.progress.say("counting state indexes")
	conn, hangUp, err := b.dialAs(ctx, b.cfg, "takt-bench-index-"+randomHex(4))
	if err != nil {
		return err
	}
	defer hangUp()
	var mu sync.Mutex
	var large []time.Time
	topic := strings.Join([]string{b.cfg.TopicPrefix, scopeLive, "state-index"}, "/")
	err = conn.Subscribe(ctx, mqtt.Subscription{Filter: topic, QoS: 1, Handle: func(_ context.Context, in *mqtt.Inbound) {
		mu.Lock()
		defer mu.Unlock()
		b.liveFound.IndexBytes = max(b.liveFound.IndexBytes, len(in.Payload))
		if len(in.Payload) > largeIndexSize && !in.Retain {
			large = append(large, time.Now())
		}
		_ = in.Ack()
	}})
	if err != nil {
		return err
	}
	if err := b.stores(ctx, n, scopeLive); err != nil {
		return err
	}
	lifecycle.Sleep(ctx, liveRest)
	mu.Lock()
	defer mu.Unlock()
	b.liveFound.LargeIndexes = len(large)
	for i := range large {
		within := 0
		for _, at := range large[i:] {
			if at.Sub(large[i]) < time.Second {
				within++
			}
		}
		b.liveFound.LargePerSecond = max(b.liveFound.LargePerSecond, float64(within))
	}
	return ctx.Err()
}

func (b *jobsRun) printLive() error {
	f := b.liveFound
	t := newTable(b.out, "A STORE COSTS", "EMPTY SCOPE", fmt.Sprintf("%d LIVE ORDERS", f.LiveOrders), "RATIO")
	ms := func(v float64) string { return fmt.Sprintf("%.2f ms", v) }
	t.row("Redis", ms(f.RedisEmpty), ms(f.RedisLive), fmt.Sprintf("%.2f", f.RedisRatio))
	t.row("Takt, with the client", ms(f.TaktEmpty), ms(f.TaktLive), fmt.Sprintf("%.2f", f.TaktRatio))
	if err := t.flush(); err != nil {
		return err
	}
	_, err := printf(b.out, "\nState indexes of more than 256 KiB: at most %.0f in a second; the largest had %d bytes.\n", f.LargePerSecond, f.IndexBytes)
	return err
}
