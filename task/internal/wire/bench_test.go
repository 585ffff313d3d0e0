package wire

import (
	"testing"

	"github.com/taktworks/takt/internal/msgpack"
)

type smallArgs struct {
	ID    string
	Count int
}

func smallMessage(b *testing.B) Message {
	c := codec[smallArgs](b)
	args, err := c.AppendArgs(nil, smallArgs{"order-17", 3})
	if err != nil {
		b.Fatal(err)
	}
	return Message{
		ID: "0198f3b2c4d57a3e8f1029384756aabb", Name: "billing:SendInvoice", Args: args,
		Labels: Labels{{"priority", "normal"}, {"size", "medium"}},
		Meta:   Meta{Enqueued: 1767323045678},
	}
}

func BenchmarkAppend(b *testing.B) {
	m := smallMessage(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Append(nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	m := smallMessage(b)
	raw, err := m.Append(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendArgs(b *testing.B) {
	c := codec[smallArgs](b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.AppendArgs(nil, smallArgs{"order-17", 3}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeArgs(b *testing.B) {
	c := codec[smallArgs](b)
	raw := smallMessage(b).Args
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.DecodeArgs(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkResult(b *testing.B) {
	r := Result{Value: []byte{42}, Seconds: 0.001}
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Append(nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	raw, err := r.Append(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeResult(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCheck1KiB(b *testing.B) {
	raw := msgpack.AppendArrayLen(nil, 64)
	for range 64 {
		raw = append(raw, mapOf(1, "name", "sixteen letters")...)
	}
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Check(raw, MaxDepth); err != nil {
			b.Fatal(err)
		}
	}
}
