package oslo

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/msgpack"
)

// What an extension is, nobody has to know to write it as it was: unknown codes, reserved ones, broken bodies.
func TestExtensionsAreKept(t *testing.T) {
	for _, code := range []int8{-128, -2, 0, 1, 7, 8, 32, 33, 127} {
		for _, n := range []int{0, 1, 2, 3, 4, 8, 16, 17, 255, 256, 65536} {
			e := Ext{code, bytes.Repeat([]byte{0xc1}, n)}
			raw := encode(t, []any{e})
			same(t, decode(t, raw), nil, any([]any{e}))
			same(t, encode(t, decode(t, raw)), nil, raw)
		}
	}
}

// Any legal form is read; it is written in the shortest.
func TestLongForms(t *testing.T) {
	for long, short := range map[string]string{
		"cc01": "01", "cd0001": "01", "ce00000001": "01", "cf0000000000000001": "01", "d3ffffffffffffffff": "ff", "d10001": "01",
		"ca3fc00000": "cb3ff8000000000000", "d90161": "a161", "da000161": "a161", "db0000000161": "a161",
		"c5000161": "c40161", "c60000000161": "c40161", "dc000101": "9101", "dd0000000101": "9101", "de0001a16101": "81a16101", "df00000001a16101": "81a16101",
		"c7010961": "d40961", "c800010961": "d40961", "c9000000010961": "d40961",
	} {
		same(t, encode(t, decode(t, unhex(t, long))), nil, unhex(t, short))
	}
}

// Members keep their order, and all of them are there; the last of two with one key counts. Bytes are a key of their own.
func TestMapsKeepTheirOrder(t *testing.T) {
	m := Map{{"z", int64(1)}, {"a", int64(2)}, {[]byte("z"), int64(3)}, {"z", int64(4)}, {[]byte{0xff}, nil}}
	raw := encode(t, m)
	same(t, raw, nil, unhex(t, "85a17a01a16102c4017a03a17a04c401ffc0"))
	got := decode(t, raw).(Map)
	same(t, got, nil, m)
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct {
		hex  string
		want string
	}{
		{"", "byte 0: ends where a value should begin"},
		{"c0c0", "byte 1: 1 bytes follow the value"},
		{"8101c0", "byte 1: a map key is an integer, must be text or bytes"},
		{"81c0c0", "byte 1: a map key is nil"},
		{"81d40901c0", "byte 1: a map key is an extension"},
		{"92a161a1ff", "byte 3: text is not UTF-8"},
		{"c705ff0000000000", "byte 0: a timestamp of 5 bytes"},
		{"ddffffffff", "byte 0: an array of 4294967295 members, but only 0 bytes follow"},
		{strings.Repeat("91", MaxDepth) + "90", "byte 500: is nested too deep"},
	} {
		v, err := Decode(unhex(t, c.hex))
		var format *msgpack.FormatError
		if v != nil || !errors.As(err, &format) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20s: %v %v, want %s", c.hex, v, err, c.want)
		}
	}
	if _, err := Decode(unhex(t, strings.Repeat("91", MaxDepth-1)+"90")); err != nil {
		t.Error(err)
	}
}

// Values of Go's own types are written as the value that Decode gives for them.
func TestGoValues(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	got := decode(t, encode(t, []any{
		-1, uint64(math.MaxUint64), []byte(nil), Map(nil), []any(nil), map[string]any(nil), map[string]any{"b": 2, "a": 1}, at.In(time.FixedZone("", -3600)),
	})).([]any)
	same(t, got[:7], nil, []any{int64(-1), uint64(math.MaxUint64), nil, nil, nil, nil, Map{{"a", int64(1)}, {"b", int64(2)}}})
	moment, err := Time(got[7].(Ext))
	same(t, moment, err, at)
}

