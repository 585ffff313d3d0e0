package oslo

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/taktworks/takt/internal/msgpack"
)

// Append appends v as Python writes it. Besides what Decode gives it takes time.Time and uuid.UUID (see FromTime, FromUUID), and whatever is by
// its kind a bool, an integer, a float, text, bytes, a slice, an array, or a map with text keys, which is written in the order of its keys.
// A nil slice, map or pointer is nil; a pointer is what it points to. The error, a *msgpack.ValueError, names the part that cannot be
// written, also for a limit; dst is then returned as it was given.
func Append(dst []byte, v any, l Limits) ([]byte, error) {
	w := writer{out: dst, from: len(dst), size: l.Size}
	if err := w.value(v, l.depth()); err != nil {
		return dst, err
	}
	return w.out, nil
}

type writer struct {
	out  []byte
	from int // length before the value
	size int // most bytes of the value, 0 = any number
}

func (w *writer) value(v any, levels int) (err error) {
	switch v := v.(type) {
	case nil:
		w.out = msgpack.AppendNil(w.out)
	case bool:
		w.out = msgpack.AppendBool(w.out, v)
	case int:
		w.out = msgpack.AppendInt(w.out, int64(v))
	case int64:
		w.out = msgpack.AppendInt(w.out, v)
	case uint64:
		w.out = msgpack.AppendUint(w.out, v)
	case float64:
		w.out = msgpack.AppendFloat64(w.out, v)
	case string:
		w.out, err = msgpack.AppendChecked(w.out, "", v)
	case []byte:
		w.out = appendBytes(w.out, v)
	case Ext:
		w.out = msgpack.AppendExt(w.out, v.Code, v.Data)
	case time.Time:
		w.out, err = AppendTime(w.out, v)
	case uuid.UUID:
		id := FromUUID(v)
		w.out = msgpack.AppendExt(w.out, id.Code, id.Data)
	case Map:
		err = w.pairs(v, levels)
	case map[string]any:
		err = w.goMap(v, levels)
	case []any:
		err = w.array(v, levels)
	default:
		err = w.other(reflect.ValueOf(v), levels)
	}
	if err == nil && w.size > 0 && len(w.out)-w.from > w.size {
		err = msgpack.Unfit("", "the whole is more than %d bytes", w.size)
	}
	return err
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return msgpack.AppendNil(dst)
	}
	return msgpack.AppendBytes(dst, b)
}

func (w *writer) array(list []any, levels int) error {
	if list == nil {
		w.out = msgpack.AppendNil(w.out)
		return nil
	}
	if err := enter(levels); err != nil {
		return err
	}
	w.out = msgpack.AppendArrayLen(w.out, len(list))
	for i, v := range list {
		if err := w.value(v, levels-1); err != nil {
			return msgpack.Within(index(i), err)
		}
	}
	return nil
}

func enter(levels int) error {
	if levels < 1 {
		return msgpack.Unfit("", "is nested too deep")
	}
	return nil
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

func (w *writer) pairs(m Map, levels int) error {
	if m == nil {
		w.out = msgpack.AppendNil(w.out)
		return nil
	}
	if err := enter(levels); err != nil {
		return err
	}
	w.out = msgpack.AppendMapLen(w.out, len(m))
	for _, p := range m {
		if err := w.pair(p, levels); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) pair(p Pair, levels int) (err error) {
	var name string
	switch key := p.Key.(type) {
	case string:
		name = key
		w.out, err = msgpack.AppendChecked(w.out, key, key)
	case []byte:
		name = string(key)
		w.out = msgpack.AppendBytes(w.out, key)
	default:
		err = msgpack.Unfit("", "a map key is a %T, must be text or bytes", p.Key)
	}
	if err != nil {
		return err
	}
	if err := w.value(p.Value, levels-1); err != nil {
		return msgpack.Within(name, err)
	}
	return nil
}

func (w *writer) goMap(m map[string]any, levels int) error {
	if m == nil {
		w.out = msgpack.AppendNil(w.out)
		return nil
	}
	ordered := make(Map, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		ordered = append(ordered, Pair{key, m[key]})
	}
	return w.pairs(ordered, levels)
}

// other writes what is of a type of somebody else, by its kind.
func (w *writer) other(v reflect.Value, levels int) error {
	switch {
	case v.CanInt():
		return w.value(v.Int(), levels)
	case v.CanUint():
		return w.value(v.Uint(), levels)
	case v.CanFloat():
		return w.value(v.Float(), levels)
	}
	switch kind := v.Kind(); kind {
	case reflect.Bool:
		return w.value(v.Bool(), levels)
	case reflect.String:
		return w.value(v.String(), levels)
	case reflect.Pointer:
		if v.IsNil() {
			return w.value(nil, levels)
		}
		if err := enter(levels); err != nil { // a pointer to itself ends, too
			return err
		}
		return w.value(v.Elem().Interface(), levels-1)
	case reflect.Slice, reflect.Array:
		return w.elements(v, levels)
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String {
			return w.members(v, levels)
		}
	}
	return msgpack.Unfit("", "a %v cannot be written", v.Type())
}

func (w *writer) elements(v reflect.Value, levels int) error {
	if v.Kind() == reflect.Slice && v.IsNil() {
		return w.value(nil, levels)
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		b := make([]byte, v.Len())
		for i := range b {
			b[i] = byte(v.Index(i).Uint())
		}
		return w.value(b, levels)
	}
	list := make([]any, v.Len())
	for i := range list {
		list[i] = v.Index(i).Interface()
	}
	return w.array(list, levels)
}

func (w *writer) members(v reflect.Value, levels int) error {
	if v.IsNil() {
		return w.value(nil, levels)
	}
	m := make(map[string]any, v.Len())
	for key, value := range v.Seq2() {
		m[key.String()] = value.Interface()
	}
	return w.goMap(m, levels)
}
