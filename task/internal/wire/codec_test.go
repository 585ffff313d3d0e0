package wire

import (
	"bytes"
	"encoding"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/taktworks/takt/internal/msgpack"
	"github.com/taktworks/takt/internal/testenv"
)

type (
	level  uint8 // has a text
	stamp  struct{ time.Time }
	digit  uint8
	person struct {
		Name string
		Age  int8
	}
	node struct {
		Name string
		Next *node
		Kids []node
	}
	every struct {
		Bool    bool
		Int     int
		I8      int8
		I16     int16
		I32     int32
		I64     int64
		Uint    uint
		U8      uint8
		U16     uint16
		U32     uint32
		U64     uint64
		F32     float32
		F64     float64
		Text    string
		Bytes   []byte
		Three   [3]byte
		Digits  []digit
		Two     [2]digit
		Level   level
		Levels  []level
		Addr    netip.Addr
		Big     *big.Int
		At      time.Time
		For     time.Duration
		Person  person
		Pointer *person
		Number  *int
		People  []person
		Pair    [2]string
		Map     map[string]int
		Nested  map[string][]map[string]person
		Empty   struct{}
		Any     any
		List    []any
		Tree    node
		hidden  int
	}
)

func (l level) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "L%d", uint8(l)), nil }

func (l *level) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "L%d", (*uint8)(l))
	return err
}

var _ encoding.TextMarshaler = level(0)

func everyValue() every {
	seven := 7
	return every{
		true, -1, math.MinInt8, math.MinInt16, math.MinInt32, math.MinInt64,
		math.MaxUint, math.MaxUint8, math.MaxUint16, math.MaxUint32, math.MaxUint64,
		1.5, math.Inf(-1), "ä", []byte{}, [3]byte{1, 2, 3}, []digit{4, 5}, [2]digit{6, 7},
		3, []level{1, 2}, netip.MustParseAddr("::1"), new(big.Int).Lsh(big.NewInt(1), 100),
		time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC), time.Second,
		person{"A", 1}, &person{"B", 2}, &seven, []person{{"C", 3}}, [2]string{"x", ""},
		map[string]int{"b": 2, "a": 1}, map[string][]map[string]person{"x": {{"y": {"D", 4}}, nil}},
		struct{}{}, map[string]any{"z": uint64(math.MaxUint64)}, []any{"x", nil, int64(1), 2.0, []byte{1}, []any{}},
		node{"root", &node{Name: "next"}, []node{{Name: "kid"}}},
		0,
	}
}

func TestEveryKindRoundTrips(t *testing.T) {
	c := codec[every](t)
	for _, v := range []every{everyValue(), {}} {
		b := must(t)(c.AppendArgs([]byte("x"), v))
		testenv.Must(t, Check(b[1:], MaxValueDepth))
		got, err := c.DecodeArgs(b[1:])
		same(t, got, err, v)
		again, err := c.AppendValue(nil, v)
		expect(t, again, err, b[1:])
		got, err = c.DecodeValue(again)
		same(t, got, err, v)
	}
}

func TestShapeOfArguments(t *testing.T) {
	check := func(name string, got []byte, err error, want []byte) {
		t.Run(name, func(t *testing.T) { expect(t, got, err, want) })
	}
	b, err := codec[person](t).AppendArgs(nil, person{"A", 1})
	check("struct", b, err, arrayOf(2, "A", 1))
	b, err = codec[struct{}](t).AppendArgs(nil, struct{}{})
	check("none", b, err, arrayOf(0))
	b, err = codec[struct{}](t).AppendValue(nil, struct{}{})
	check("no result", b, err, []byte{0xc0})
	b, err = codec[int](t).AppendArgs(nil, 5)
	check("one", b, err, arrayOf(1, 5))
	b, err = codec[[]int](t).AppendArgs(nil, []int{1, 2})
	check("one list", b, err, arrayOf(1, arrayOf(2, 1, 2)))
	b, err = codec[[]int](t).AppendValue(nil, nil)
	check("nil list", b, err, []byte{0xc0})
	b, err = codec[*person](t).AppendArgs(nil, &person{"A", 1})
	check("pointer", b, err, arrayOf(1, arrayOf(2, "A", 1)))
	b, err = codec[struct{ P person }](t).AppendArgs(nil, struct{ P person }{person{"A", 1}})
	check("nested", b, err, arrayOf(1, arrayOf(2, "A", 1)))
	b, err = codec[map[string]int](t).AppendValue(nil, map[string]int{"b": 1, "a": 2, "c": 3})
	check("sorted", b, err, mapOf(3, "a", 2, "b", 1, "c", 3))
	b, err = codec[stamp](t).AppendValue(nil, stamp{time.Unix(1, 0)})
	check("embedded", b, err, arrayOf(1, []byte{0xd6, 0xff, 0, 0, 0, 1}))
}

