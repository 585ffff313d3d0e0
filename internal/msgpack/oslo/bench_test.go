package oslo

import (
	"testing"
	"time"
)

func BenchmarkDecodePosting(b *testing.B) {
	raw := goldens(b)["posting_full"]
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(raw, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendPosting(b *testing.B) {
	v := decode(b, goldens(b)["posting_full"])
	b.ReportAllocs()
	var dst []byte
	for b.Loop() {
		var err error
		if dst, err = Append(dst[:0], v, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckPosting(b *testing.B) {
	raw := goldens(b)["posting_full"]
	b.ReportAllocs()
	for b.Loop() {
		if err := Check(raw, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTime(b *testing.B) {
	at := time.Date(2026, 11, 21, 0, 15, 3, 92269000, time.UTC)
	e, err := FromTime(at)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			if dst, err = AppendTime(dst[:0], at); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Time(e); err != nil {
				b.Fatal(err)
			}
		}
	})
}
