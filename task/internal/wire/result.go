package wire

import (
	"fmt"
	"slices"
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

// Error is the text that the Python client raises: "[ValueError] boom".
func (e *Error) Error() string { return fmt.Sprintf("[%s] %s", e.Type, e.Message) }

// Failure returns what the task failed with, an *Error, or nil if it succeeded.
func (r *Result) Failure() error {
	switch {
	case !r.IsErr:
		return nil
	case r.Err == nil:
		return &Error{Type: "Error", Message: "the task failed and did not say why"}
	}
	return r.Err
}

// Append appends the result to dst. What is not UTF-8 in the texts of Err is replaced. The error, a *ValueError or *FormatError, names
// a field that cannot travel, the value or a label; dst is then returned as it was given.
func (r *Result) Append(dst []byte) ([]byte, error) {
	if r.Value != nil {
		if err := Check(r.Value, MaxValueDepth); err != nil {
			return dst, within("return_value", err)
		}
	}
	out := slices.Grow(dst, 96+len(r.Value))
	out = appendBool(appendText(appendMapLen(out, 5), "is_err"), r.IsErr)
	out = append(appendText(out, "return_value"), orElse(r.Value, []byte{nilByte})...)
	out = appendFloat(appendText(out, "execution_time"), r.Seconds)
	out = r.Err.append(appendText(out, "error"))
	out, err := r.Labels.append(appendText(out, "labels"))
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (e *Error) append(dst []byte) []byte {
	if e == nil {
		return append(dst, nilByte)
	}
	dst = appendMapLen(dst, 3)
	dst = appendText(appendText(dst, "type"), clean(e.Type))
	dst = appendText(appendText(dst, "message"), clean(e.Message))
	return appendText(appendText(dst, "traceback"), clean(e.Traceback))
}

// DecodeResult reads a result, in any order of its fields; is_err must be there, unknown ones are ignored. The whole of b is checked as by
// Check; Value aliases b. The error is a *FormatError.
func DecodeResult(b []byte) (Result, error) {
	r := reader{in: b}
	var result Result
	if err := result.read(&r); err != nil {
		return Result{}, err
	}
	return result, nil
}

func (r *Result) read(in *reader) error {
	n, err := in.members(kindMap)
	if err != nil {
		return err
	}
	said := false
	for range n {
		name, err := in.name()
		if err != nil {
			return err
		}
		if err := r.readField(in, name); err != nil {
			return within(string(name), err)
		}
		said = said || string(name) == "is_err"
	}
	if !said {
		return within("is_err", in.fail(0, "is missing"))
	}
	return in.end()
}

func (r *Result) readField(in *reader, name []byte) (err error) {
	switch string(name) {
	case "is_err":
		var t token
		t, err = in.want(kindBool)
		r.IsErr = t.bool()
	case "return_value":
		r.Value, err = in.raw(MaxValueDepth)
		if len(r.Value) == 1 && r.Value[0] == nilByte {
			r.Value = nil
		}
	case "execution_time":
		r.Seconds, err = readSeconds(in)
	case "error":
		r.Err, err = readError(in)
	case "labels":
		r.Labels, err = readLabels(in)
	default:
		err = in.skip(MaxDepth - 1)
	}
	return err
}

func readSeconds(in *reader) (float64, error) {
	t, err := in.next()
	switch {
	case err != nil:
		return 0, err
	case t.kind == kindFloat:
		return t.float(), nil
	case t.kind == kindInt:
		return float64(t.int()), nil
	}
	return 0, in.mismatch(&t, "a float")
}

func readError(in *reader) (*Error, error) {
	t, err := in.next()
	switch {
	case err != nil || t.kind == kindNil:
		return nil, err
	case t.kind != kindMap:
		return nil, in.mismatch(&t, "nil or a map")
	}
	e := new(Error)
	for range t.n() {
		name, err := in.name()
		if err != nil {
			return nil, err
		}
		switch string(name) {
		case "type":
			e.Type, err = in.text()
		case "message":
			e.Message, err = in.text()
		case "traceback":
			e.Traceback, err = in.text()
		default:
			err = in.skip(MaxDepth - 2)
		}
		if err != nil {
			return nil, within(string(name), err)
		}
	}
	return e, nil
}
