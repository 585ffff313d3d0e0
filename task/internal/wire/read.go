package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// kind is what a msgpack value is, whatever the length of its form.
type kind uint8

const (
	kindNil kind = iota
	kindBool
	kindInt  // fits int64
	kindUint // above int64
	kindFloat
	kindText
	kindBin
	kindExt // a timestamp among them, its form checked
	kindArray
	kindMap
)

var kindNames = [...]string{"nil", "a bool", "an integer", "an integer", "a float", "text", "bytes", "an extension", "an array", "a map"}

func (k kind) String() string { return kindNames[k] }

// token is one scalar, or the head of an array or map whose members follow it.
type token struct {
	kind kind
	code int8   // of an extension
	at   int    // offset of its first byte
	bits uint64 // bool, integer, float64; of an array its elements, of a map its pairs
	body []byte // text, bytes, extension; aliases the input
}

// n is how many elements or pairs follow; there are at least as many bytes as they need.
func (t *token) n() int         { return int(t.bits) }
func (t *token) bool() bool     { return t.bits != 0 }
func (t *token) int() int64     { return int64(t.bits) }
func (t *token) float() float64 { return math.Float64frombits(t.bits) }

// isTime says that t is a timestamp.
func (t *token) isTime() bool { return t.kind == kindExt && t.code == timestamp }

// instant returns the seconds and nanoseconds of a timestamp.
func (t *token) instant() (seconds, nanos int64) {
	switch b := t.body; len(b) {
	case 4:
		return int64(binary.BigEndian.Uint32(b)), 0
	case 8:
		v := binary.BigEndian.Uint64(b)
		return int64(v & (1<<34 - 1)), int64(v >> 34)
	default: // 12
		return int64(binary.BigEndian.Uint64(b[4:])), int64(binary.BigEndian.Uint32(b))
	}
}

func (t *token) time() time.Time { return time.Unix(t.instant()).UTC() }

// reader walks over msgpack. After an error it stands anywhere.
type reader struct {
	in []byte
	at int
}

func (r *reader) fail(at int, format string, args ...any) error {
	return &FormatError{Offset: at, Reason: fmt.Sprintf(format, args...)}
}

// next reads one token.
func (r *reader) next() (t token, err error) {
	t.at = r.at
	if r.at >= len(r.in) {
		return t, r.fail(r.at, "ends where a value should begin")
	}
	c := r.in[r.at]
	r.at++
	switch {
	case c < 0x80:
		t.kind, t.bits = kindInt, uint64(c)
		return t, nil
	case c < 0x90:
		return r.container(t, kindMap, uint64(c&0x0f))
	case c < 0xa0:
		return r.container(t, kindArray, uint64(c&0x0f))
	case c < 0xc0:
		return r.bytes(t, kindText, uint64(c&0x1f))
	case c >= 0xe0:
		t.kind, t.bits = kindInt, uint64(int64(int8(c)))
		return t, nil
	}
	return r.long(t, c)
}