func TestReadersAreOlderAndNewer(t *testing.T) {
	c := codec[person](t)
	v, err := c.DecodeArgs(arrayOf(1, "old"))
	same(t, v, err, person{Name: "old"})
	v, err = c.DecodeArgs(nil)
	same(t, v, err, person{})
	n, err := codec[int](t).DecodeArgs(arrayOf(0))
	same(t, n, err, 0)
	none, err := codec[struct{}](t).DecodeArgs(arrayOf(1, mapOf(1, "gone", 1)))
	same(t, none, err, struct{}{})
	none, err = codec[struct{}](t).DecodeValue(pack("anything"))
	same(t, none, err, struct{}{})
	f, err := codec[float64](t).DecodeValue(pack(-3))
	same(t, f, err, -3.0)
	people, err := codec[[]person](t).DecodeValue(arrayOf(2, arrayOf(0), arrayOf(3, "x", 1, 2)))
	same(t, people, err, []person{{}, {"x", 1}})
}

type order struct {
	ID    string
	Items []struct {
		Price float64
		Count uint8
		Tags  map[string]int16
		When  *time.Time
		Three [3]byte
		Two   [2]int
		Level level
	}
}

// No number is cut and no kind is guessed: what does not fit is an error with the way to the field.
func TestDecodeArgsNamesTheField(t *testing.T) {
	item := func(parts ...any) []byte { return arrayOf(2, "i", arrayOf(1, arrayOf(len(parts), parts...))) }
	f := msgpack.AppendFloat64(nil, 1.5)
	null := []byte{0xc0}
	for _, c := range []struct {
		raw  []byte
		want string
	}{
		{mapOf(0), "order, byte 0: is a map, must be an array"},
		{arrayOf(1, 1), "order.ID, byte 1: is an integer, must be text"},
		{arrayOf(1, null), "order.ID, byte 1: is nil, must be text"},
		{arrayOf(1, []byte{0xc4, 0}), "order.ID, byte 1: is bytes, must be text"},
		{arrayOf(2, "i", 1), "order.Items, byte 3: is an integer, must be an array"},
		{item("x"), "order.Items[0].Price, byte 5: is text, must be a float"},
		{item([]byte{0xcf, 0, 0x20, 0, 0, 0, 0, 0, 1}), "order.Items[0].Price, byte 5: does not fit float64"},
		{item(f, 256), "order.Items[0].Count, byte 14: does not fit uint8"},
		{item(f, -1), "order.Items[0].Count, byte 14: does not fit uint8"},
		{item(f, f), "order.Items[0].Count, byte 14: is a float, must be an integer"},
		{item(f, 1, mapOf(1, "k", 1<<15)), `order.Items[0].Tags["k"], byte 18: does not fit int16`},
		{item(f, 1, mapOf(1, "k", []byte{0xcf, 255, 0, 0, 0, 0, 0, 0, 0})), `order.Items[0].Tags["k"], byte 18: does not fit int16`},
		{item(f, 1, mapOf(1, 1, 1)), "order.Items[0].Tags, byte 16: a map key is an integer"},
		{item(f, 1, mapOf(1, []byte{0xc4, 1, 0xff}, 1)), "order.Items[0].Tags, byte 16: a map key is bytes that are not UTF-8"},
		{item(f, 1, null, "x"), "order.Items[0].When, byte 16: is text, must be a timestamp"},
		{item(f, 1, null, null, []byte{0xc4, 1, 0}), "order.Items[0].Three, byte 17: is 1 bytes, must be 3"},
		{item(f, 1, null, null, []byte{0xc4, 3, 0, 0, 0}, arrayOf(1, 1)), "order.Items[0].Two, byte 22: is 1 elements, must be 2"},
		{item(f, 1, null, null, []byte{0xc4, 3, 0, 0, 0}, arrayOf(2, 1, 1), "?"), "order.Items[0].Level, byte 25: is no wire.level"},
		{append(arrayOf(0), 1), "byte 1: 1 bytes follow the value"},
		{item(f, 1, null, null, []byte{0xc4, 3, 0, 0, 0}, arrayOf(2, 1, 1), "L1", deep(40)), "is nested too deep"},
		{arrayOf(1, mapOf(1, "ID", "i")), "order, byte 1: has arguments by name, and wire.order travels by position, [ID, Items]"},
	} {
		v, err := codec[order](t).DecodeArgs(c.raw)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%x\ngot  %v\nwant %s", c.raw, err, c.want)
		}
		same(t, v, nil, order{})
	}
}