func TestAppendRefuses(t *testing.T) {
	loop := []any{nil}
	loop[0] = loop
	deep := any([]any{})
	for range MaxDepth {
		deep = Map{{"a", deep}}
	}
	for _, c := range []struct {
		v    any
		want string
	}{
		{"\xff", "text is not UTF-8"},
		{map[string]any{"store": []any{1, "\xff"}}, "store[1]: text is not UTF-8"},
		{Map{{"\xff", 1}}, "text is not UTF-8"},
		{Map{{1, 1}}, "a map key is a int, must be text or bytes"},
		{Map{{"f", func() {}}}, "f: a func() cannot be written"},
		{[]any{struct{}{}}, "[0]: a struct {} cannot be written"},
		{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "is in the year 10000, must be in 1 to 9999"},
		{[]any{time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)}, "[0]: is in the year 0, must be in 1 to 9999"},
		{loop, "is nested too deep"},
		{deep, "a.a: is nested too deep"},
	} {
		b, err := Append([]byte("before"), c.v)
		var value *msgpack.ValueError
		if string(b) != "before" || !errors.As(err, &value) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got  %q %.200v\nwant %s", b, err, c.want)
		}
	}
}

// A datetime may have its keys in any order, as bytes, as Python 2 wrote them, and may be in a zone.
func TestDatetimes(t *testing.T) {
	text := func(name string) any { return name }
	python2 := func(name string) any { return []byte(name) }
	for _, key := range []func(string) any{text, python2} {
		m := Map{
			{key("microsecond"), 6}, {key("second"), 5}, {key("minute"), 4}, {key("hour"), 3}, {key("unknown"), []any{1}},
			{key("year"), 1999}, {key("year"), 2024}, {key("month"), 1}, {key("day"), 2},
		}
		got, err := Time(Ext{CodeDatetime, encode(t, m)})
		same(t, got, err, time.Date(2024, 1, 2, 3, 4, 5, 6000, time.UTC))
		aware := append(m, Pair{key("tz"), key("Europe/Berlin")})
		got, err = Time(Ext{CodeDatetime, encode(t, aware)})
		same(t, got.UTC(), err, time.Date(2024, 1, 2, 2, 4, 5, 6000, time.UTC))
		same(t, got.Location().String(), nil, "Europe/Berlin")
	}
}

func TestBrokenExtensions(t *testing.T) {
	clock := func(change ...Pair) []byte {
		m := Map{{"day", 29}, {"month", 2}, {"year", 2024}, {"hour", 0}, {"minute", 0}, {"second", 0}, {"microsecond", 0}}
		return encode(t, append(m, change...))
	}
	for _, c := range []struct {
		e    Ext
		want string
	}{
		{Ext{CodeDatetime, nil}, "byte 0: ends where a value should begin"},
		{Ext{CodeDatetime, unhex(t, "c0")}, "byte 0: is nil, must be a map"},
		{Ext{CodeDatetime, unhex(t, "80")}, "year, byte 0: is missing"},
		{Ext{CodeDatetime, clock()[:20]}, "ends within"},
		{Ext{CodeDatetime, append(clock(), 0xc0)}, "1 bytes follow the value"},
		{Ext{CodeDatetime, clock(Pair{"year", 2023})}, "there is no time [2023 2 29 0 0 0 0]"},
		{Ext{CodeDatetime, clock(Pair{"year", 0})}, "there is no time"},
		{Ext{CodeDatetime, clock(Pair{"year", 10000})}, "there is no time"},
		{Ext{CodeDatetime, clock(Pair{"month", 13})}, "there is no time"},
		{Ext{CodeDatetime, clock(Pair{"hour", 24})}, "there is no time"},
		{Ext{CodeDatetime, clock(Pair{"second", 60})}, "there is no time"},
		{Ext{CodeXMLRPC, clock(Pair{"microsecond", 1000000})}, "there is no time"},
		{Ext{CodeDatetime, clock(Pair{"microsecond", int64(math.MaxInt64)})}, "there is no time"},
		{Ext{CodeDatetime, clock(Pair{"day", 1.0})}, "day, byte 60: is a float, must be an integer"},
		{Ext{CodeDatetime, clock(Pair{"tz", "Mars/Olympus"})}, `tz, byte 59: is no known zone: "Mars/Olympus"`},
		{Ext{CodeDatetime, clock(Pair{"tz", "Local"})}, "is no known zone"},
		{Ext{CodeDatetime, clock(Pair{"tz", ""})}, "is no known zone"},
		{Ext{CodeDatetime, clock(Pair{"tz", "../UTC"})}, "is no known zone"},
		{Ext{CodeDatetime, clock(Pair{"tz", nil})}, "tz, byte 59: is nil, must be text"},
		{Ext{CodeDate, unhex(t, "80")}, "year, byte 0: is missing"},
		{Ext{CodeUUID, []byte("0b7d")}, `is no UUID: "0b7d"`},
		{Ext{CodeUUID, []byte("{" + someUUID + "}")}, "is no UUID"},
		{Ext{CodeCount, unhex(t, "9103")}, "is 1 elements, must be start and step"},
		{Ext{CodeCount, unhex(t, "9203c0")}, "step, byte 2: is nil, must be an integer"},
		{Ext{CodeCount, unhex(t, "92cfffffffffffffffff01")}, "start, byte 1: is an integer above 63 bits"},
		{Ext{CodeIP, unhex(t, "ff")}, "is -1, which is no IP address"},
		{Ext{CodeIP, unhex(t, "c0")}, "is nil, must be an integer"},
		{Ext{CodeIP, unhex(t, "01c0")}, "1 bytes follow"},
		{Ext{CodeSet, unhex(t, "80")}, "is a map, must be an array"},
		{Ext{CodeFrozenset, unhex(t, "9101c0")}, "1 bytes follow"},
	} {
		err := Check(encode(t, []any{c.e}))
		if c.e.Code == CodeDatetime || c.e.Code == CodeXMLRPC {
			if err == nil {
				t.Errorf("%d %x passes as readable", c.e.Code, c.e.Data)
			}
			_, err = Time(c.e)
		}
		var format *msgpack.FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d %x\ngot  %v\nwant %s", c.e.Code, c.e.Data, err, c.want)
		}
	}
	if _, err := Time(Ext{Code: 99}); err == nil || !strings.Contains(err.Error(), "is an extension of type 99, must be a datetime") {
		t.Error(err)
	}
}

