package stream

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
)

// BenchmarkAck measures no-op entries of 100 bytes from the stream to their acknowledgement: reading, 50 slots, batches.
func BenchmarkAck(b *testing.B) {
	srv := testenv.Redis(b)
	k := keys.New(srv.Prefix(b))
	rdb := srv.Client
	payload := strings.Repeat("x", 100)
	for left := b.N; left > 0; {
		n := min(left, 1000)
		cmds := make(rueidis.Commands, n)
		for i := range cmds {
			cmds[i] = rdb.B().Xadd().Key(k.SfcWork()).Id("*").FieldValue().FieldValue("v", payload).Build()
		}
		for _, r := range rdb.DoMulti(b.Context(), cmds...) {
			if r.Error() != nil {
				b.Fatal(r.Error())
			}
		}
		left -= n
	}
	var handled atomic.Int64
	all := make(chan struct{})
	w := NewWorker(rdb, k, "w", 0, nil)
	g := &Group{Worker: w, Streams: []string{k.SfcWork()}, Name: "g", Slots: 50, Handle: func(context.Context, *Entry) (Result, error) {
		if handled.Add(1) == int64(b.N) {
			close(all)
		}
		return Ack, nil
	}}
	ctx, stop := context.WithCancel(context.Background())
	workerCtx, stopWorker := context.WithCancel(context.Background())
	ends := make(chan error, 2)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { ends <- w.Run(workerCtx) }()
	groupEnd := make(chan error, 1)
	go func() { groupEnd <- g.Run(ctx) }()
	<-all
	stop()
	<-groupEnd
	b.StopTimer()
	stopWorker()
	<-ends
	if n, err := rdb.Do(b.Context(), rdb.B().Xlen().Key(k.SfcWork()).Build()).AsInt64(); err != nil || n != 0 {
		b.Errorf("%d entries left, %v", n, err)
	}
}
