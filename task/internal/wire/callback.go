package wire

import (
	"slices"
)

// Callback is the record of what a group submits at its end.
type Callback struct {
	Class string // registered name of the task type; required
	Args  []byte // msgpack array; nil = none. Of a decoded record: an alias of its bytes
}

// Append appends the record to dst. The error names a field that cannot travel; dst is then returned as it was given.
func (c *Callback) Append(dst []byte) ([]byte, error) {
	if c.Class == "" {
		return dst, unfit("task_class", "must not be empty")
	}
	if c.Args != nil {
		if err := checkKind(c.Args, kindArray, "args"); err != nil {
			return dst, err
		}
	}
	out := appendMapLen(slices.Grow(dst, 32+len(c.Class)+len(c.Args)), 2)
	out, err := appendChecked(appendText(out, "task_class"), "task_class", c.Class)
	if err != nil {
		return dst, err
	}
	return append(appendText(out, "args"), orElse(c.Args, emptyArray)...), nil
}

// DecodeCallback reads a record; task_class must be there and not empty, unknown fields are ignored. Args aliases b. The error is a
// *FormatError.
func DecodeCallback(b []byte) (Callback, error) {
	r := reader{in: b}
	var c Callback
	if err := c.read(&r); err != nil {
		return Callback{}, err
	}
	return c, nil
}

func (c *Callback) read(r *reader) error {
	n, err := r.members(kindMap)
	if err != nil {
		return err
	}
	for range n {
		name, err := r.name()
		if err != nil {
			return err
		}
		switch string(name) {
		case "task_class":
			c.Class, err = r.text()
		case "args":
			c.Args, err = r.whole(kindArray)
		default:
			err = r.skip(MaxDepth - 1)
		}
		if err != nil {
			return within(string(name), err)
		}
	}
	if c.Class == "" {
		return within("task_class", r.fail(0, "is missing or empty"))
	}
	return r.end()
}
