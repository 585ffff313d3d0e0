package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// collectEarly bounds the garbage beside what a serving process holds, until ctx ends: without it the heap grows to twice what is held between two collections,
// while the bytes of messages are bounded for their memory. Up to 5/4 of --intake-bytes nothing changes; beyond it a collection comes when the heap has grown by a quarter.
// A GOMEMLIMIT in the environment counts in place of it.
func (c *ServeConfig) collectEarly(ctx context.Context) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	least := 5 * int64(c.IntakeBytes) / 4
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	look := time.NewTicker(5 * time.Second)
	defer look.Stop()
	for {
		metrics.Read(live)
		debug.SetMemoryLimit(max(least, int64(live[0].Value.Uint64())*5/4))
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}
