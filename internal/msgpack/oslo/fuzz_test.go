package oslo

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/taktworks/takt/internal/msgpack"
)

func seed(f *testing.F) {
	for _, raw := range goldens(f) {
		f.Add(raw)
	}
	f.Add(unhex(f, "dc0010"+"9190918081c40161c0c7000ac7ff01"))
	f.Add(unhex(f, "81a161d6ff00000000"))
	f.Add(unhex(f, "d505d50591ca7fa00001"))
}

// What Decode takes, Append writes; that is read as the same, and has the same bytes again.
func FuzzDecode(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := Decode(raw)
		checked := Check(raw)
		if err != nil {
			if checked == nil {
				t.Fatalf("%x is fine, but cannot be read: %v", raw, err)
			}
			return
		}
		once := encode(t, v)
		twice := encode(t, decode(t, once))
		if !bytes.Equal(once, twice) {
			t.Fatalf("%x\nonce  %x\ntwice %x", raw, once, twice)
		}
		if len(once) > 2*len(raw) { // a float of 32 bits grows most
			t.Fatalf("%x became %x", raw, once)
		}
		if err := Check(once); (err == nil) != (checked == nil) {
			t.Fatalf("%x: %v, but %x: %v", raw, checked, once, err)
		}
	})
}

// Bytes that promise much are not believed: what is allocated is at most 64 times what was given, and something for the error.
func FuzzDecodeAllocates(f *testing.F) {
	seed(f)
	for _, kind := range []byte{0x90, 0x91, 0x80, 0xa0, 0xc0, 0x01} {
		f.Add(append(msgpack.AppendArrayLen(nil, 1000), bytes.Repeat([]byte{kind}, 1000)...))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Decode(raw)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64*uint64(len(raw))+64<<10 {
			t.Fatalf("%d bytes for %x", n, raw)
		}
	})
}

// Whatever the body of a datetime is: it is an instant, which is written and read as the same, or it is refused.
func FuzzTime(f *testing.F) {
	for _, raw := range goldens(f) {
		if e, ok := decode(f, raw).(Ext); ok {
			f.Add(e.Data)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		at, err := Time(Ext{CodeDatetime, body})
		if err != nil || at.UTC().Year() < 1 || at.UTC().Year() > 9999 { // a zone may lead out of Python's years
			return
		}
		raw, err := AppendTime(nil, at)
		if err != nil {
			t.Fatalf("%x is %v, which cannot be written: %v", body, at, err)
		}
		again, err := Time(decode(t, raw).(Ext))
		same(t, again, err, at.UTC())
	})
}
