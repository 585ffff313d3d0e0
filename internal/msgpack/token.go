package msgpack

import (
	"encoding/binary"
	"math"
	"time"
)

// Kind is what a msgpack value is, whatever the length of its form.
type Kind uint8

const (
	KindNil Kind = iota
	KindBool
	KindInt   // fits int64
	KindUint  // above int64
	KindFloat // of 32 or 64 bits
	KindString
	KindBytes
	KindExt // a timestamp among them, its form checked
	KindArray
	KindMap
)

var kindNames = [...]string{"nil", "a bool", "an integer", "an integer above 63 bits", "a float", "text", "bytes", "an extension", "an array", "a map"}

func (k Kind) String() string { return kindNames[k] }

// Token is one scalar, or the head of an array or map whose members follow it. Which of its methods say something depends on Kind.
type Token struct {
	Kind Kind
	Code int8   // of an extension
	At   int    // offset of its first byte
	bits uint64 // bool, integer, float64; of an array its elements, of a map its pairs
	Body []byte // text, bytes, extension; aliases the input
}

// N is how many elements or pairs follow; there are at least as many bytes as they need.
func (t *Token) N() int { return int(t.bits) }

// Bool is the value of a bool.
func (t *Token) Bool() bool { return t.bits != 0 }

// Int is the value of a KindInt.
func (t *Token) Int() int64 { return int64(t.bits) }

// Uint is the value of a KindUint, or of a KindInt that is not negative.
func (t *Token) Uint() uint64 { return t.bits }

// Float is the value of a float.
func (t *Token) Float() float64 { return math.Float64frombits(t.bits) }

// IsTime says that t is a timestamp.
func (t *Token) IsTime() bool { return t.Kind == KindExt && t.Code == timestamp }

// Time is the instant of a timestamp, in UTC.
func (t *Token) Time() time.Time { return time.Unix(t.instant()).UTC() }

// instant returns the seconds and nanoseconds of a timestamp.
func (t *Token) instant() (seconds, nanos int64) {
	switch b := t.Body; len(b) {
	case 4:
		return int64(binary.BigEndian.Uint32(b)), 0
	case 8:
		v := binary.BigEndian.Uint64(b)
		return int64(v & (1<<34 - 1)), int64(v >> 34)
	default: // 12
		return int64(binary.BigEndian.Uint64(b[4:])), int64(binary.BigEndian.Uint32(b))
	}
}
