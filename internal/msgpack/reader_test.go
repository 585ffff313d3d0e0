package msgpack

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// What is appended has the shortest head there is, and is read as what it was.
func TestHeads(t *testing.T) {
	text := func(n int) []byte { return AppendString(nil, strings.Repeat("x", n)) }
	bin := func(n int) []byte { return AppendBytes(nil, make([]byte, n)) }
	ext := func(n int) []byte { return AppendExt(nil, 9, make([]byte, n)) }
	for _, c := range []struct {
		got  []byte
		head string // hex
		kind Kind
		want any
	}{
		{AppendNil(nil), "c0", KindNil, nil},
		{AppendBool(nil, false), "c2", KindBool, false},
		{AppendBool(nil, true), "c3", KindBool, true},
		{AppendInt(nil, 0), "00", KindInt, int64(0)},
		{AppendInt(nil, 127), "7f", KindInt, int64(127)},
		{AppendInt(nil, 128), "cc80", KindInt, int64(128)},
		{AppendInt(nil, 255), "ccff", KindInt, int64(255)},
		{AppendInt(nil, 256), "cd0100", KindInt, int64(256)},
		{AppendInt(nil, 65535), "cdffff", KindInt, int64(65535)},
		{AppendInt(nil, 65536), "ce00010000", KindInt, int64(65536)},
		{AppendInt(nil, math.MaxUint32), "ceffffffff", KindInt, int64(math.MaxUint32)},
		{AppendInt(nil, 1<<32), "cf0000000100000000", KindInt, int64(1 << 32)},
		{AppendInt(nil, math.MaxInt64), "cf7fffffffffffffff", KindInt, int64(math.MaxInt64)},
		{AppendUint(nil, 1<<63), "cf8000000000000000", KindUint, uint64(1 << 63)},
		{AppendUint(nil, math.MaxUint64), "cfffffffffffffffff", KindUint, uint64(math.MaxUint64)},
		{AppendInt(nil, -1), "ff", KindInt, int64(-1)},
		{AppendInt(nil, -32), "e0", KindInt, int64(-32)},
		{AppendInt(nil, -33), "d0df", KindInt, int64(-33)},
		{AppendInt(nil, -128), "d080", KindInt, int64(-128)},
		{AppendInt(nil, -129), "d1ff7f", KindInt, int64(-129)},
		{AppendInt(nil, -32768), "d18000", KindInt, int64(-32768)},
		{AppendInt(nil, -32769), "d2ffff7fff", KindInt, int64(-32769)},
		{AppendInt(nil, math.MinInt32), "d280000000", KindInt, int64(math.MinInt32)},
		{AppendInt(nil, math.MinInt32-1), "d3ffffffff7fffffff", KindInt, int64(math.MinInt32 - 1)},
		{AppendInt(nil, math.MinInt64), "d38000000000000000", KindInt, int64(math.MinInt64)},
		{AppendFloat32(nil, 1.5), "ca3fc00000", KindFloat, 1.5},
		{AppendFloat64(nil, 1), "cb3ff0000000000000", KindFloat, 1.0},
		{text(0), "a0", KindString, 0},
		{text(31), "bf", KindString, 31},
		{text(32), "d920", KindString, 32},
		{text(255), "d9ff", KindString, 255},
		{text(256), "da0100", KindString, 256},
		{text(65535), "daffff", KindString, 65535},
		{text(65536), "db00010000", KindString, 65536},
		{bin(0), "c400", KindBytes, 0},
		{bin(255), "c4ff", KindBytes, 255},
		{bin(256), "c50100", KindBytes, 256},
		{bin(65536), "c600010000", KindBytes, 65536},
		{ext(0), "c70009", KindExt, 0},
		{ext(1), "d409", KindExt, 1},
		{ext(2), "d509", KindExt, 2},
		{ext(3), "c70309", KindExt, 3},
		{ext(4), "d609", KindExt, 4},
		{ext(8), "d709", KindExt, 8},
		{ext(16), "d809", KindExt, 16},
		{ext(17), "c71109", KindExt, 17},
		{ext(255), "c7ff09", KindExt, 255},
		{ext(256), "c8010009", KindExt, 256},
		{ext(65536), "c90001000009", KindExt, 65536},
		{AppendTimestamp(nil, time.Unix(1, 0)), "d6ff00000001", KindExt, time.Unix(1, 0).UTC()},
		{AppendTimestamp(nil, time.Unix(1, 2)), "d7ff0000000800000001", KindExt, time.Unix(1, 2).UTC()},
		{AppendTimestamp(nil, time.Unix(-1, 2)), "c70cff00000002ffffffffffffffff", KindExt, time.Unix(-1, 2).UTC()},
	} {
		if head := fmt.Sprintf("%x", c.got); !strings.HasPrefix(head, c.head) {
			t.Errorf("got %.20s, want %s", head, c.head)
		}
		// Behind one value and before another: the token knows where it began, and nothing of the next one is read.
		r := NewReader(append(append([]byte{Nil}, c.got...), Nil))
		if !r.SkipNil() {
			t.Fatal("there is a nil")
		}
		token, err := r.Want(c.kind)
		if err != nil {
			t.Fatalf("%s: %v", c.head, err)
		}
		if got := valueOf(&token); got != c.want {
			t.Errorf("%s: got %v, want %v", c.head, got, c.want)
		}
		if token.At != 1 || !bytes.Equal(r.Since(1), c.got) || r.Offset() != 1+len(c.got) {
			t.Errorf("%s: began at %d, was %x", c.head, token.At, r.Since(1))
		}
	}
}

