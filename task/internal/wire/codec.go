package wire

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strconv"

	"github.com/taktworks/takt/internal/msgpack"
)

// Form says how structs travel, at any depth.
type Form int

// Forms of structs.
const (
	ByName     Form = iota // the map of their fields
	ByPosition             // the array of their fields, as Python reads and writes them
	EitherForm             // read in the form that the bytes have, written by name
)

// Codec writes and reads values of T as arguments and as results. It is made once for a type and may be used by many goroutines.
//
// What travels: bools, all integers and floats (NaN and infinities, too), text, []byte and [n]byte as bytes, slices, arrays, maps
// with text keys, structs as maps or arrays of their exported fields (Form), pointers (nil or what they point to), time.Time as an instant without
// its zone, whatever implements encoding.TextMarshaler and TextUnmarshaler as its text, and `any` with such values but structs. Nil slices
// and maps stay nil, empty ones stay empty. In an `any` arrive int64, or uint64 above it, float64, string, []byte, []any, map[string]any, bool,
// time.Time and nil. Maps are written in the order of their keys, so equal values have equal bytes.
//
// What is read may differ from T where nothing is lost: any integer form that fits, an integer for a float, nil for what can be nil,
// structs with fewer or more members than fields (the missing stay zero, the surplus is dropped). A map that lacks a field and has a member that is none is refused with
// FormatError.Layout, and so is a struct in the other form.
type Codec[T any] struct {
	name    string
	shape   *shape
	dynamic *dynamic
	typ     reflect.Type
	fields  []field // of T, or of what it points to, if that is a struct
	list    bool    // the fields of T are the arguments
	most    int     // how many arguments there may be
	named   bool    // T, or what it points to, is a struct by name
	nothing bool    // T is struct{}
}

// NewCodec looks T over. The error, a *ValueError, names the first part that cannot travel: "Order.Items[].Done: a chan ...".
func NewCodec[T any](form Form) (*Codec[T], error) {
	t := reflect.TypeFor[T]()
	name := t.Name()
	name = cmp.Or(name, "value")
	nothing := t.Kind() == reflect.Struct && t.NumField() == 0
	if nothing {
		form = ByPosition // without fields the forms are one
	}
	b := newBuilder(form, false)
	s, err := b.shape(t, name)
	if err != nil {
		return nil, err
	}
	of := t
	if t.Kind() == reflect.Pointer {
		of = t.Elem()
	}
	fields, most := b.known[of].fields, 1
	list := s.fields != nil && form == ByPosition
	if list {
		most = len(fields)
	}
	return &Codec[T]{
		name: name, shape: s, dynamic: new(dynamic), typ: of,
		fields:  fields,
		named:   fields != nil && form == ByName,
		list:    list,
		most:    most,
		nothing: s.fields != nil && nothing,
	}, nil
}

// AppendArgs appends v as the array of arguments: of its fields if T is a struct that travels by position, none for struct{}, else of v alone. The error,
// a *ValueError, names what cannot travel: text that is not UTF-8, a value in an `any`, deeper nesting than
// MaxValueDepth; dst is then returned as it was given.
func (c *Codec[T]) AppendArgs(dst []byte, v T) ([]byte, error) {
	if c.list {
		return c.append(dst, v, MaxValueDepth)
	}
	out, err := c.append(append(dst, 0x91), v, MaxValueDepth-1)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// AppendValue appends v as one value, as a result has it; struct{} is nil. Its errors are those of AppendArgs.
func (c *Codec[T]) AppendValue(dst []byte, v T) ([]byte, error) {
	if c.nothing {
		return msgpack.AppendNil(dst), nil
	}
	return c.append(dst, v, MaxValueDepth)
}

// firstBuffer is the room that most values need: a buffer that grows step by step costs more than one too large.
const firstBuffer = 128

func (c *Codec[T]) append(dst []byte, v T, levels int) ([]byte, error) {
	w := writer{out: slices.Grow(dst, firstBuffer), dynamic: c.dynamic}
	if err := c.shape.write(&w, reflect.ValueOf(&v).Elem(), levels); err != nil {
		return dst, msgpack.Within(c.name, err)
	}
	return w.out, nil
}

// DecodeArgs reads what AppendArgs wrote, here or in Python; nil is no arguments. Of missing arguments the values are zero, surplus ones
// are refused. Nothing of raw is kept. The error, a *FormatError, names the field: "Order.Items[2].Price"; the same bytes give it again. Its Layout is set for surplus arguments and
// for those that come by position where T takes them by name, or the other way round.
func (c *Codec[T]) DecodeArgs(raw []byte) (v T, err error) {
	r := newReader(orElse(raw, emptyArray))
	ahead := r
	head, err := ahead.Want(msgpack.KindArray)
	if err != nil {
		return v, msgpack.Within(c.name, err)
	}
	if head.N() > c.most {
		if err := c.unsuited(nil, ahead, head.N()); err != nil {
			return v, err
		}
	}
	levels := MaxValueDepth
	if !c.list {
		if head.N() == 0 {
			return v, ahead.End()
		}
		r, levels = ahead, levels-1
	}
	if v, err = c.read(&r, levels); err != nil {
		err = c.unsuited(err, ahead, head.N())
	}
	return v, err
}

// unsuited is the error of n arguments, the first of which follows in ahead: that of reading them, or, without one, that there are too many; but if they have the form that T
// has not, then that.
func (c *Codec[T]) unsuited(err error, ahead reader, n int) error {
	first, bad := ahead.Next()
	var f *FormatError
	surplus := err == nil
	atFirst := errors.As(err, &f) && f.Offset == first.At
	isMap := first.Kind == msgpack.KindMap
	switch {
	case bad != nil && surplus:
		return msgpack.Within(c.name, bad)
	case bad != nil, n == 1 && c.nothing && isMap: // of a version that has members, which are dropped
		return err
	case c.named && (surplus || atFirst && !isMap):
		err = otherForm(first.At, "has arguments", c.typ, c.fields, ByName)
	case surplus:
		err = &FormatError{Offset: first.At, Layout: true, Reason: "arguments given: " + strconv.Itoa(n) + ", taken by " + c.typ.String() + ": " + strconv.Itoa(c.most) +
			" at most; give fewer, or start a worker that takes them"}
	case c.list && n == 1 && atFirst && isMap:
		err = otherForm(first.At, "has arguments", c.typ, c.fields, ByPosition)
	default:
		return err
	}
	return msgpack.Within(c.name, err)
}

// DecodeValue reads what AppendValue wrote; nil bytes are nil, and for struct{} any value will do. Nothing of raw is kept. Its errors are
// those of DecodeArgs.
func (c *Codec[T]) DecodeValue(raw []byte) (v T, err error) {
	if c.nothing {
		return v, Check(orElse(raw, []byte{msgpack.Nil}), MaxValueDepth)
	}
	r := newReader(orElse(raw, []byte{msgpack.Nil}))
	return c.read(&r, MaxValueDepth)
}

func (c *Codec[T]) read(r *reader, levels int) (T, error) {
	var v, zero T
	if err := c.shape.read(r, reflect.ValueOf(&v).Elem(), levels); err != nil {
		return zero, msgpack.Within(c.name, err)
	}
	if err := r.End(); err != nil {
		return zero, err
	}
	return v, nil
}
