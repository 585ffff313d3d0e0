package wire

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
)

// The bytes below were written by the Python classes with their msgpack encoder.
const (
	goldenMessage = "85a77461736b5f6964a6616263313233a97461736b5f6e616d65ab746573743a4d795461736ba66c6162656c7384a87072696f72697479a66e6f726d616c" +
		"a473697a65a66d656469756dae5f72657472795f617474656d707401a867726f75705f6964a26731a97461736b5f617267739801a568656c6c6f81a66e6573" +
		"746564c3cb4004000000000000c0c40200fffbce00011170ab7461736b5f6b776172677380"
	goldenResult = "85a669735f657272c2ac72657475726e5f76616c75652aae657865637574696f6e5f74696d65cb3ff8000000000000a56572726f72c0a66c6162656c7380"
	goldenError  = "85a669735f657272c3ac72657475726e5f76616c7565c0ae657865637574696f6e5f74696d65cb3fd0000000000000a56572726f7283a474797065aa5661" +
		"6c75654572726f72a76d657373616765a4626f6f6da974726163656261636ba27462a66c6162656c7381a161a162"
	goldenCallback = "82aa7461736b5f636c617373a66a6f62733a58a46172677392a16101"
)

type goldenArgs struct {
	Number  int
	Text    string
	Map     map[string]bool
	Float   float64
	Nothing *int
	Bytes   []byte
	Below   int8
	Above   uint32
}

func goldenValues() goldenArgs {
	return goldenArgs{1, "hello", map[string]bool{"nested": true}, 2.5, nil, []byte{0x00, 0xff}, -5, 70000}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	testenv.Must(t, err)
	return b
}

func codec[T any](t testing.TB) *Codec[T] {
	t.Helper()
	c, err := NewCodec[T](ByPosition)
	testenv.Must(t, err)
	return c
}

// expect fails unless got is the bytes of want.
func expect(t testing.TB, got []byte, err error, want []byte) {
	t.Helper()
	testenv.Must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

// same fails unless got and want are deeply equal and err is nil.
func same(t testing.TB, got any, err error, want any) {
	t.Helper()
	testenv.Must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

// A message goes through with id, name, arguments of every kind and labels, byte for byte.
func TestGoldenMessage(t *testing.T) {
	args := must(t)(codec[goldenArgs](t).AppendArgs(nil, goldenValues()))
	want := unhex(t, goldenMessage)
	m := Message{
		ID: "abc123", Name: "test:MyTask",
		Labels: Labels{{"priority", "normal"}, {"size", "medium"}, {"_retry_attempt", int64(1)}, {"group_id", "g1"}},
		Args:   args,
	}
	b, err := m.Append(nil)
	expect(t, b, err, want)
	got, err := Decode(want)
	same(t, got, err, m)
	v, err := codec[goldenArgs](t).DecodeArgs(got.Args)
	same(t, v, err, goldenValues())
}

// A success is no error, has its value, its duration and no error map.
func TestGoldenResult(t *testing.T) {
	value := must(t)(codec[int](t).AppendValue(nil, 42))
	want := Result{Value: value, Seconds: 1.5}
	b, err := want.Append(nil)
	expect(t, b, err, unhex(t, goldenResult))
	got, err := DecodeResult(b)
	same(t, got, err, want)
	n, err := codec[int](t).DecodeValue(got.Value)
	same(t, n, err, 42)
}

// A failure has its flag, no value, and type, message and traceback.
func TestGoldenError(t *testing.T) {
	want := Result{
		IsErr: true, Seconds: 0.25,
		Err:    &Error{"ValueError", "boom", "tb"},
		Labels: Labels{{"a", "b"}},
	}
	b, err := want.Append(nil)
	expect(t, b, err, unhex(t, goldenError))
	got, err := DecodeResult(b)
	same(t, got, err, want)
}

func TestGoldenCallback(t *testing.T) {
	args, err := codec[struct {
		Text   string
		Number int
	}](t).AppendArgs(nil, struct {
		Text   string
		Number int
	}{"a", 1})
	testenv.Must(t, err)
	want := Callback{Class: "jobs:X", Args: args}
	b, err := want.Append(nil)
	expect(t, b, err, unhex(t, goldenCallback))
	got, err := DecodeCallback(b)
	same(t, got, err, want)
}

func TestGoldenTimestamps(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-02T03:04:05.678901Z": "d7ffa1dcd420695735a5",
		"2026-01-02T03:04:05Z":        "d6ff695735a5",
		"2600-01-01T00:00:00Z":        "c70cff0000000000000004a0fe7280",
		"1969-12-31T00:00:00Z":        "c70cff00000000fffffffffffeae80",
	} {
		at, err := time.Parse(time.RFC3339Nano, text)
		testenv.Must(t, err)
		b, err := codec[time.Time](t).AppendValue(nil, at.In(time.FixedZone("", 3600)))
		expect(t, b, err, unhex(t, want))
		got, err := codec[time.Time](t).DecodeValue(b)
		same(t, got, err, at)
		anything, err := codec[any](t).DecodeValue(b)
		same(t, anything, err, any(at))
		shown, err := ToJSON(b)
		same(t, string(shown), err, `{"$time":"`+text+`"}`)
		back, err := FromJSON(shown)
		expect(t, back, err, b)
	}
}