// valueOf is the value of a scalar; of text, bytes and extensions their length.
func valueOf(t *Token) any {
	switch {
	case t.IsTime():
		return t.Time()
	case t.Kind == KindNil:
		return nil
	case t.Kind == KindBool:
		return t.Bool()
	case t.Kind == KindInt:
		return t.Int()
	case t.Kind == KindUint:
		return t.Uint()
	case t.Kind == KindFloat:
		return t.Float()
	}
	return len(t.Body)
}

func TestContainerHeads(t *testing.T) {
	for n, heads := range map[int][2]string{0: {"90", "80"}, 15: {"9f", "8f"}, 16: {"dc0010", "de0010"}, 65535: {"dcffff", "deffff"}, 65536: {"dd00010000", "df00010000"}} {
		members := bytes.Repeat(AppendString(nil, ""), 2*n)
		for i, head := range [][]byte{AppendArrayLen(nil, n), AppendMapLen(nil, n)} {
			if got := fmt.Sprintf("%x", head); got != heads[i] {
				t.Errorf("got %s, want %s", got, heads[i])
			}
			kind := []Kind{KindArray, KindMap}[i]
			r := NewReader(append(head, members[:n*(i+1)]...))
			if got, err := r.Members(kind); got != n || err != nil {
				t.Errorf("%s: got %d members, %v", heads[i], got, err)
			}
			r = NewReader(append(head, members[:n*(i+1)]...))
			if err := errors.Join(r.Skip(1), r.End()); err != nil {
				t.Errorf("%s: %v", heads[i], err)
			}
		}
	}
}

