package wire

import (
	"reflect"
	"sync"
	"time"
)

// dynamic has the shapes of types that were met within interfaces: reflect.Type -> *shape or error.
type dynamic struct{ known sync.Map }

func (d *dynamic) shape(t reflect.Type) (*shape, error) {
	found, ok := d.known.Load(t)
	if !ok {
		s, err := newBuilder(true).shape(t, "")
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
		w.out = append(w.out, nilByte)
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
	t, err := r.next()
	if err != nil {
		return nil, err
	}
	switch t.kind {
	case kindBool:
		return t.bool(), nil
	case kindInt:
		return t.int(), nil
	case kindUint:
		return t.bits, nil
	case kindFloat:
		return t.float(), nil
	case kindText:
		return string(t.body), nil
	case kindBin:
		return append([]byte{}, t.body...), nil
	case kindArray:
		return r.anySlice(&t, levels)
	case kindMap:
		return r.anyMap(&t, levels)
	case kindExt:
		if !t.isTime() {
			return nil, r.fail(t.at, "is an extension of type %d, which has no Go type", t.code)
		}
		return t.time(), nil
	}
	return nil, nil
}

func (r *reader) anySlice(t *token, levels int) (any, error) {
	if err := r.enter(t, levels); err != nil {
		return nil, err
	}
	list := make([]any, 0, min(t.n(), 64)) // more than that is not believed before it is read
	for i := range t.n() {
		v, err := r.any(levels - 1)
		if err != nil {
			return nil, within(index(i), err)
		}
		list = append(list, v)
	}
	return list, nil
}

func (r *reader) anyMap(t *token, levels int) (any, error) {
	if err := r.enter(t, levels); err != nil {
		return nil, err
	}
	m := make(map[string]any)
	for range t.n() {
		key, err := r.textKey()
		if err != nil {
			return nil, err
		}
		if m[key], err = r.any(levels - 1); err != nil {
			return nil, within(quoted(key), err)
		}
	}
	return m, nil
}
