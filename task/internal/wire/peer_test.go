package wire

import (
	"bytes"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// shared has what both encoders write in one form.
type shared struct {
	Bool   bool
	I      int64
	U      uint64
	F32    float32
	F64    float64
	Text   string
	Bytes  []byte
	At     time.Time
	List   []string
	Map    map[string]int64
	Nested struct {
		Name string
		Deep *struct{ N int64 }
	}
	Nothing *int64
}

// Another implementation of msgpack writes the same bytes for the same values, and reads ours.
func TestAnotherEncoderAgrees(t *testing.T) {
	c := codec[shared](t)
	for _, n := range []int{0, 1, 15, 16, 31, 32, 33, 255, 256, 65535, 65536} {
		v := shared{
			Bool: n%2 == 0, I: -int64(n), U: uint64(n), F32: float32(n), F64: float64(n) / 3,
			Text: string(bytes.Repeat([]byte("t"), n)), Bytes: make([]byte, n), List: make([]string, n),
			At: time.Unix(int64(n)<<20, int64(n)*1000).UTC(), Map: map[string]int64{"one": int64(n) << 30},
		}
		v.Nested.Name = "n"
		v.Nested.Deep = &struct{ N int64 }{-int64(n) << 40}
		var want bytes.Buffer
		e := msgpack.NewEncoder(&want)
		e.UseCompactInts(true)
		e.UseArrayEncodedStructs(true)
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
		b, err := c.AppendValue(nil, v)
		expect(t, b, err, want.Bytes())
		got, err := c.DecodeValue(want.Bytes())
		same(t, got, err, v)
		var theirs shared
		err = msgpack.Unmarshal(b, &theirs)
		theirs.At = theirs.At.UTC()
		same(t, theirs, err, v)
	}
}
