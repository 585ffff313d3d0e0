package msgpack

import (
	"errors"
	"fmt"
	"strings"
)

// FormatError says what is wrong with bytes that were read. Repeating does not help: the bytes stay as they are.
type FormatError struct {
	Path   string // "meta.q", "Order.Items[2].Price"; "" = the value itself
	Offset int    // into the bytes that were given to read
	Reason string
	Layout bool // a struct has a field that the bytes lack, and they have a member that it lacks, or they are in another form: it is another version of the type
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("msgpack: %sbyte %d: %s", lead(e.Path, ", "), e.Offset, e.Reason)
}

// ValueError says which value, or which part of a type, cannot travel. The caller gives another value.
type ValueError struct {
	Path   string // "task_id", "Order.Items[2].Price"; "" = the value itself
	Reason string
}

func (e *ValueError) Error() string {
	return "msgpack: " + lead(e.Path, ": ") + e.Reason
}

func lead(path, separator string) string {
	if path == "" {
		return ""
	}
	return path + separator
}

// Unfit returns a *ValueError.
func Unfit(path, format string, args ...any) error {
	return &ValueError{path, fmt.Sprintf(format, args...)}
}

// Within puts step in front of the path of err, a *FormatError or *ValueError that nobody else holds.
func Within(step string, err error) error {
	const long = 64 // a key may be megabytes of anything
	if len(step) > long {
		step = step[:long] + "…"
	}
	step = Clean(step)
	var format *FormatError
	var value *ValueError
	switch {
	case errors.As(err, &format):
		format.Path = join(step, format.Path)
	case errors.As(err, &value):
		value.Path = join(step, value.Path)
	}
	return err
}

func join(step, path string) string {
	if path == "" || strings.HasPrefix(path, "[") {
		return step + path
	}
	return step + "." + path
}

// Clean replaces what is not UTF-8 in s.
func Clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
