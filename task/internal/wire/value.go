package wire

import (
	"encoding"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Here is the writing and the reading of each kind of value. Scalars first, then what holds others.

func (r *reader) skipNil() bool {
	if r.at < len(r.in) && r.in[r.at] == nilByte {
		r.at++
		return true
	}
	return false
}

func writeBool(w *writer, v reflect.Value, _ int) error {
	w.out = appendBool(w.out, v.Bool())
	return nil
}

func readBool(r *reader, v reflect.Value, _ int) error {
	t, err := r.want(kindBool)
	v.SetBool(t.bool())
	return err
}

func writeInt(w *writer, v reflect.Value, _ int) error {
	w.out = appendInt(w.out, v.Int())
	return nil
}

func readInt(r *reader, v reflect.Value, _ int) error {
	t, err := r.next()
	switch {
	case err != nil:
		return err
	case t.kind == kindUint || t.kind == kindInt && v.OverflowInt(t.int()):
		return r.fail(t.at, "does not fit %v", v.Type())
	case t.kind != kindInt:
		return r.mismatch(&t, "an integer")
	}
	v.SetInt(t.int())
	return nil
}

func writeUint(w *writer, v reflect.Value, _ int) error {
	w.out = appendUint(w.out, v.Uint())
	return nil
}

func readUint(r *reader, v reflect.Value, _ int) error {
	t, err := r.next()
	switch {
	case err != nil:
		return err
	case t.kind != kindInt && t.kind != kindUint:
		return r.mismatch(&t, "an integer")
	case t.kind == kindInt && t.int() < 0 || v.OverflowUint(t.bits):
		return r.fail(t.at, "does not fit %v", v.Type())
	}
	v.SetUint(t.bits)
	return nil
}

func writeFloat(w *writer, v reflect.Value, _ int) error {
	w.out = appendFloat(w.out, v.Float())
	return nil
}

func writeFloat32(w *writer, v reflect.Value, _ int) error {
	w.out = appendFloat32(w.out, float32(v.Float()))
	return nil
}

// readFloat takes integers, too, for in Python and JSON 1 is as good as 1.0; but only those that a float64 holds. A float32 rounds, as it
// does in Go.
func readFloat(r *reader, v reflect.Value, _ int) error {
	t, err := r.next()
	if err != nil {
		return err
	}
	const exact = 1 << 53
	f := t.float()
	switch {
	case t.kind == kindUint || t.kind == kindInt && (t.int() > exact || t.int() < -exact):
		return r.fail(t.at, "does not fit %v", v.Type())
	case t.kind == kindInt:
		f = float64(t.int())
	case t.kind != kindFloat:
		return r.mismatch(&t, "a float")
	}
	if v.OverflowFloat(f) {
		return r.fail(t.at, "does not fit %v", v.Type())
	}
	v.SetFloat(f)
	return nil
}

func (w *writer) text(s string) (err error) {
	w.out, err = appendChecked(w.out, "", s)
	return err
}

func writeString(w *writer, v reflect.Value, _ int) error { return w.text(v.String()) }

func readString(r *reader, v reflect.Value, _ int) error {
	s, err := r.text()
	v.SetString(s)
	return err
}

func writeTime(w *writer, v reflect.Value, _ int) error {
	w.out = appendTime(w.out, timeOf(v))
	return nil
}

func readTime(r *reader, v reflect.Value, _ int) error {
	t, err := r.next()
	switch {
	case err != nil:
		return err
	case !t.isTime():
		return r.mismatch(&t, "a timestamp")
	}
	v.Set(reflect.ValueOf(t.time()))
	return nil
}

// textShape is for types that say themselves how they read as text.
func textShape(t reflect.Type) (func(*writer, reflect.Value, int) error, func(*reader, reflect.Value, int) error) {
	write := func(w *writer, v reflect.Value, _ int) error {
		b, err := marshalerOf(v).MarshalText()
		if err != nil {
			return unfit("", "%v has no text: %v", t, err)
		}
		return w.text(string(b))
	}
	read := func(r *reader, v reflect.Value, _ int) error {
		token, err := r.want(kindText)
		if err != nil {
			return err
		}
		if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(slices.Clone(token.body)); err != nil {
			return r.fail(token.at, "is no %v: %v", t, err)
		}
		return nil
	}
	return write, read
}

// marshalerOf returns v, or its address where the method needs one.
func marshalerOf(v reflect.Value) encoding.TextMarshaler {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		return m
	}
	return addressable(v).Addr().Interface().(encoding.TextMarshaler)
}

// addressable returns v, or a copy of it: what is in a map or interface has no address.
func addressable(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v
	}
	p := reflect.New(v.Type()).Elem()
	p.Set(v)
	return p
}

func writeBytes(w *writer, v reflect.Value, _ int) error {
	if v.IsNil() {
		w.out = append(w.out, nilByte)
	} else {
		w.out = appendBin(w.out, v.Bytes())
	}
	return nil
}

func readBytes(r *reader, v reflect.Value, _ int) error {
	if r.skipNil() {
		return nil
	}
	t, err := r.want(kindBin)
	if err == nil {
		v.SetBytes(append([]byte{}, t.body...))
	}
	return err
}

func writeByteArray(w *writer, v reflect.Value, _ int) error {
	w.out = appendBin(w.out, addressable(v).Bytes())
	return nil
}

func readByteArray(r *reader, v reflect.Value, _ int) error {
	t, err := r.want(kindBin)
	switch {
	case err != nil:
		return err
	case len(t.body) != v.Len():
		return r.fail(t.at, "is %d bytes, must be %d", len(t.body), v.Len())
	}
	copy(v.Bytes(), t.body)
	return nil
}