// What is wrong is said with the place of the value and with what was wanted.
func TestReaderRefuses(t *testing.T) {
	number := func(r *Reader) error { _, err := r.Int(); return err }
	text := func(r *Reader) error { _, err := r.Text(); return err }
	skip := func(r *Reader) error { return r.Skip(2) }
	for _, c := range []struct {
		in   string
		read func(*Reader) error
		want string
	}{
		{"", skip, "byte 0: ends where a value should begin"},
		{"\x91", skip, "byte 0: an array of 1 members, but only 0 bytes follow"},
		{"\x91\xcd\x00", skip, "byte 1: ends within the head of a value"},
		{"\x91\xc1", skip, "byte 1: 0xc1 begins no value"},
		{"\x91\x91\x91\x90", skip, "byte 2: is nested too deep"},
		{"\xdf\xff\xff\xff\xff\xa0\xa0", skip, "byte 0: a map of 4294967295 members, but only 2 bytes follow"},
		{"\xdb\xff\xff\xff\xff", skip, "byte 0: text of 4294967295 bytes, but only 0 follow"},
		{"\xc6\xff\xff\xff\xff", skip, "byte 0: bytes of 4294967295 bytes, but only 0 follow"},
		{"\xc9\xff\xff\xff\xff\x07", skip, "byte 0: an extension of 4294967295 bytes, but only 0 follow"},
		{"\x81\x01\x01", skip, "byte 1: a map key is an integer, must be text or bytes"},
		{"\x81\xa1\xff\x01", skip, "byte 1: text is not UTF-8"},
		{"\x81\xa3\xed\xa0\x80\x01", skip, "byte 1: text is not UTF-8"}, // half a surrogate pair
		{"\xc7\x05\xff12345", skip, "byte 0: a timestamp of 5 bytes"},
		{"\xcb\x00\x00\x00\x00\x00\x00\x00\x00", number, "byte 0: is a float, must be an integer"},
		{"\xcf\x80\x00\x00\x00\x00\x00\x00\x00", number, "byte 0: is an integer above 63 bits, must be an integer"},
		{"\xc4\x01x", text, "byte 0: is bytes, must be text"},
		{"\x01", text, "byte 0: is an integer, must be text"},
	} {
		r := NewReader([]byte(c.in))
		err := c.read(&r)
		var format *FormatError
		if !errors.As(err, &format) || err.Error() != "msgpack: "+c.want {
			t.Errorf("%x\ngot  %v\nwant %s", c.in, err, c.want)
		}
	}
}

// A member of a map is known by its text; one whose key is bytes is known by no name, but its bytes are there.
func TestFields(t *testing.T) {
	in := AppendMapLen(nil, 2)
	in = AppendInt(AppendString(in, "n"), 5)
	in = AppendArrayLen(AppendBytes(in, []byte("n")), 0)
	r := NewReader(in)
	var got []string
	err := r.Fields(func(name []byte, from int) error {
		value, err := r.Raw(1)
		got = append(got, fmt.Sprintf("%s %x %x", name, r.Since(from), value))
		return err
	})
	if want := []string{"n a16e05 05", " c4016e90 90"}; err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q %v, want %q", got, err, want)
	}
	r = NewReader(in)
	err = r.Fields(func([]byte, int) error { _, err := r.Text(); return err })
	if err == nil || err.Error() != "msgpack: n, byte 3: is an integer, must be text" {
		t.Error(err)
	}
}

// Skip takes what can be walked over token by token, ends at the same place, and allocates nothing.
func FuzzReader(f *testing.F) {
	f.Add([]byte("\x82\xa1a\x92\x01\xc0\xc4\x01b\xd6\xff\x00\x00\x00\x01"), 3)
	f.Add([]byte("\xdd\x00\x00\x00\x01\xcb\x00\x00\x00\x00\x00\x00\x00\x00"), 1)
	f.Add([]byte("\x91\x91\x90"), 2)
	f.Fuzz(func(t *testing.T, in []byte, levels int) {
		levels %= 1000
		skipped, walked := NewReader(in), NewReader(in)
		errSkip, errWalk := skipped.Skip(levels), walk(&walked, levels)
		if (errSkip == nil) != (errWalk == nil) || errSkip == nil && skipped.Offset() != walked.Offset() {
			t.Fatalf("%x: skipped to %d %v, walked to %d %v", in, skipped.Offset(), errSkip, walked.Offset(), errWalk)
		}
		if errSkip != nil {
			return
		}
		if n := testing.AllocsPerRun(1, func() { r := NewReader(in); _ = r.Skip(levels) }); n > 0 {
			t.Fatalf("%x: %v allocations", in, n)
		}
	})
}

func walk(r *Reader, levels int) error {
	t, err := r.Next()
	if err != nil || t.Kind < KindArray {
		return err
	}
	if err := r.Enter(&t, levels); err != nil {
		return err
	}
	for range t.N() {
		if t.Kind == KindMap {
			if _, err := r.Key(); err != nil {
				return err
			}
		}
		if err := walk(r, levels-1); err != nil {
			return err
		}
	}
	return nil
}
