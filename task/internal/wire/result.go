package wire

import (
	"slices"

	"github.com/taktworks/takt/internal/msgpack"
)

// Result is the outcome of a task as it is stored for its submitter.
type Result struct {
	IsErr   bool
	Value   []byte  // msgpack, nil = nil. Of a decoded result: an alias of its bytes
	Seconds float64 // how long the run took
	Err     *Error  // nil unless IsErr
	Labels  Labels
}

// Error is what a task failed with.
type Error struct{ Type, Message, Traceback string }

// Append appends the result to dst. What is not UTF-8 in the texts of Err is replaced. The error, a *ValueError or *FormatError, names
// a field that cannot travel, the value or a label; dst is then returned as it was given.
func (r *Result) Append(dst []byte) ([]byte, error) {
	if r.Value != nil {
		if err := Check(r.Value, MaxValueDepth); err != nil {
			return dst, msgpack.Within("return_value", err)
		}
	}
	out := slices.Grow(dst, 96+len(r.Value))
	out = msgpack.AppendBool(msgpack.AppendString(msgpack.AppendMapLen(out, 5), "is_err"), r.IsErr)
	out = append(msgpack.AppendString(out, "return_value"), orElse(r.Value, []byte{msgpack.Nil})...)
	out = msgpack.AppendFloat64(msgpack.AppendString(out, "execution_time"), r.Seconds)
	out = r.Err.append(msgpack.AppendString(out, "error"))
	out, err := r.Labels.append(msgpack.AppendString(out, "labels"))
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (e *Error) append(dst []byte) []byte {
	if e == nil {
		return msgpack.AppendNil(dst)
	}
	dst = msgpack.AppendMapLen(dst, 3)
	dst = msgpack.AppendString(msgpack.AppendString(dst, "type"), msgpack.Clean(e.Type))
	dst = msgpack.AppendString(msgpack.AppendString(dst, "message"), msgpack.Clean(e.Message))
	return msgpack.AppendString(msgpack.AppendString(dst, "traceback"), msgpack.Clean(e.Traceback))
}

// DecodeResult reads a result, in any order of its fields; is_err must be there, unknown ones are ignored. The whole of b is checked as by
// Check; Value aliases b. The error is a *FormatError.
func DecodeResult(b []byte) (Result, error) {
	in := newReader(b)
	var result Result
	said := false
	err := in.Fields(func(name []byte, _ int) error {
		said = said || string(name) == "is_err"
		return result.readField(&in, name)
	})
	if err == nil && !said {
		err = msgpack.Within("is_err", in.Fail(0, "is missing"))
	}
	if err == nil {
		err = in.End()
	}
	if err != nil {
		return Result{}, err
	}
	return result, nil
}

func (r *Result) readField(in *reader, name []byte) (err error) {
	switch string(name) {
	case "is_err":
		var t msgpack.Token
		t, err = in.Want(msgpack.KindBool)
		r.IsErr = t.Bool()
	case "return_value":
		r.Value, err = in.Raw(MaxValueDepth)
		if len(r.Value) == 1 && r.Value[0] == msgpack.Nil {
			r.Value = nil
		}
	case "execution_time":
		r.Seconds, err = readSeconds(in)
	case "error":
		r.Err, err = readError(in)
	case "labels":
		r.Labels, err = readLabels(in)
	default:
		err = in.Skip(MaxDepth - 1)
	}
	return err
}

func readSeconds(in *reader) (float64, error) {
	t, err := in.Next()
	switch {
	case err != nil:
		return 0, err
	case t.Kind == msgpack.KindFloat:
		return t.Float(), nil
	case t.Kind == msgpack.KindInt:
		return float64(t.Int()), nil
	}
	return 0, in.Mismatch(&t, "a float")
}

func readError(in *reader) (*Error, error) {
	t, err := in.Next()
	switch {
	case err != nil || t.Kind == msgpack.KindNil:
		return nil, err
	case t.Kind != msgpack.KindMap:
		return nil, in.Mismatch(&t, "nil or a map")
	}
	e := new(Error)
	for range t.N() {
		name, err := in.Name()
		if err != nil {
			return nil, err
		}
		switch string(name) {
		case "type":
			e.Type, err = in.Text()
		case "message":
			e.Message, err = in.Text()
		case "traceback":
			e.Traceback, err = in.Text()
		default:
			err = in.Skip(MaxDepth - 2)
		}
		if err != nil {
			return nil, msgpack.Within(string(name), err)
		}
	}
	return e, nil
}
