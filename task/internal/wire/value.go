package wire

import (
	"encoding"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/taktworks/takt/internal/msgpack"
)

// Here is the writing and the reading of each kind of value. Scalars first, then what holds others.

func writeBool(w *writer, v reflect.Value, _ int) error {
	w.out = msgpack.AppendBool(w.out, v.Bool())
	return nil
}

func readBool(r *reader, v reflect.Value, _ int) error {
	t, err := r.Want(msgpack.KindBool)
	v.SetBool(t.Bool())
	return err
}

func writeInt(w *writer, v reflect.Value, _ int) error {
	w.out = msgpack.AppendInt(w.out, v.Int())
	return nil
}

func readInt(r *reader, v reflect.Value, _ int) error {
	t, err := r.Next()
	switch {
	case err != nil:
		return err
	case t.Kind == msgpack.KindUint || t.Kind == msgpack.KindInt && v.OverflowInt(t.Int()):
		return r.Fail(t.At, "does not fit %v", v.Type())
	case t.Kind != msgpack.KindInt:
		return r.Mismatch(&t, "an integer")
	}
	v.SetInt(t.Int())
	return nil
}

func writeUint(w *writer, v reflect.Value, _ int) error {
	w.out = msgpack.AppendUint(w.out, v.Uint())
	return nil
}

func readUint(r *reader, v reflect.Value, _ int) error {
	t, err := r.Next()
	switch {
	case err != nil:
		return err
	case t.Kind != msgpack.KindInt && t.Kind != msgpack.KindUint:
		return r.Mismatch(&t, "an integer")
	case t.Kind == msgpack.KindInt && t.Int() < 0 || v.OverflowUint(t.Uint()):
		return r.Fail(t.At, "does not fit %v", v.Type())
	}
	v.SetUint(t.Uint())
	return nil
}

func writeFloat(w *writer, v reflect.Value, _ int) error {
	w.out = msgpack.AppendFloat64(w.out, v.Float())
	return nil
}

func writeFloat32(w *writer, v reflect.Value, _ int) error {
	w.out = msgpack.AppendFloat32(w.out, float32(v.Float()))
	return nil
}

// readFloat takes integers, too, for in Python and JSON 1 is as good as 1.0; but only those that a float64 holds. A float32 rounds, as it
// does in Go.
func readFloat(r *reader, v reflect.Value, _ int) error {
	t, err := r.Next()
	if err != nil {
		return err
	}
	const exact = 1 << 53
	f := t.Float()
	switch {
	case t.Kind == msgpack.KindUint || t.Kind == msgpack.KindInt && (t.Int() > exact || t.Int() < -exact):
		return r.Fail(t.At, "does not fit %v", v.Type())
	case t.Kind == msgpack.KindInt:
		f = float64(t.Int())
	case t.Kind != msgpack.KindFloat:
		return r.Mismatch(&t, "a float")
	}
	if v.OverflowFloat(f) {
		return r.Fail(t.At, "does not fit %v", v.Type())
	}
	v.SetFloat(f)
	return nil
}

func (w *writer) text(s string) (err error) {
	w.out, err = msgpack.AppendChecked(w.out, "", s)
	return err
}

func writeString(w *writer, v reflect.Value, _ int) error { return w.text(v.String()) }

func readString(r *reader, v reflect.Value, _ int) error {
	s, err := r.Text()
	v.SetString(s)
	return err
}

func writeTime(w *writer, v reflect.Value, _ int) error {
	w.out = msgpack.AppendTimestamp(w.out, timeOf(v))
	return nil
}

func readTime(r *reader, v reflect.Value, _ int) error {
	t, err := r.Next()
	switch {
	case err != nil:
		return err
	case !t.IsTime():
		return r.Mismatch(&t, "a timestamp")
	}
	v.Set(reflect.ValueOf(t.Time()))
	return nil
}

