package wire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

func seed(f *testing.F) {
	for _, h := range []string{goldenMessage, goldenResult, goldenError, goldenCallback, "d7ffa1dcd420695735a5", "c70cff0000000000000004a0fe7280", "dfffffffff", "c1"} {
		f.Add(unhex(f, h))
	}
	m := fullMessage()
	b := must(f)(m.Append(nil))
	f.Add(b)
}

func FuzzDecode(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) { stable(t, b) })
}

func FuzzDecodeResult(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeResult(b)
		if err != nil {
			return
		}
		once, err := r.Append(nil)
		if err != nil {
			t.Fatalf("%x was taken, but cannot be written: %v", b, err)
		}
		again, err := DecodeResult(once)
		testenv.Must(t, err)
		twice, err := again.Append(nil)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%x\nonce  %x\ntwice %x %v", b, once, twice, err)
		}
	})
}

func FuzzDecodeCallback(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeCallback(b)
		if err != nil {
			return
		}
		once := must(t)(c.Append(nil))
		if _, err := DecodeCallback(once); err != nil {
			t.Fatal(err)
		}
	})
}

// What Check takes has JSON, and the JSON gives a value with the same JSON.
func FuzzCheck(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		err := Check(b, MaxValueDepth)
		shown, jsonErr := ToJSON(b)
		if (err == nil) != (jsonErr == nil) {
			t.Fatalf("%x: Check %v, ToJSON %v", b, err, jsonErr)
		}
		if err != nil {
			return
		}
		back, err := FromJSON(shown)
		if err != nil {
			t.Fatalf("%x is %s, but %v", b, shown, err)
		}
		again, err := ToJSON(back)
		if err != nil || !bytes.Equal(again, shown) {
			t.Fatalf("%x is %s, then %s %v", b, shown, again, err)
		}
	})
}

func FuzzFromJSON(f *testing.F) {
	for _, s := range []string{
		`[1,-2.5,"x",null,true,{"a":{"$bin":"AP8="}}]`, `{"$time":"2026-01-02T03:04:05.678901Z"}`, `{"$float":"NaN"}`,
		`{"$map":[["a",1],[{"$bin":""},2]]}`, `{"$ext":[5,{"$bin":"AA=="}]}`, `18446744073709551615`, `-0.0`, `"\ud800"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		raw, err := FromJSON(text)
		if err != nil {
			return
		}
		if err := Check(raw, MaxValueDepth); err != nil {
			t.Fatalf("%s is %x, but %v", text, raw, err)
		}
		shown := must(t)(ToJSON(raw))
		back, err := FromJSON(shown)
		if err != nil || !bytes.Equal(back, raw) {
			t.Fatalf("%s is %x, shown as %s, which is %x %v", text, raw, shown, back, err)
		}
	})
}

func FuzzDecodeArgs(f *testing.F) {
	seed(f)
	all, err := NewCodec[every](ByPosition)
	testenv.Must(f, err)
	b := must(f)(all.AppendArgs(nil, everyValue()))
	f.Add(b)
	golden, err := NewCodec[goldenArgs](ByPosition)
	testenv.Must(f, err)
	f.Fuzz(func(t *testing.T, b []byte) {
		refit(t, all, b)
		refit(t, golden, b)
	})
}

// refit says whether what c reads, it writes so that it reads it again, from well-formed bytes alone.
func refit[T any](t *testing.T, c *Codec[T], b []byte) {
	v, err := c.DecodeArgs(b)
	if err != nil {
		if !reflect.ValueOf(v).IsZero() {
			t.Fatalf("%x: %v, but half a value", b, err)
		}
		return
	}
	if err := Check(b, MaxValueDepth); err != nil {
		t.Fatalf("%x was taken, but %v", b, err)
	}
	once, err := c.AppendArgs(nil, v)
	if err != nil {
		t.Fatalf("%x is %#v, which cannot be written: %v", b, v, err)
	}
	again, err := c.DecodeArgs(once)
	if err != nil {
		t.Fatalf("%x became %x, but %v", b, once, err)
	}
	twice, err := c.AppendArgs(nil, again)
	if err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("%x\nonce  %x\ntwice %x %v", b, once, twice, err)
	}
}