// long reads the rest of a token whose first byte is c, 0xc0 to 0xdf.
func (r *reader) long(t token, c byte) (token, error) {
	width := int(widths[c-0xc0])
	if len(r.in)-r.at < width {
		return t, r.fail(t.at, "ends within the head of a value")
	}
	v := bigEndian(r.in[r.at:], width)
	r.at += width
	switch c {
	case nilByte:
		t.kind = kindNil
	case 0xc1:
		return t, r.fail(t.at, "0xc1 begins no value")
	case falseByte, trueByte:
		t.kind, t.bits = kindBool, uint64(c&1)
	case 0xc4, 0xc5, 0xc6:
		return r.bytes(t, kindBin, v)
	case 0xc7, 0xc8, 0xc9:
		return r.extension(t, v)
	case 0xca:
		t.kind, t.bits = kindFloat, math.Float64bits(float64(math.Float32frombits(uint32(v))))
	case 0xcb:
		t.kind, t.bits = kindFloat, v
	case 0xcc, 0xcd, 0xce, 0xcf:
		t.kind, t.bits = kindInt, v
		if v > math.MaxInt64 {
			t.kind = kindUint
		}
	case 0xd0, 0xd1, 0xd2, 0xd3:
		unused := 64 - 8*width
		t.kind, t.bits = kindInt, uint64(int64(v<<unused)>>unused)
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return r.extension(t, 1<<(c-0xd4))
	case 0xd9, 0xda, 0xdb:
		return r.bytes(t, kindText, v)
	case 0xdc, 0xdd:
		return r.container(t, kindArray, v)
	default: // 0xde, 0xdf
		return r.container(t, kindMap, v)
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

func (r *reader) bytes(t token, k kind, n uint64) (token, error) {
	if n > uint64(len(r.in)-r.at) {
		return t, r.fail(t.at, "%v of %d bytes, but only %d follow", k, n, len(r.in)-r.at)
	}
	t.kind = k
	t.body = r.in[r.at : r.at+int(n) : r.at+int(n)]
	r.at += int(n)
	if k == kindText && !utf8.Valid(t.body) {
		return t, r.fail(t.at, "text is not UTF-8")
	}
	return t, nil
}

func (r *reader) extension(t token, n uint64) (token, error) {
	if r.at == len(r.in) {
		return t, r.fail(t.at, "ends within the head of a value")
	}
	t.code = int8(r.in[r.at])
	r.at++
	t, err := r.bytes(t, kindExt, n)
	if err != nil || t.code != timestamp {
		return t, err
	}
	if n != 4 && n != 8 && n != 12 {
		return t, r.fail(t.at, "a timestamp of %d bytes", n)
	}
	if _, nanos := t.instant(); nanos > 999_999_999 {
		return t, r.fail(t.at, "a timestamp of %d ns within a second", nanos)
	}
	return t, nil
}

func (r *reader) container(t token, k kind, n uint64) (token, error) {
	least := n // bytes of its members
	if k == kindMap {
		least = 2 * n
	}
	if least > uint64(len(r.in)-r.at) {
		return t, r.fail(t.at, "%v of %d members, but only %d bytes follow", k, n, len(r.in)-r.at)
	}
	t.kind, t.bits = k, n
	return t, nil
}

// want reads one token that must be of kind k.
func (r *reader) want(k kind) (token, error) {
	t, err := r.next()
	if err == nil && t.kind != k {
		err = r.mismatch(&t, k.String())
	}
	return t, err
}

func (r *reader) mismatch(t *token, want string) error {
	return r.fail(t.at, "is %v, must be %s", t.kind, want)
}

// members reads the head of an array or map and returns how many elements or pairs follow.
func (r *reader) members(k kind) (int, error) {
	first, least := byte(0x90), 1 // of an array of less than 16, and the bytes of an element
	if k == kindMap {
		first, least = 0x80, 2
	}
	if r.at < len(r.in) && r.in[r.at]&0xf0 == first {
		if n := int(r.in[r.at] & 0x0f); n*least < len(r.in)-r.at {
			r.at++
			return n, nil
		}
	}
	t, err := r.want(k)
	return t.n(), err
}

// shortText reads a text of at most 255 bytes; ok is false, and nothing read, if something else comes.
func (r *reader) shortText() (body []byte, ok bool) {
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

func (r *reader) text() (string, error) {
	if body, ok := r.shortText(); ok {
		return string(body), nil
	}
	t, err := r.want(kindText)
	if err != nil {
		return "", err
	}
	return string(t.body), nil
}

func (r *reader) int() (int64, error) {
	if r.at < len(r.in) && r.in[r.at] < 0x80 {
		r.at++
		return int64(r.in[r.at-1]), nil
	}
	t, err := r.want(kindInt)
	return t.int(), err
}

// key reads a map key. Keys of other kinds are what the Python decoder refuses (T9).
func (r *reader) key() (token, error) {
	t, err := r.next()
	if err == nil && t.kind != kindText && t.kind != kindBin {
		err = r.fail(t.at, "a map key is %v, must be text or bytes", t.kind)
	}
	return t, err
}

// name reads a map key as the name of a member, nil if it is bytes: the Python decoder knows no member by bytes.
func (r *reader) name() ([]byte, error) {
	if body, ok := r.shortText(); ok {
		return body, nil
	}
	t, err := r.key()
	if err != nil || t.kind == kindBin {
		return nil, err
	}
	return t.body, nil
}

// raw reads one whole value and returns its bytes, an alias of the input.
func (r *reader) raw(levels int) ([]byte, error) {
	from := r.at
	if err := r.skip(levels); err != nil {
		return nil, err
	}
	return r.in[from:r.at:r.at], nil
}

// skip reads over one whole value of at most so many levels of containers and checks it.
func (r *reader) skip(levels int) error {
	if r.skipShort() {
		return nil
	}
	t, err := r.next()
	if err != nil || t.kind < kindArray {
		return err
	}
	return r.skipMembers(t.kind, t.n(), t.at, levels)
}

// skipShort reads over a small integer or a short text, which most values are, and says whether there was one.
func (r *reader) skipShort() bool {
	if r.at < len(r.in) && (r.in[r.at] < 0x80 || r.in[r.at] >= 0xe0) {
		r.at++
		return true
	}
	_, ok := r.shortText()
	return ok
}

// skipMembers reads over the n members of the container that begins at from.
func (r *reader) skipMembers(k kind, n, from, levels int) error {
	if levels < 1 {
		return r.tooDeep(from)
	}
	for range n {
		if k == kindMap {
			if _, err := r.name(); err != nil {
				return err
			}
		}
		if err := r.skip(levels - 1); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) tooDeep(from int) error { return r.fail(from, "is nested too deep") }

// enter says whether the members of t may be read with so many levels left, its own included.
func (r *reader) enter(t *token, levels int) error {
	if levels < 1 {
		return r.tooDeep(t.at)
	}
	return nil
}

// end says whether everything was read.
func (r *reader) end() error {
	if r.at < len(r.in) {
		return r.fail(r.at, "%d bytes follow the value", len(r.in)-r.at)
	}
	return nil
}
