package wire

import (
	"slices"

	"github.com/taktworks/takt/internal/msgpack"
)

// Message is a task as it stands in a stream or in the set of delayed tasks.
type Message struct {
	ID     string // required
	Name   string // of the task type; required
	Labels Labels
	Args   []byte // msgpack array; nil = none. Of a decoded message: an alias of its bytes
	Kwargs []byte // msgpack map; nil = none. The same
	Meta   Meta
	Extra  []Field // members of the message that nothing here knows, in their order
}

// Field is an unknown member of a map, both parts msgpack.
type Field struct{ Key, Value []byte }

var emptyArray, emptyMap = []byte{0x90}, []byte{0x80}

// Append appends the message to dst. The fields have the order of the Python class, then comes `meta`, unless it is zero, then Extra;
// so without Meta and Extra the bytes are those of Python. What it writes, Decode reads.
//
// The error, a *ValueError or *FormatError, names a field that cannot travel; dst is then returned as it was given.
func (m *Message) Append(dst []byte) ([]byte, error) {
	out, err := m.append(slices.Grow(dst, m.size()))
	if err != nil {
		return dst, err
	}
	return out, nil
}

// size is about how long the message will be, rather too much.
func (m *Message) size() int {
	n := 80 + len(m.ID) + len(m.Name) + len(m.Args) + len(m.Kwargs)
	if m.Meta.members() > 0 {
		n += m.Meta.size()
	}
	for i := range m.Labels {
		s, _ := m.Labels[i].Value.(string)
		n += 12 + len(m.Labels[i].Key) + len(s)
	}
	return n
}

func (m *Message) append(dst []byte) (_ []byte, err error) {
	if err := m.check(); err != nil {
		return dst, err
	}
	metas, fields := m.Meta.members(), 5+len(m.Extra)
	if metas > 0 {
		fields++
	}
	dst = msgpack.AppendMapLen(dst, fields)
	if dst, err = msgpack.AppendChecked(msgpack.AppendString(dst, "task_id"), "task_id", m.ID); err != nil {
		return dst, err
	}
	if dst, err = msgpack.AppendChecked(msgpack.AppendString(dst, "task_name"), "task_name", m.Name); err != nil {
		return dst, err
	}
	if dst, err = m.Labels.append(msgpack.AppendString(dst, "labels")); err != nil {
		return dst, err
	}
	dst = append(msgpack.AppendString(dst, "task_args"), orElse(m.Args, emptyArray)...)
	dst = append(msgpack.AppendString(dst, "task_kwargs"), orElse(m.Kwargs, emptyMap)...)
	if metas > 0 {
		if dst, err = m.Meta.append(msgpack.AppendString(dst, "meta"), metas); err != nil {
			return dst, msgpack.Within("meta", err)
		}
	}
	return appendFields(dst, m.Extra, MaxDepth-1)
}

func (m *Message) check() error {
	switch {
	case m.ID == "":
		return msgpack.Unfit("task_id", "must not be empty")
	case m.Name == "":
		return msgpack.Unfit("task_name", "must not be empty")
	}
	if m.Args != nil {
		if err := checkKind(m.Args, msgpack.KindArray, "task_args"); err != nil {
			return err
		}
	}
	if m.Kwargs != nil {
		return checkKind(m.Kwargs, msgpack.KindMap, "task_kwargs")
	}
	return nil
}

func orElse(raw, empty []byte) []byte {
	if raw == nil {
		return empty
	}
	return raw
}

// appendFields appends members as they were read. levels is what their values may have.
func appendFields(dst []byte, fields []Field, levels int) ([]byte, error) {
	for _, f := range fields {
		r := newReader(f.Key)
		if _, err := r.Key(); err != nil {
			return dst, err
		}
		if err := r.End(); err != nil {
			return dst, err
		}
		if err := Check(f.Value, levels); err != nil {
			return dst, err
		}
		dst = append(append(dst, f.Key...), f.Value...)
	}
	return dst, nil
}

// Decode reads a message. Its fields may come in any order; task_id and task_name must be there and not empty, of the others the
// absent are empty. The whole of b is checked as by Check. Args, Kwargs and unknown members alias b, which must not be changed while
// the message is in use; texts are copies. The error is a *FormatError.
func Decode(b []byte) (Message, error) {
	r := newReader(b)
	var m Message
	if err := m.read(&r); err != nil {
		return Message{}, err
	}
	return m, nil
}

func (m *Message) read(r *reader) error {
	if err := r.Fields(func(name []byte, from int) error { return m.readField(r, name, from) }); err != nil {
		return err
	}
	switch {
	case m.ID == "":
		return msgpack.Within("task_id", r.Fail(0, "is missing or empty"))
	case m.Name == "":
		return msgpack.Within("task_name", r.Fail(0, "is missing or empty"))
	}
	return r.End()
}

// readField reads the value of a field whose key began at from.
func (m *Message) readField(r *reader, name []byte, from int) (err error) {
	switch string(name) {
	case "task_id":
		m.ID, err = r.Text()
	case "task_name":
		m.Name, err = r.Text()
	case "labels":
		m.Labels, err = readLabels(r)
	case "task_args":
		m.Args, err = r.whole(msgpack.KindArray)
	case "task_kwargs":
		m.Kwargs, err = r.whole(msgpack.KindMap)
		if len(m.Kwargs) == 1 { // {}
			m.Kwargs = nil
		}
	case "meta":
		m.Meta = Meta{}
		err = m.Meta.read(r)
	default:
		var f Field
		f, err = r.field(from, MaxDepth-1)
		m.Extra = append(m.Extra, f)
	}
	return err
}

// whole reads the array or map that is a field of the outermost map and returns its bytes.
func (r *reader) whole(k msgpack.Kind) ([]byte, error) {
	from := r.Offset()
	n, err := r.Members(k)
	if err != nil {
		return nil, err
	}
	if err := r.SkipMembers(k, n, from, MaxDepth-1); err != nil {
		return nil, err
	}
	return r.Since(from), nil
}

// field reads the value of an unknown member whose key, just read, began at from.
func (r *reader) field(from, levels int) (Field, error) {
	key := r.Since(from)
	value, err := r.Raw(levels)
	return Field{key, value}, err
}
