package wire

import (
	"cmp"
	"encoding"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taktworks/takt/internal/msgpack"
)

// shape is how the values of one Go type are written and read. levels is how many arrays and maps may still be one within the other; a value
// to be read into is zero and can be set.
type shape struct {
	write  func(w *writer, v reflect.Value, levels int) error
	read   func(r *reader, v reflect.Value, levels int) error
	fields []field // not nil only for a struct
}

// field is one member of a struct.
type field struct {
	name  string // in messages, see members
	key   []byte // the name as a map has it
	index int
	shape *shape
}

// writer is where values are appended.
type writer struct {
	out     []byte
	dynamic *dynamic
}

var (
	timeType        = reflect.TypeFor[time.Time]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// builder makes the shapes of a type and of those it is made of. A type that holds itself finds its own shape, still to be filled.
type builder struct {
	known   map[reflect.Type]*shape
	form    Form
	dynamic bool // the type was met within an interface
}

func newBuilder(form Form, dynamic bool) *builder {
	return &builder{known: make(map[reflect.Type]*shape), form: form, dynamic: dynamic}
}

func (b *builder) shape(t reflect.Type, path string) (*shape, error) {
	if s, ok := b.known[t]; ok {
		return s, nil
	}
	s := new(shape)
	b.known[t] = s
	return s, b.fill(s, t, path)
}

func (b *builder) fill(s *shape, t reflect.Type, path string) error {
	kind := t.Kind()
	switch {
	case t == timeType:
		s.write, s.read = writeTime, readTime
		return nil
	case kind == reflect.Pointer:
		return b.pointer(s, t, path)
	case kind == reflect.Interface:
		if t.NumMethod() > 0 {
			return msgpack.Unfit(path, "%v is an interface with methods: what is in it could not be made again", t)
		}
		s.write, s.read = writeAny, readAny
		return nil
	case isText(t):
		s.write, s.read = textShape(t)
		return nil
	}
	switch kind {
	case reflect.Bool:
		s.write, s.read = writeBool, readBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.write, s.read = writeInt, readInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s.write, s.read = writeUint, readUint
	case reflect.Float32:
		s.write, s.read = writeFloat32, readFloat
	case reflect.Float64:
		s.write, s.read = writeFloat, readFloat
	case reflect.String:
		s.write, s.read = writeString, readString
	case reflect.Slice, reflect.Array:
		return b.elements(s, t, path)
	case reflect.Map:
		return b.pairs(s, t, path)
	case reflect.Struct:
		return b.structure(s, t, path)
	default: // chan, func, complex, uintptr, unsafe.Pointer
		return msgpack.Unfit(path, "%v: a %v cannot travel", t, kind)
	}
	return nil
}

func (b *builder) pointer(s *shape, t reflect.Type, path string) error {
	if canBeNil(t.Elem()) {
		return msgpack.Unfit(path, "%v: a nil pointer and a pointer to nil would arrive as the same", t)
	}
	to, err := b.shape(t.Elem(), path)
	if err != nil {
		return err
	}
	s.write = func(w *writer, v reflect.Value, levels int) error {
		if v.IsNil() {
			w.out = msgpack.AppendNil(w.out)
			return nil
		}
		return to.write(w, v.Elem(), levels)
	}
	s.read = func(r *reader, v reflect.Value, levels int) error {
		if r.SkipNil() {
			return nil
		}
		target := reflect.New(t.Elem())
		v.Set(target)
		return to.read(r, target.Elem(), levels)
	}
	return nil
}

// canBeNil says whether nil is among what values of t are written as.
func canBeNil(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface:
		return true
	case reflect.Slice, reflect.Map:
		return !isText(t)
	}
	return false
}

// isText says whether values of t travel as their text. A struct that embeds something with a text has that text by promotion only, and
// would lose its other fields.
func isText(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	if !p.Implements(textMarshaler) || !p.Implements(textUnmarshaler) {
		return false
	}
	if t.Kind() != reflect.Struct {
		return true
	}
	for f := range t.Fields() {
		if f.Anonymous && (f.Type.Implements(textMarshaler) || reflect.PointerTo(f.Type).Implements(textMarshaler)) {
			return false
		}
	}
	return true
}

func (b *builder) elements(s *shape, t reflect.Type, path string) error {
	slice := t.Kind() == reflect.Slice
	if e := t.Elem(); e.Kind() == reflect.Uint8 && !isText(e) {
		if slice {
			s.write, s.read = writeBytes, readBytes
		} else {
			s.write, s.read = writeByteArray, readByteArray
		}
		return nil
	}
	element, err := b.shape(t.Elem(), path+"[]")
	if err != nil {
		return err
	}
	if slice {
		s.write, s.read = sliceShape(t, element)
	} else {
		s.write, s.read = arrayShape(element)
	}
	return nil
}

func (b *builder) pairs(s *shape, t reflect.Type, path string) error {
	if t.Key().Kind() != reflect.String {
		return msgpack.Unfit(path, "%v: keys must be text, for readers refuse others", t)
	}
	value, err := b.shape(t.Elem(), path+"[]")
	if err != nil {
		return err
	}
	s.write, s.read = mapShape(t, value)
	return nil
}

func (b *builder) structure(s *shape, t reflect.Type, path string) error {
	if b.dynamic {
		return msgpack.Unfit(path, "%v: a struct within an interface would arrive without its names; give a map", t)
	}
	fields, err := members(t, path)
	if err != nil {
		return err
	}
	s.fields = fields
	for i := range fields {
		f := t.Field(fields[i].index)
		if fields[i].shape, err = b.shape(f.Type, path+"."+f.Name); err != nil {
			return err
		}
	}
	switch b.form {
	case ByPosition:
		s.write, s.read = s.writeStruct, s.readStruct
	case EitherForm:
		s.write, s.read = s.writeNamed, s.readEither
	default:
		s.write, s.read = s.writeNamed, s.readNamed
	}
	return nil
}

// members are the fields of a struct that travel, without their shapes: the exported ones but those with the tag `json:"-"`. The name of a member is that of its json
// tag, else that of its field. Options behind the name, such as omitempty, have no effect: a message has all members, or readers could not tell another version of the type.
func members(t reflect.Type, path string) ([]field, error) {
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		name = cmp.Or(name, f.Name)
		switch at := path + "." + f.Name; {
		case tag == "-", !f.IsExported() && !f.Anonymous:
			continue
		case !f.IsExported():
			return nil, msgpack.Unfit(at, "is embedded but not exported: give it a name, or export it")
		case !utf8.ValidString(name):
			return nil, msgpack.Unfit(at, "its name in messages, %q, is not UTF-8: change its json tag", name)
		case slices.ContainsFunc(fields, func(other field) bool { return other.name == name }):
			return nil, msgpack.Unfit(at, "its name in messages, %q, is that of another field, too: change a json tag", name)
		}
		fields = append(fields, field{name: name, key: msgpack.AppendString(nil, name), index: i})
	}
	if len(fields) == 0 && t.NumField() > 0 {
		return nil, msgpack.Unfit(path, "%v has no exported field that travels", t)
	}
	return fields, nil
}
