package msgpack

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// Reader walks over msgpack. After an error, which is a *FormatError, it stands anywhere. A copy of a Reader reads on from the same place
// by itself, which is how to look ahead.
type Reader struct {
	in []byte
	at int
}

// NewReader returns a reader of in, which it neither copies nor changes.
func NewReader(in []byte) Reader { return Reader{in: in} }

// Offset is where the next value begins.
func (r *Reader) Offset() int { return r.at }

// Since returns what was read from an offset on, an alias of the input.
func (r *Reader) Since(from int) []byte { return r.in[from:r.at:r.at] }

// Fail returns a *FormatError about the value that begins at an offset.
func (r *Reader) Fail(at int, format string, args ...any) error {
	return &FormatError{Offset: at, Reason: fmt.Sprintf(format, args...)}
}

// Next reads one token.
func (r *Reader) Next() (t Token, err error) {
	t.At = r.at
	if r.at >= len(r.in) {
		return t, r.Fail(r.at, "ends where a value should begin")
	}
	c := r.in[r.at]
	r.at++
	switch {
	case c < 0x80:
		t.Kind, t.bits = KindInt, uint64(c)
		return t, nil
	case c < 0x90:
		return r.container(t, KindMap, uint64(c&0x0f))
	case c < 0xa0:
		return r.container(t, KindArray, uint64(c&0x0f))
	case c < 0xc0:
		return r.bytes(t, KindString, uint64(c&0x1f))
	case c >= 0xe0:
		t.Kind, t.bits = KindInt, uint64(int64(int8(c)))
		return t, nil
	}
	return r.long(t, c)
}

// long reads the rest of a token whose first byte is c, 0xc0 to 0xdf.
func (r *Reader) long(t Token, c byte) (Token, error) {
	width := int(widths[c-0xc0])
	if len(r.in)-r.at < width {
		return t, r.Fail(t.At, "ends within the head of a value")
	}
	v := bigEndian(r.in[r.at:], width)
	r.at += width
	switch c {
	case Nil:
		t.Kind = KindNil
	case 0xc1:
		return t, r.Fail(t.At, "0xc1 begins no value")
	case falseByte, trueByte:
		t.Kind, t.bits = KindBool, uint64(c&1)
	case 0xc4, 0xc5, 0xc6:
		return r.bytes(t, KindBytes, v)
	case 0xc7, 0xc8, 0xc9:
		return r.extension(t, v)
	case 0xca:
		t.Kind, t.bits = KindFloat, math.Float64bits(float64(math.Float32frombits(uint32(v))))
	case 0xcb:
		t.Kind, t.bits = KindFloat, v
	case 0xcc, 0xcd, 0xce, 0xcf:
		t.Kind, t.bits = KindInt, v
		if v > math.MaxInt64 {
			t.Kind = KindUint
		}
	case 0xd0, 0xd1, 0xd2, 0xd3:
		unused := 64 - 8*width
		t.Kind, t.bits = KindInt, uint64(int64(v<<unused)>>unused)
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return r.extension(t, 1<<(c-0xd4))
	case 0xd9, 0xda, 0xdb:
		return r.bytes(t, KindString, v)
	case 0xdc, 0xdd:
		return r.container(t, KindArray, v)
	default: // 0xde, 0xdf
		return r.container(t, KindMap, v)
	}
	return t, nil
}

// widths is how many bytes of value or length follow the first byte, from 0xc0.
var widths = [32]uint8{
	0, 0, 0, 0, 1, 2, 4, 1, 2, 4, 4, 8, 1, 2, 4, 8, // nil, none, bools, bytes, extensions, floats, unsigned
	1, 2, 4, 8, 0, 0, 0, 0, 0, 1, 2, 4, 2, 4, 2, 4, // signed, short extensions, text, arrays, maps
}

func bigEndian(b []byte, width int) uint64 {
	switch width {
	case 0:
		return 0
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(b))
	case 4:
		return uint64(binary.BigEndian.Uint32(b))
	}
	return binary.BigEndian.Uint64(b)
}

func (r *Reader) bytes(t Token, k Kind, n uint64) (Token, error) {
	if n > uint64(len(r.in)-r.at) {
		return t, r.Fail(t.At, "%v of %d bytes, but only %d follow", k, n, len(r.in)-r.at)
	}
	t.Kind = k
	t.Body = r.in[r.at : r.at+int(n) : r.at+int(n)]
	r.at += int(n)
	if k == KindString && !utf8.Valid(t.Body) {
		return t, r.Fail(t.At, "text is not UTF-8")
	}
	return t, nil
}

func (r *Reader) extension(t Token, n uint64) (Token, error) {
	if r.at == len(r.in) {
		return t, r.Fail(t.At, "ends within the head of a value")
	}
	t.Code = int8(r.in[r.at])
	r.at++
	t, err := r.bytes(t, KindExt, n)
	if err != nil || t.Code != timestamp {
		return t, err
	}
	if n != 4 && n != 8 && n != 12 {
		return t, r.Fail(t.At, "a timestamp of %d bytes", n)
	}
	if _, nanos := t.instant(); nanos > 999_999_999 {
		return t, r.Fail(t.At, "a timestamp of %d ns within a second", nanos)
	}
	return t, nil
}

func (r *Reader) container(t Token, k Kind, n uint64) (Token, error) {
	least := n // bytes of its members
	if k == KindMap {
		least = 2 * n
	}
	if least > uint64(len(r.in)-r.at) {
		return t, r.Fail(t.At, "%v of %d members, but only %d bytes follow", k, n, len(r.in)-r.at)
	}
	t.Kind, t.bits = k, n
	return t, nil
}

