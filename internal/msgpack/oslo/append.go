package oslo

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/taktworks/takt/internal/msgpack"
)

// Append appends v as Python writes it. Besides what Decode gives it takes an int, a time.Time as AppendTime writes it, and a map[string]any, which is written in the order of its
// keys. A nil slice or map is nil. The error, a *msgpack.ValueError, names the part that cannot be written; dst is then returned as it was given.
func Append(dst []byte, v any) ([]byte, error) {
	w := writer{out: dst}
	if err := w.value(v, MaxDepth); err != nil {
		return dst, err
	}
	return w.out, nil
}

type writer struct{ out []byte }

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
	case Map:
		err = w.pairs(v, levels)
	case map[string]any:
		err = w.goMap(v, levels)
	case []any:
		err = w.array(v, levels)
	default:
		err = msgpack.Unfit("", "a %T cannot be written", v)
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