func refused[T any](t *testing.T, want string) {
	t.Helper()
	_, err := NewCodec[T](ByPosition)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v: got %v\nwant %s", reflect.TypeFor[T](), err, want)
	}
}

type (
	base     struct{ Name string }
	withBase struct{ base }
	closed   struct{ _ int }
	inner    struct{ Done chan int }
	outer    struct {
		Name  string
		Items []map[string]*inner
	}
	pointer    *pointer
	withMethod struct{ E encoding.TextMarshaler }
)

// A type whose values could not arrive is refused before the first is sent.
func TestNewCodecRefuses(t *testing.T) {
	refused[outer](t, "outer.Items[][].Done: chan int: a chan cannot travel")
	refused[struct{ F func() }](t, "value.F: func(): a func cannot travel")
	refused[complex128](t, "complex128: a complex128 cannot travel")
	refused[struct{ P unsafe.Pointer }](t, "value.P: unsafe.Pointer")
	refused[uintptr](t, "uintptr")
	refused[struct{ M map[int]string }](t, "value.M: map[int]string: keys must be text")
	refused[map[any]int](t, "keys must be text")
	refused[map[netip.Addr]int](t, "keys must be text")
	refused[withBase](t, "withBase.base: is embedded but not exported")
	refused[closed](t, "closed: wire.closed has no exported field")
	refused[struct{ T struct{ c closed } }](t, "value.T")
	refused[withMethod](t, "withMethod.E: encoding.TextMarshaler is an interface with methods")
	refused[error](t, "error is an interface with methods")
	refused[**int](t, "a nil pointer and a pointer to nil")
	refused[*[]int](t, "a nil pointer and a pointer to nil")
	refused[*any](t, "a nil pointer and a pointer to nil")
	refused[pointer](t, "a nil pointer and a pointer to nil")
}