// textShape is for types that say themselves how they read as text.
func textShape(t reflect.Type) (func(*writer, reflect.Value, int) error, func(*reader, reflect.Value, int) error) {
	write := func(w *writer, v reflect.Value, _ int) error {
		b, err := marshalerOf(v).MarshalText()
		if err != nil {
			return msgpack.Unfit("", "%v has no text: %v", t, err)
		}
		return w.text(string(b))
	}
	read := func(r *reader, v reflect.Value, _ int) error {
		token, err := r.Want(msgpack.KindString)
		if err != nil {
			return err
		}
		if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(slices.Clone(token.Body)); err != nil {
			return r.Fail(token.At, "is no %v: %v", t, err)
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
		w.out = msgpack.AppendNil(w.out)
	} else {
		w.out = msgpack.AppendBytes(w.out, v.Bytes())
	}
	return nil
}

func readBytes(r *reader, v reflect.Value, _ int) error {
	if r.SkipNil() {
		return nil
	}
	t, err := r.Want(msgpack.KindBytes)
	if err == nil {
		v.SetBytes(append([]byte{}, t.Body...))
	}
	return err
}

func writeByteArray(w *writer, v reflect.Value, _ int) error {
	w.out = msgpack.AppendBytes(w.out, addressable(v).Bytes())
	return nil
}

func readByteArray(r *reader, v reflect.Value, _ int) error {
	t, err := r.Want(msgpack.KindBytes)
	switch {
	case err != nil:
		return err
	case len(t.Body) != v.Len():
		return r.Fail(t.At, "is %d bytes, must be %d", len(t.Body), v.Len())
	}
	copy(v.Bytes(), t.Body)
	return nil
}

// open begins a container with so many levels left, its own included.
func (w *writer) open(levels int) error {
	if levels < 1 {
		return msgpack.Unfit("", "is nested deeper than %d", MaxValueDepth)
	}
	return nil
}

// open reads the head of a container.
func (r *reader) open(k msgpack.Kind, levels int) (msgpack.Token, error) {
	t, err := r.Want(k)
	if err == nil {
		err = r.Enter(&t, levels)
	}
	return t, err
}

func writeElements(w *writer, v reflect.Value, element *shape, levels int) error {
	if err := w.open(levels); err != nil {
		return err
	}
	w.out = msgpack.AppendArrayLen(w.out, v.Len())
	for i := range v.Len() {
		if err := element.write(w, v.Index(i), levels-1); err != nil {
			return msgpack.Within(index(i), err)
		}
	}
	return nil
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

func sliceShape(t reflect.Type, element *shape) (func(*writer, reflect.Value, int) error, func(*reader, reflect.Value, int) error) {
	write := func(w *writer, v reflect.Value, levels int) error {
		if v.IsNil() {
			w.out = msgpack.AppendNil(w.out)
			return nil
		}
		return writeElements(w, v, element, levels)
	}
	read := func(r *reader, v reflect.Value, levels int) error {
		if r.SkipNil() {
			return nil
		}
		head, err := r.open(msgpack.KindArray, levels)
		if err != nil {
			return err
		}
		// The claimed length is believed for 1 KiB; what is more must be there first.
		believed := max(1, 1024/max(1, int(t.Elem().Size())))
		v.Set(reflect.MakeSlice(t, 0, min(head.N(), believed)))
		for i := range head.N() {
			v.Grow(1)
			v.SetLen(i + 1)
			if err := element.read(r, v.Index(i), levels-1); err != nil {
				return msgpack.Within(index(i), err)
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
		head, err := r.open(msgpack.KindArray, levels)
		switch {
		case err != nil:
			return err
		case head.N() != v.Len():
			return r.Fail(head.At, "is %d elements, must be %d", head.N(), v.Len())
		}
		for i := range head.N() {
			if err := element.read(r, v.Index(i), levels-1); err != nil {
				return msgpack.Within(index(i), err)
			}
		}
		return nil
	}
	return write, read
}

func mapShape(t reflect.Type, value *shape) (func(*writer, reflect.Value, int) error, func(*reader, reflect.Value, int) error) {
	write := func(w *writer, v reflect.Value, levels int) error {
		if v.IsNil() {
			w.out = msgpack.AppendNil(w.out)
			return nil
		}
		return writeMap(w, v, value, levels)
	}
	read := func(r *reader, v reflect.Value, levels int) error {
		if r.SkipNil() {
			return nil
		}
		head, err := r.open(msgpack.KindMap, levels)
		if err != nil {
			return err
		}
		v.Set(reflect.MakeMap(t))
		for range head.N() {
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
	w.out = msgpack.AppendMapLen(w.out, v.Len())
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		if err := w.text(key.String()); err != nil {
			return err
		}
		if err := value.write(w, v.MapIndex(key), levels-1); err != nil {
			return msgpack.Within(quoted(key.String()), err)
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
		return msgpack.Within(quoted(key), err)
	}
	m.SetMapIndex(reflect.ValueOf(key).Convert(m.Type().Key()), v)
	return nil
}

// textKey reads a map key for a Go map; bytes that are text will do.
func (r *reader) textKey() (string, error) {
	t, err := r.Key()
	if err == nil && t.Kind == msgpack.KindBytes && !utf8.Valid(t.Body) {
		err = r.Fail(t.At, "a map key is bytes that are not UTF-8")
	}
	return string(t.Body), err
}

func quoted(key string) string { return "[" + strconv.Quote(key) + "]" }

func (s *shape) writeStruct(w *writer, v reflect.Value, levels int) error {
	if err := w.open(levels); err != nil {
		return err
	}
	w.out = msgpack.AppendArrayLen(w.out, len(s.fields))
	for i := range s.fields {
		f := &s.fields[i]
		if err := f.shape.write(w, v.Field(f.index), levels-1); err != nil {
			return msgpack.Within(f.name, err)
		}
	}
	return nil
}

func (s *shape) writeNamed(w *writer, v reflect.Value, levels int) error {
	if err := w.open(levels); err != nil {
		return err
	}
	w.out = msgpack.AppendMapLen(w.out, len(s.fields))
	for i := range s.fields {
		f := &s.fields[i]
		w.out = append(w.out, f.key...)
		if err := f.shape.write(w, v.Field(f.index), levels-1); err != nil {
			return msgpack.Within(f.name, err)
		}
	}
	return nil
}

// readNamed leaves fields zero that the map lacks, and drops members that the struct lacks, but refuses a map that has both: a field that was renamed would
// lose its value.
func (s *shape) readNamed(r *reader, v reflect.Value, levels int) error {
	head, err := r.open(msgpack.KindMap, levels)
	if err != nil && head.Kind == msgpack.KindArray {
		return otherForm(head.At, "is a struct", v.Type(), s.fields, ByName)
	}
	if err != nil {
		return err
	}
	var few [32]bool
	seen := few[:]
	if len(s.fields) > len(few) {
		seen = make([]bool, len(s.fields))
	}
	found, unknown, foreign := 0, "", false
	for n := range head.N() {
		name, err := r.Name()
		if err != nil {
			return err
		}
		i := s.find(name, n)
		if i < 0 {
			if !foreign {
				unknown, foreign = string(name), true
			}
			if err := r.Skip(levels - 1); err != nil {
				return err
			}
			continue
		}
		f := &s.fields[i]
		if to := v.Field(f.index); seen[i] {
			to.SetZero()
		} else {
			seen[i] = true
			found++
		}
		if err := f.shape.read(r, v.Field(f.index), levels-1); err != nil {
			return msgpack.Within(f.name, err)
		}
	}
	if foreign && found < len(s.fields) {
		missing := s.fields[slices.Index(seen, false)].name
		return &FormatError{Offset: head.At, Layout: true, Reason: "has the member " + strconv.Quote(msgpack.Clean(clipped(unknown))) + ", which " + v.Type().String() + " lacks, and not its field " +
			missing + ": it was written for another version of the type"}
	}
	return nil
}

// find is the field of that name, most likely the one at place n, or -1.
func (s *shape) find(name []byte, n int) int {
	if n < len(s.fields) && s.fields[n].name == string(name) {
		return n
	}
	return slices.IndexFunc(s.fields, func(f field) bool { return f.name == string(name) })
}

func clipped(s string) string { return s[:min(len(s), 64)] }

// otherForm is the error of a value, "is a struct", of type t whose form is not that of the type.
func otherForm(at int, what string, t reflect.Type, fields []field, form Form) error {
	given, want, how := "by position", "by name", "with"
	if form == ByPosition {
		given, want, how = want, given, "without"
	}
	return &FormatError{Offset: at, Layout: true, Reason: what + " " + given + ", and " + t.String() + " travels " + want + ", " + formOf(fields, form) +
		": submit it so, or register the type " + how + " task.Positional()"}
}

// formOf is how a struct with these fields looks in JSON: {"To": ..., "Text": ...} by name, [To, Text] by position.
func formOf(fields []field, form Form) string {
	const most = 8
	parts := make([]string, 0, most+1)
	for _, f := range fields[:min(len(fields), most)] {
		if form == ByPosition {
			parts = append(parts, f.name)
		} else {
			parts = append(parts, strconv.Quote(f.name)+": ...")
		}
	}
	if len(fields) > most {
		parts = append(parts, "...")
	}
	if form == ByPosition {
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// readEither reads the form that the bytes have.
func (s *shape) readEither(r *reader, v reflect.Value, levels int) error {
	ahead := *r
	if t, err := ahead.Next(); err == nil && t.Kind == msgpack.KindArray {
		return s.readStruct(r, v, levels)
	}
	return s.readNamed(r, v, levels)
}

// readStruct leaves the fields of missing elements zero, which an older writer did not know, and drops surplus ones of a newer.
func (s *shape) readStruct(r *reader, v reflect.Value, levels int) error {
	head, err := r.open(msgpack.KindArray, levels)
	if err != nil && head.Kind == msgpack.KindMap {
		return otherForm(head.At, "is a struct", v.Type(), s.fields, ByPosition)
	}
	if err != nil {
		return err
	}
	for i := range head.N() {
		if i >= len(s.fields) {
			if err := r.Skip(levels - 1); err != nil {
				return err
			}
			continue
		}
		f := &s.fields[i]
		if err := f.shape.read(r, v.Field(f.index), levels-1); err != nil {
			return msgpack.Within(f.name, err)
		}
	}
	return nil
}
