package wire

import (
	"slices"

	"github.com/taktworks/takt/internal/msgpack"
)

// Callback is the record of what a group submits at its end.
type Callback struct {
	Class string // registered name of the task type; required
	Args  []byte // msgpack array; nil = none. Of a decoded record: an alias of its bytes
}

// Append appends the record to dst. The error names a field that cannot travel; dst is then returned as it was given.
func (c *Callback) Append(dst []byte) ([]byte, error) {
	if c.Class == "" {
		return dst, msgpack.Unfit("task_class", "must not be empty")
	}
	if c.Args != nil {
		if err := checkKind(c.Args, msgpack.KindArray, "args"); err != nil {
			return dst, err
		}
	}
	out := msgpack.AppendMapLen(slices.Grow(dst, 32+len(c.Class)+len(c.Args)), 2)
	out, err := msgpack.AppendChecked(msgpack.AppendString(out, "task_class"), "task_class", c.Class)
	if err != nil {
		return dst, err
	}
	return append(msgpack.AppendString(out, "args"), orElse(c.Args, emptyArray)...), nil
}

// DecodeCallback reads a record; task_class must be there and not empty, unknown fields are ignored. Args aliases b. The error is a
// *FormatError.
func DecodeCallback(b []byte) (Callback, error) {
	r := newReader(b)
	var c Callback
	err := r.Fields(func(name []byte, _ int) (err error) {
		switch string(name) {
		case "task_class":
			c.Class, err = r.Text()
		case "args":
			c.Args, err = r.whole(msgpack.KindArray)
		default:
			err = r.Skip(MaxDepth - 1)
		}
		return err
	})
	if err == nil && c.Class == "" {
		err = msgpack.Within("task_class", r.Fail(0, "is missing or empty"))
	}
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return Callback{}, err
	}
	return c, nil
}
