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

// The whole message reads as a map of five elsewhere.
func TestAnotherDecoderReadsMessages(t *testing.T) {
	m := fullMessage()
	m.Extra, m.Labels = nil, Labels{{"f", 1.5}}
	b := must(t)(m.Append(nil))
	var got map[string]any
	if err := msgpack.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got["task_id"] != m.ID || got["task_name"] != m.Name || len(got) != 6 {
		t.Errorf("got %v", got)
	}
	same(t, got["labels"], nil, map[string]any{"f": 1.5})
	same(t, got["meta"].(map[string]any)["p"], nil, any("p1"))
}

// Integer forms of other widths than the shortest are read as well.
func TestReadsWhatAnotherEncoderWritesLong(t *testing.T) {
	type ints struct {
		A int8
		B uint16
		C int64
		D uint64
	}
	want := ints{-1, 1, -2, 2}
	b, err := msgpack.Marshal([]any{int64(-1), uint64(1), int32(-2), uint32(2)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := codec[ints](t).DecodeArgs(b)
	same(t, got, err, want)
}