// What an interface holds goes through as it is, or fails where it is submitted.
func TestValuesWithinInterfaces(t *testing.T) {
	c := codec[struct{ V any }](t)
	loop := map[string]any{}
	loop["x"] = loop
	for want, v := range map[string]any{
		"V: map[int]string: keys must be text":                    map[int]string{1: "x"},
		"V: map[interface {}]int: keys must be text":              map[any]int{1: 1},
		`V["a"][0]: map[uint8]bool: keys must be text`:            map[string]any{"a": []any{map[uint8]bool{1: true}}},
		"V: wire.person: a struct within an interface":            person{"A", 1},
		"V[0]: wire.person: a struct within an interface":         []any{&person{"A", 1}},
		"V[]: wire.person: a struct within an interface":          []person{},
		"V: chan int: a chan cannot travel":                       make(chan int),
		`V: text is not UTF-8: "\xff"`:                            "\xff",
		`V["k"]: text is not UTF-8`:                               map[string]string{"k": "\xff"},
		"V: text is not UTF-8":                                    map[string]int{"\xff": 1},
		"is nested deeper than 31":                                loop,
		"V: complex64: a complex64 cannot travel":                 complex64(1),
		"V: wire.pointer: a nil pointer and a pointer to nil wou": pointer(nil),
	} {
		for range 2 { // the second time from memory
			b, err := c.AppendArgs([]byte("x"), struct{ V any }{v})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if string(b) != "x" {
				t.Errorf("%s: dst is %q", want, b)
			}
		}
	}
	three := 3
	for _, v := range []struct{ give, get any }{
		{[2]any{1, "tuple"}, []any{int64(1), "tuple"}},
		{uint64(math.MaxUint64), uint64(math.MaxUint64)},
		{uint64(math.MaxInt64), int64(math.MaxInt64)},
		{int64(math.MinInt64), int64(math.MinInt64)},
		{math.Inf(1), math.Inf(1)},
		{float32(0.5), 0.5},
		{[]byte{1}, []byte{1}},
		{[2]byte{1, 2}, []byte{1, 2}},
		{&three, int64(3)},
		{time.Unix(5, 6), time.Unix(5, 6).UTC()},
		{level(4), "L4"},
		{[]string(nil), nil},
		{map[string][]string{"a": {}}, map[string]any{"a": []any{}}},
	} {
		b, err := c.AppendArgs(nil, struct{ V any }{v.give})
		if err != nil {
			t.Errorf("%T: %v", v.give, err)
			continue
		}
		got, err := c.DecodeArgs(b)
		same(t, got.V, err, v.get)
	}
}

func must(t interface {
	Helper()
	Fatal(...any)
}) func([]byte, error) []byte {
	return func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func TestDepthOfValues(t *testing.T) {
	c := codec[node](t)
	chain := func(n int) *node {
		var top *node
		for range n {
			top = &node{Next: top}
		}
		return top
	}
	b := must(t)(c.AppendValue(nil, *chain(MaxValueDepth)))
	v, err := c.DecodeValue(b)
	same(t, v, err, *chain(MaxValueDepth))
	m := Message{ID: "i", Name: "n", Args: b}
	if _, err = m.Append(nil); err != nil {
		t.Error(err)
	}
	if _, err = c.AppendValue(nil, *chain(MaxValueDepth + 1)); err == nil {
		t.Error("nested deeper than a message may be")
	}
	ring := &node{}
	ring.Next = ring
	if _, err = c.AppendValue(nil, *ring); err == nil {
		t.Error("a ring was written")
	}
	type list []list
	endless := list{nil}
	endless[0] = endless
	if _, err = codec[list](t).AppendArgs(nil, endless); err == nil {
		t.Error("a list within itself was written")
	}
}

func TestCodecKeepsNothingOfItsInput(t *testing.T) {
	c := codec[[]any](t)
	b := must(t)(c.AppendValue(nil, []any{"text", []byte("bytes")}))
	v, err := c.DecodeValue(b)
	clear(b)
	same(t, v, err, []any{"text", []byte("bytes")})
}

func TestAnyRefusesWhatHasNoGoType(t *testing.T) {
	for want, raw := range map[string][]byte{
		`value["a"][1], byte 5: is an extension of type 5`: mapOf(1, "a", arrayOf(2, 1, []byte{0xd4, 5, 0})),
		"value, byte 1: a map key is bytes that are not":   mapOf(1, []byte{0xc4, 1, 0xff}, 1),
		"is nested too deep":                               append(bytes.Repeat([]byte{0x81, 0xa0}, MaxDepth), 1),
		"value, byte 1: a map key is an integer":           mapOf(1, 1, 1),
	} {
		_, err := codec[any](t).DecodeValue(raw)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	m, err := codec[any](t).DecodeValue(mapOf(1, []byte{0xc4, 1, 'k'}, 1))
	same(t, m, err, any(map[string]any{"k": int64(1)}))
}