// Want reads one token that must be of kind k.
func (r *Reader) Want(k Kind) (Token, error) {
	t, err := r.Next()
	if err == nil && t.Kind != k {
		err = r.Mismatch(&t, k.String())
	}
	return t, err
}

// Mismatch says that t is not what was wanted, "an integer".
func (r *Reader) Mismatch(t *Token, want string) error {
	return r.Fail(t.At, "is %v, must be %s", t.Kind, want)
}

// Members reads the head of an array or map and returns how many elements or pairs follow.
func (r *Reader) Members(k Kind) (int, error) {
	first, least := byte(0x90), 1 // of an array of less than 16, and the bytes of an element
	if k == KindMap {
		first, least = 0x80, 2
	}
	if r.at < len(r.in) && r.in[r.at]&0xf0 == first {
		if n := int(r.in[r.at] & 0x0f); n*least < len(r.in)-r.at {
			r.at++
			return n, nil
		}
	}
	t, err := r.Want(k)
	return t.N(), err
}

// Fields reads a map: read is called for each key, which began at from, and reads its value. An error of read gets the key in front of its path.
func (r *Reader) Fields(read func(name []byte, from int) error) error {
	n, err := r.Members(KindMap)
	if err != nil {
		return err
	}
	for range n {
		from := r.at
		name, err := r.Name()
		if err != nil {
			return err
		}
		if err := read(name, from); err != nil {
			return Within(string(name), err)
		}
	}
	return nil
}

// ShortText reads a text of at most 255 bytes; ok is false, and nothing read, if something else comes.
func (r *Reader) ShortText() (body []byte, ok bool) {
	if r.at >= len(r.in) {
		return nil, false
	}
	c, from := r.in[r.at], r.at+1
	n := int(c & 0x1f)
	if c == 0xd9 && from < len(r.in) {
		n = int(r.in[from])
		from++
	} else if c&0xe0 != 0xa0 {
		return nil, false
	}
	if n > len(r.in)-from {
		return nil, false
	}
	body = r.in[from : from+n : from+n]
	if !utf8.Valid(body) {
		return nil, false
	}
	r.at = from + n
	return body, true
}

// Text reads a text.
func (r *Reader) Text() (string, error) {
	if body, ok := r.ShortText(); ok {
		return string(body), nil
	}
	t, err := r.Want(KindString)
	if err != nil {
		return "", err
	}
	return string(t.Body), nil
}

// Int reads an integer that fits an int64.
func (r *Reader) Int() (int64, error) {
	if r.at < len(r.in) && r.in[r.at] < 0x80 {
		r.at++
		return int64(r.in[r.at-1]), nil
	}
	t, err := r.Want(KindInt)
	return t.Int(), err
}

// Key reads a map key. Keys of other kinds are what the Python decoder refuses.
func (r *Reader) Key() (Token, error) {
	t, err := r.Next()
	if err == nil && t.Kind != KindString && t.Kind != KindBytes {
		err = r.Fail(t.At, "a map key is %v, must be text or bytes", t.Kind)
	}
	return t, err
}

// Name reads a map key as the name of a member, nil if it is bytes: the Python decoder knows no member by bytes.
func (r *Reader) Name() ([]byte, error) {
	if body, ok := r.ShortText(); ok {
		return body, nil
	}
	t, err := r.Key()
	if err != nil || t.Kind == KindBytes {
		return nil, err
	}
	return t.Body, nil
}

// SkipNil reads a nil if one comes, and says whether there was one.
func (r *Reader) SkipNil() bool {
	if r.at < len(r.in) && r.in[r.at] == Nil {
		r.at++
		return true
	}
	return false
}

// Raw reads one whole value and returns its bytes, an alias of the input.
func (r *Reader) Raw(levels int) ([]byte, error) {
	from := r.at
	if err := r.Skip(levels); err != nil {
		return nil, err
	}
	return r.Since(from), nil
}

// Skip reads over one whole value of at most so many levels of containers and checks it.
func (r *Reader) Skip(levels int) error {
	if r.skipShort() {
		return nil
	}
	t, err := r.Next()
	if err != nil || t.Kind < KindArray {
		return err
	}
	return r.SkipMembers(t.Kind, t.N(), t.At, levels)
}

// skipShort reads over a small integer or a short text, which most values are, and says whether there was one.
func (r *Reader) skipShort() bool {
	if r.at < len(r.in) && (r.in[r.at] < 0x80 || r.in[r.at] >= 0xe0) {
		r.at++
		return true
	}
	_, ok := r.ShortText()
	return ok
}

// SkipMembers reads over the n members of the container that begins at from.
func (r *Reader) SkipMembers(k Kind, n, from, levels int) error {
	if levels < 1 {
		return r.tooDeep(from)
	}
	for range n {
		if k == KindMap {
			if _, err := r.Name(); err != nil {
				return err
			}
		}
		if err := r.Skip(levels - 1); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) tooDeep(from int) error { return r.Fail(from, "is nested too deep") }

// Enter says whether the members of t may be read with so many levels left, its own included.
func (r *Reader) Enter(t *Token, levels int) error {
	if levels < 1 {
		return r.tooDeep(t.At)
	}
	return nil
}

// End says whether everything was read.
func (r *Reader) End() error {
	if r.at < len(r.in) {
		return r.Fail(r.at, "%d bytes follow the value", len(r.in)-r.at)
	}
	return nil
}
