package wire

import (
	"reflect"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/msgpack"
)

// dynamic has the shapes of types that were met within interfaces: reflect.Type -> *shape or error.
type dynamic struct{ known sync.Map }

func (d *dynamic) shape(t reflect.Type) (*shape, error) {
	found, ok := d.known.Load(t)
	if !ok {
		s, err := newBuilder(ByPosition, true).shape(t, "")
		found = s
		if err != nil {
			found = err
		}
		d.known.Store(t, found)
	}
	if s, ok := found.(*shape); ok {
		return s, nil
	}
	err := *found.(*ValueError) // a copy: the caller puts its path in front
	return nil, &err
}

func timeOf(v reflect.Value) time.Time { return v.Interface().(time.Time) }

func writeAny(w *writer, v reflect.Value, levels int) error {
	if v.IsNil() {
		w.out = msgpack.AppendNil(w.out)
		return nil
	}
	s, err := w.dynamic.shape(v.Elem().Type())
	if err != nil {
		return err
	}
	return s.write(w, v.Elem(), levels)
}

func readAny(r *reader, v reflect.Value, levels int) error {
	value, err := r.any(levels)
	if err == nil && value != nil {
		v.Set(reflect.ValueOf(value))
	}
	return err
}

// any reads one value as the Go type it has without a field that says so.
func (r *reader) any(levels int) (any, error) {
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
		return append([]byte{}, t.Body...), nil
	case msgpack.KindArray:
		return r.anySlice(&t, levels)
	case msgpack.KindMap:
		return r.anyMap(&t, levels)
	case msgpack.KindExt:
		if !t.IsTime() {
			return nil, r.Fail(t.At, "is an extension of type %d, which has no Go type", t.Code)
		}
		return t.Time(), nil
	}
	return nil, nil
}

func (r *reader) anySlice(t *msgpack.Token, levels int) (any, error) {
	if err := r.Enter(t, levels); err != nil {
		return nil, err
	}
	list := make([]any, 0, min(t.N(), 64)) // more than that is not believed before it is read
	for i := range t.N() {
		v, err := r.any(levels - 1)
		if err != nil {
			return nil, msgpack.Within(index(i), err)
		}
		list = append(list, v)
	}
	return list, nil
}

func (r *reader) anyMap(t *msgpack.Token, levels int) (any, error) {
	if err := r.Enter(t, levels); err != nil {
		return nil, err
	}
	m := make(map[string]any)
	for range t.N() {
		key, err := r.textKey()
		if err != nil {
			return nil, err
		}
		if m[key], err = r.any(levels - 1); err != nil {
			return nil, msgpack.Within(quoted(key), err)
		}
	}
	return m, nil
}
