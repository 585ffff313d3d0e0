package task

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task/internal/wire"
)

// What a task costs in Go, without Redis: its submission, and its run.

type costArgs struct{ Text string }

var (
	costNoop = Define[costArgs, None]("bench:Cost", Small)
	costText = costArgs{strings.Repeat("x", 97)} // 100 bytes as an argument
)

// costWorker is a worker that never connects, and one message for it.
func costWorker(tb testing.TB) (*Worker, string) {
	h := costNoop.Handle(func(context.Context, *Job[costArgs]) (None, error) { return None{}, nil })
	w := &Worker{client: &Client{opts: Options{MaxMessage: defaultMaxMessage}, log: slog.New(slog.DiscardHandler)}, handlers: map[string]*Handler{h.Name(): &h}, running: map[*run]struct{}{}}
	w.control = newControl(w)
	s := must(costNoop.submission(tb.Context(), w.client, costText, nil))
	b := must(w.client.encode(&costNoop.spec, s))
	return w, string(b)
}

func BenchmarkEncode(b *testing.B) {
	w, _ := costWorker(b)
	s := new(submission)
	b.ReportAllocs()
	for b.Loop() {
		testenv.Must(b, costNoop.fill(b.Context(), w.client, s, costText, nil))
		if _, err := w.client.encode(&costNoop.spec, s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	_, message := costWorker(b)
	raw := []byte(message)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHandle(b *testing.B) {
	w, message := costWorker(b)
	b.ReportAllocs()
	for b.Loop() {
		e := &stream.Entry{Stream: "s", ID: "1735689600000-0", Data: message, Deliveries: 1}
		if o := w.handle(b.Context(), e, "normal:small"); o.kind != Done {
			b.Fatal(o.kind, o.err)
		}
	}
}