// open begins a container with so many levels left, its own included.
func (w *writer) open(levels int) error {
	if levels < 1 {
		return unfit("", "is nested deeper than %d", MaxValueDepth)
	}
	return nil
}

// open reads the head of a container.
func (r *reader) open(k kind, levels int) (token, error) {
	t, err := r.want(k)
	if err == nil {
		err = r.enter(&t, levels)
	}
	return t, err
}

func writeElements(w *writer, v reflect.Value, element *shape, levels int) error {
	if err := w.open(levels); err != nil {
		return err
	}
	w.out = appendArrayLen(w.out, v.Len())
	for i := range v.Len() {
		if err := element.write(w, v.Index(i), levels-1); err != nil {
			return within(index(i), err)
		}
	}
	return nil
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

func sliceShape(t reflect.Type, element *shape) (func(*writer, reflect.Value, int) error, func(*reader, reflect.Value, int) error) {
	write := func(w *writer, v reflect.Value, levels int) error {
		if v.IsNil() {
			w.out = append(w.out, nilByte)
			return nil
		}
		return writeElements(w, v, element, levels)
	}
	read := func(r *reader, v reflect.Value, levels int) error {
		if r.skipNil() {
			return nil
		}
		head, err := r.open(kindArray, levels)
		if err != nil {
			return err
		}
		// The claimed length is believed for 1 KiB; what is more must be there first.
		believed := max(1, 1024/max(1, int(t.Elem().Size())))
		v.Set(reflect.MakeSlice(t, 0, min(head.n(), believed)))
		for i := range head.n() {
			v.Grow(1)
			v.SetLen(i + 1)
			if err := element.read(r, v.Index(i), levels-1); err != nil {
				return within(index(i), err)
			}
		}
		return nil
	}
	return write, read
}

func arrayShape(element *shape) (func(*writer, reflect.Value, int) error, func(*reader, reflect.Value, int) error) {
	write := func(w *writer, v reflect.Value, levels int) error {
		return writeElements(w, v, element, levels)
	}
	read := func(r *reader, v reflect.Value, levels int) error {
		head, err := r.open(kindArray, levels)
		switch {
		case err != nil:
			return err
		case head.n() != v.Len():
			return r.fail(head.at, "is %d elements, must be %d", head.n(), v.Len())
		}
		for i := range head.n() {
			if err := element.read(r, v.Index(i), levels-1); err != nil {
				return within(index(i), err)
			}
		}
		return nil
	}
	return write, read
}

func mapShape(t reflect.Type, value *shape) (func(*writer, reflect.Value, int) error, func(*reader, reflect.Value, int) error) {
	write := func(w *writer, v reflect.Value, levels int) error {
		if v.IsNil() {
			w.out = append(w.out, nilByte)
			return nil
		}
		return writeMap(w, v, value, levels)
	}
	read := func(r *reader, v reflect.Value, levels int) error {
		if r.skipNil() {
			return nil
		}
		head, err := r.open(kindMap, levels)
		if err != nil {
			return err
		}
		v.Set(reflect.MakeMap(t))
		for range head.n() {
			if err := readPair(r, v, value, levels); err != nil {
				return err
			}
		}
		return nil
	}
	return write, read
}

func writeMap(w *writer, v reflect.Value, value *shape, levels int) error {
	if err := w.open(levels); err != nil {
		return err
	}
	w.out = appendMapLen(w.out, v.Len())
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		if err := w.text(key.String()); err != nil {
			return err
		}
		if err := value.write(w, v.MapIndex(key), levels-1); err != nil {
			return within(quoted(key.String()), err)
		}
	}
	return nil
}

func readPair(r *reader, m reflect.Value, value *shape, levels int) error {
	key, err := r.textKey()
	if err != nil {
		return err
	}
	v := reflect.New(m.Type().Elem()).Elem()
	if err := value.read(r, v, levels-1); err != nil {
		return within(quoted(key), err)
	}
	m.SetMapIndex(reflect.ValueOf(key).Convert(m.Type().Key()), v)
	return nil
}

// textKey reads a map key for a Go map; bytes that are text will do.
func (r *reader) textKey() (string, error) {
	t, err := r.key()
	if err == nil && t.kind == kindBin && !utf8.Valid(t.body) {
		err = r.fail(t.at, "a map key is bytes that are not UTF-8")
	}
	return string(t.body), err
}

func quoted(key string) string { return "[" + strconv.Quote(key) + "]" }

func (s *shape) writeStruct(w *writer, v reflect.Value, levels int) error {
	if err := w.open(levels); err != nil {
		return err
	}
	w.out = appendArrayLen(w.out, len(s.fields))
	for i := range s.fields {
		f := &s.fields[i]
		if err := f.shape.write(w, v.Field(f.index), levels-1); err != nil {
			return within(f.name, err)
		}
	}
	return nil
}

// readStruct leaves the fields of missing elements zero, which an older writer did not know, and drops surplus ones of a newer.
func (s *shape) readStruct(r *reader, v reflect.Value, levels int) error {
	head, err := r.open(kindArray, levels)
	if err != nil {
		return err
	}
	for i := range head.n() {
		if i >= len(s.fields) {
			if err := r.skip(levels - 1); err != nil {
				return err
			}
			continue
		}
		f := &s.fields[i]
		if err := f.shape.read(r, v.Field(f.index), levels-1); err != nil {
			return within(f.name, err)
		}
	}
	return nil
}
