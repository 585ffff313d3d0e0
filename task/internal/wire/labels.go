package wire

import (
	"slices"

	"github.com/taktworks/takt/internal/msgpack"
)

// Label is one label of a message or result. Value is a string, int64 (int is written, too), float64, bool or nil; or Raw, which is how a value of any
// other kind is read, so that it is written again as it was.
type Label struct {
	Key   string
	Value any
}

// Raw is one well-formed msgpack value.
type Raw []byte

// Labels keep the order they were given or read in. Of two with one key the last counts.
type Labels []Label

// Get returns the value of a label. ok is false if there is none.
func (l Labels) Get(key string) (value any, ok bool) {
	if i := l.index(key); i >= 0 {
		return l[i].Value, true
	}
	return nil, false
}

// String returns the value of a label that is text, else "".
func (l Labels) String(key string) string {
	value, _ := l.Get(key)
	s, _ := value.(string)
	return s
}

// Int returns the value of a label that is an integer, else 0.
func (l Labels) Int(key string) int64 {
	value, _ := l.Get(key)
	switch n := value.(type) {
	case int64:
		return n
	case int:
		return int64(n)
	}
	return 0
}

// Set returns labels in which key has the value: in its place if it was there, else at the end. l itself stays as it is.
func (l Labels) Set(key string, value any) Labels {
	if i := l.index(key); i >= 0 {
		l = slices.Clone(l)
		l[i].Value = value
		return l
	}
	return append(slices.Clip(l), Label{key, value})
}

func (l Labels) index(key string) int {
	for i := len(l) - 1; i >= 0; i-- {
		if l[i].Key == key {
			return i
		}
	}
	return -1
}

func (l Labels) append(dst []byte) ([]byte, error) {
	dst = msgpack.AppendMapLen(dst, len(l))
	var err error
	for i := range l {
		if dst, err = msgpack.AppendChecked(dst, "labels", l[i].Key); err != nil {
			return dst, err
		}
		if dst, err = l[i].appendValue(dst); err != nil {
			return dst, msgpack.Within("labels."+l[i].Key, err)
		}
	}
	return dst, nil
}

func (l *Label) appendValue(dst []byte) ([]byte, error) {
	switch v := l.Value.(type) {
	case string:
		return msgpack.AppendChecked(dst, "", v)
	case int64:
		return msgpack.AppendInt(dst, v), nil
	case int:
		return msgpack.AppendInt(dst, int64(v)), nil
	case float64:
		return msgpack.AppendFloat64(dst, v), nil
	case bool:
		return msgpack.AppendBool(dst, v), nil
	case nil:
		return msgpack.AppendNil(dst), nil
	case Raw:
		return append(dst, v...), Check(v, MaxValueDepth-1)
	}
	return dst, msgpack.Unfit("", "a label is text, an int, a float64, a bool or nil, not a %T", l.Value)
}

// readLabels reads a map of labels that stands in the map of a message or result.
func readLabels(r *reader) (Labels, error) {
	n, err := r.Members(msgpack.KindMap)
	if err != nil || n == 0 {
		return nil, err
	}
	l := make(Labels, 0, min(n, 16)) // more than that is not believed before it is read
	for range n {
		key, err := readLabelKey(r)
		if err != nil {
			return nil, err
		}
		value, err := readLabel(r)
		if err != nil {
			return nil, msgpack.Within(key, err)
		}
		l = append(l, Label{key, value})
	}
	return l, nil
}

func readLabelKey(r *reader) (string, error) {
	if body, ok := r.ShortText(); ok {
		return labelKey(body), nil
	}
	return r.Text()
}

func readLabel(r *reader) (any, error) {
	if body, ok := r.ShortText(); ok {
		return labelText(body), nil
	}
	before := *r
	t, err := r.Next()
	if err != nil {
		return nil, err
	}
	switch t.Kind {
	case msgpack.KindString:
		return string(t.Body), nil
	case msgpack.KindInt:
		return t.Int(), nil
	case msgpack.KindFloat:
		return t.Float(), nil
	case msgpack.KindBool:
		return t.Bool(), nil
	case msgpack.KindNil:
		return nil, nil
	}
	*r = before
	raw, err := r.Raw(MaxValueDepth - 1)
	return Raw(raw), err
}

// labelKey and labelText are string(b) without an allocation for the words every message has.
func labelKey(b []byte) string {
	switch string(b) {
	case "priority":
		return "priority"
	case "size":
		return "size"
	case "periodic":
		return "periodic"
	case "vo":
		return "vo"
	case "group_id":
		return "group_id"
	case "callback_group_id":
		return "callback_group_id"
	case "_retry_attempt":
		return "_retry_attempt"
	}
	return string(b)
}

func labelText(b []byte) any {
	switch string(b) {
	case "realtime":
		return "realtime"
	case "normal":
		return "normal"
	case "background":
		return "background"
	case "small":
		return "small"
	case "medium":
		return "medium"
	case "large":
		return "large"
	}
	return string(b)
}
