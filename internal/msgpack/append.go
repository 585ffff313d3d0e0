package msgpack

import (
	"encoding/binary"
	"math"
	"time"
	"unicode/utf8"
)

// Nil is the byte that nil is.
const Nil = 0xc0

const (
	falseByte = 0xc2
	trueByte  = 0xc3

	timestamp = -1 // extension type
)

// AppendNil appends nil.
func AppendNil(dst []byte) []byte { return append(dst, Nil) }

// AppendBool appends b.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, trueByte)
	}
	return append(dst, falseByte)
}

// AppendInt appends n in 1 to 9 bytes.
func AppendInt(dst []byte, n int64) []byte {
	switch {
	case n >= 0:
		return AppendUint(dst, uint64(n))
	case n >= -32:
		return append(dst, byte(n))
	case n >= math.MinInt8:
		return append(dst, 0xd0, byte(n))
	case n >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, 0xd1), uint16(n))
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, 0xd2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(n))
}

// AppendUint appends n in 1 to 9 bytes.
func AppendUint(dst []byte, n uint64) []byte {
	switch {
	case n < 1<<7:
		return append(dst, byte(n))
	case n < 1<<8:
		return append(dst, 0xcc, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, 0xcd), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(dst, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xcf), n)
}

// AppendFloat32 appends f in 5 bytes, whatever its value.
func AppendFloat32(dst []byte, f float32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, 0xca), math.Float32bits(f))
}

// AppendFloat64 appends f in 9 bytes, whatever its value.
func AppendFloat64(dst []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, 0xcb), math.Float64bits(f))
}

// AppendString appends s as it is; it must be UTF-8.
func AppendString(dst []byte, s string) []byte {
	switch n := len(s); {
	case n < 1<<5:
		dst = append(dst, 0xa0|byte(n))
	case n < 1<<8:
		dst = append(dst, 0xd9, byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0xda), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, 0xdb), uint32(n))
	}
	return append(dst, s...)
}

// AppendChecked appends s, or says that it is not UTF-8: the Python decoder refuses the whole message then.
func AppendChecked(dst []byte, path, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return dst, Unfit(path, "text is not UTF-8: %.40q; give bytes instead", s)
	}
	return AppendString(dst, s), nil
}

// AppendBytes appends b as bytes, which are not text.
func AppendBytes(dst, b []byte) []byte {
	switch n := len(b); {
	case n < 1<<8:
		dst = append(dst, 0xc4, byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0xc5), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, 0xc6), uint32(n))
	}
	return append(dst, b...)
}

// AppendArrayLen appends the head of an array; its n elements are to follow.
func AppendArrayLen(dst []byte, n int) []byte {
	switch {
	case n < 1<<4:
		return append(dst, 0x90|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, 0xdc), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, 0xdd), uint32(n))
}

// AppendMapLen appends the head of a map; its pairs are to follow, each a key and a value.
func AppendMapLen(dst []byte, pairs int) []byte {
	switch {
	case pairs < 1<<4:
		return append(dst, 0x80|byte(pairs))
	case pairs < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, 0xde), uint16(pairs))
	}
	return binary.BigEndian.AppendUint32(append(dst, 0xdf), uint32(pairs))
}

// AppendExt appends an extension. Bodies of 1, 2, 4, 8 and 16 bytes have heads of their own, without a length.
func AppendExt(dst []byte, code int8, body []byte) []byte {
	switch n := len(body); {
	case n == 1:
		dst = append(dst, 0xd4)
	case n == 2:
		dst = append(dst, 0xd5)
	case n == 4:
		dst = append(dst, 0xd6)
	case n == 8:
		dst = append(dst, 0xd7)
	case n == 16:
		dst = append(dst, 0xd8)
	case n < 1<<8:
		dst = append(dst, 0xc7, byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0xc8), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, 0xc9), uint32(n))
	}
	return append(append(dst, byte(code)), body...)
}

// AppendTimestamp appends the instant of t as a timestamp of 32, 64 or 96 bits, the shortest that holds it. The zone is not kept.
func AppendTimestamp(dst []byte, t time.Time) []byte {
	seconds, nanos := t.Unix(), uint64(t.Nanosecond())
	ext := timestamp
	switch {
	case seconds>>34 != 0: // negative ones, too
		dst = append(dst, 0xc7, 12, byte(ext))
		dst = binary.BigEndian.AppendUint32(dst, uint32(nanos))
		return binary.BigEndian.AppendUint64(dst, uint64(seconds))
	case nanos == 0 && seconds>>32 == 0:
		return binary.BigEndian.AppendUint32(append(dst, 0xd6, byte(ext)), uint32(seconds))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xd7, byte(ext)), nanos<<34|uint64(seconds))
}
