package oslo

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"

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

// What Decode takes, Append writes; that is read as the same, has the same bytes again, is JSON, and means the same or nothing.
func FuzzDecode(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := Decode(raw, Limits{})
		checked := Check(raw, Limits{})
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
		if err := Check(once, Limits{}); (err == nil) != (checked == nil) {
			t.Fatalf("%x: %v, but %x: %v", raw, checked, once, err)
		}
		shown, err := ToJSON(v)
		if err != nil || !json.Valid(shown) {
			t.Fatalf("%x is shown as %s %v", raw, shown, err)
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
		_, _ = Decode(raw, Limits{})
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64*uint64(len(raw))+64<<10 {
			t.Fatalf("%d bytes for %x", n, raw)
		}
	})
}

// Whatever the body of an extension is: it means something, and then the same again when it is written from that, or it is refused.
func FuzzExtensions(f *testing.F) {
	for _, raw := range goldens(f) {
		if e, ok := decode(f, raw).(Ext); ok {
			f.Add(e.Code, e.Data)
		}
	}
	f.Fuzz(func(t *testing.T, code int8, body []byte) {
		v, err := meaning(Ext{code & 7, body})
		if err != nil {
			return
		}
		e, err := again(code&7, v)
		if err != nil {
			t.Fatalf("%d %x is %v, which cannot be written: %v", code&7, body, v, err)
		}
		twice, err := meaning(e)
		if err != nil {
			t.Fatalf("%d %x became %x: %v", code&7, body, e.Data, err)
		}
		if a, b := encode(t, []any{e}), encode(t, []any{must(t)(again(code&7, twice))}); !bytes.Equal(a, b) {
			t.Fatalf("%d %x became %x, then %x", code&7, body, a, b)
		}
	})
}

func must(t *testing.T) func(Ext, error) Ext {
	return func(e Ext, err error) Ext {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
}

// again makes an extension of what meaning gave.
func again(code int8, v any) (Ext, error) {
	switch v := v.(type) {
	case uuid.UUID:
		return FromUUID(v), nil
	case [2]int64:
		return FromCount(v[0], v[1]), nil
	case string:
		a, err := netip.ParseAddr(v)
		if err != nil {
			return Ext{}, err
		}
		return FromIP(a)
	case []any:
		return fromSet(code, v)
	case time.Time:
		switch code {
		case CodeDate:
			return FromDate(v)
		case CodeXMLRPC:
			return FromXMLRPC(v)
		}
		v = time.Date(v.Year(), v.Month(), v.Day(), v.Hour(), v.Minute(), v.Second(), v.Nanosecond(), time.UTC) // as if it were naive
		return FromTime(v)
	}
	return Ext{}, errors.ErrUnsupported
}