// What a Python reader would take for broken, and delete, is found before it is written.
func TestCheck(t *testing.T) {
	set := func(code int8, members ...any) Ext { return Ext{code, encode(t, members)} }
	sets := func(n int) any {
		v := any(1)
		for range n {
			v = set(CodeFrozenset, v)
		}
		return v
	}
	clock := func(more ...Pair) []byte {
		return encode(t, append(Map{{"day", 1}, {"month", 2}, {"year", 2024}, {"hour", 0}, {"minute", 0}, {"second", 0}, {"microsecond", 0}}, more...))
	}
	for _, c := range []struct {
		v    any
		want string // "" = it is fine
	}{
		{Map{{"when", Ext{CodeUUID, []byte(strings.Repeat("0", 32))}}, {"n", []any{nil, true, math.NaN(), []byte{1}, Map{}}}}, ""},
		{[]any{Ext{8, nil}, Ext{127, []byte{0xc1}}}, ""},
		{set(CodeSet, 1, "a", []byte{1}, Ext{99, nil}, set(CodeFrozenset, 1)), ""},
		{Map{{"a", Map{{[]byte("b"), 1}}}}, "a, byte 4: is bytes, must be text"},
		{Map{{"a", []any{0, Ext{-1, []byte{0, 0, 0, 0}}}}}, "a[1], byte 5: is an extension of type -1, must be of 0 to 127"},
		{Ext{CodeDatetime, []byte{0x80}}, "byte 0: is a broken extension of type 1: msgpack: year, byte 0: is missing"},
		{set(CodeSet, 1, []any{}), "is a broken extension of type 4: msgpack: [1], byte 2: is an array, which Python has not in sets"},
		{set(CodeFrozenset, Map{}), "[0], byte 1: is a map, which Python has not in sets"},
		{set(CodeFrozenset, set(CodeSet)), "[0], byte 1: is an extension, which Python has not in sets"},
		{set(CodeSet, Ext{CodeIP, []byte{0xff}}), "is -1, which is no IP address"},
		{sets(maxSets), ""},
		{sets(maxSets + 1), "is a set within 32 others"},
		{Ext{CodeXMLRPC, clock()}, ""},
		{Ext{CodeDate, clock()}, ""},
		{Ext{CodeDatetime, clock(Pair{"tz", "UTC"})}, "tz, byte 59: is there, but the datetime must be naive"},
		{Ext{CodeDatetime, clock(Pair{"x", Ext{CodeUUID, nil}})}, "byte 56: is not the key of a part of a datetime, as text"},
		{Ext{CodeDate, clock(Pair{[]byte("day"), 1})}, "byte 56: is not the key of a part of a datetime, as text"}, // Python 2 wrote all of them so, or none
	} {
		err := Check(encode(t, c.v))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%x\ngot  %.400v\nwant %s", encode(t, c.v), err, c.want)
		}
	}
}
