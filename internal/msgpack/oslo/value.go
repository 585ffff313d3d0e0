package oslo

import "github.com/taktworks/takt/internal/msgpack"

// MaxDepth is how many arrays and maps may be one within the other ([] is 1 deep). Python writes 511 and reads 1024.
const MaxDepth = 500

// Map keeps the order of its members, and all of them: of two with one key the last counts, as in Python.
type Map []Pair

// Pair is one member of a Map. Key is a string or a []byte.
type Pair struct{ Key, Value any }

// Ext is an extension as it was read. What a datetime means says Time.
type Ext struct {
	Code int8
	Data []byte
}

// Decode reads one value, which is all of raw. Its lengths are checked before anything is allocated, and then a value takes less than
// 64 times the bytes of raw. The error, a *msgpack.FormatError, says what Python refuses, too: text that is not UTF-8, map keys other than
// text and bytes, a timestamp (-1) that is none; or that it is nested deeper than MaxDepth.
func Decode(raw []byte) (any, error) {
	if err := check(raw); err != nil {
		return nil, err
	}
	r := msgpack.NewReader(raw)
	return read(&r)
}

func check(raw []byte) error {
	r := msgpack.NewReader(raw)
	if err := r.Skip(MaxDepth); err != nil {
		return err
	}
	return r.End()
}

// read reads a value that was checked.
func read(r *msgpack.Reader) (any, error) {
	t, err := r.Next()
	if err != nil {
		return nil, err
	}
	switch t.Kind {
	case msgpack.KindBool:
		return t.Bool(), nil
	case msgpack.KindInt:
		return t.Int(), nil
	case msgpack.KindUint:
		return t.Uint(), nil
	case msgpack.KindFloat:
		return t.Float(), nil
	case msgpack.KindString:
		return string(t.Body), nil
	case msgpack.KindBytes:
		return copied(t.Body), nil
	case msgpack.KindExt:
		return Ext{t.Code, copied(t.Body)}, nil
	case msgpack.KindArray:
		return readArray(r, t.N())
	case msgpack.KindMap:
		return readMap(r, t.N())
	}
	return nil, nil
}

func copied(b []byte) []byte { return append([]byte{}, b...) }

func readArray(r *msgpack.Reader, n int) (_ any, err error) {
	list := make([]any, n)
	for i := range list {
		if list[i], err = read(r); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func readMap(r *msgpack.Reader, n int) (_ any, err error) {
	m := make(Map, n)
	for i := range m {
		if m[i].Key, err = read(r); err != nil {
			return nil, err
		}
		if m[i].Value, err = read(r); err != nil {
			return nil, err
		}
	}
	return m, nil
}
