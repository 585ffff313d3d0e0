package driver

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxDepth is how deeply the values of details may be nested. Readers of TaskFlow take 500; JSON of Python fails at about 1000.
const MaxDepth = 100

// Ext is a value of MessagePack's extension types that has no form in Go, handed through as it is: a set, a count, or an application's own.
type Ext struct {
	Code int8   `json:"ext"`
	Data []byte `json:"data"`
}

// Details returns a copy of details in the types in which they are read, too: nil, bool, int64, uint64 above it, float64, string, []byte, time.Time (UTC, microseconds), Ext, []any and map[string]any. Other
// integers, floats, texts, slices, arrays, maps and pointers are turned into these. The error is an *InvalidError whose Field is the path of what cannot be posted: "Details.store[2].size". limit is on
// the bytes of all texts, plus 9 for each other value.
func Details(details map[string]any, limit int) (map[string]any, error) {
	if len(details) == 0 {
		return nil, nil
	}
	c := copier{left: limit, limit: limit}
	v, err := c.copy(reflect.ValueOf(details), "Details", MaxDepth)
	if err != nil {
		return nil, err
	}
	return v.(map[string]any), nil
}

type copier struct{ left, limit int }

var timeType, extType, jsonType = reflect.TypeFor[time.Time](), reflect.TypeFor[Ext](), reflect.TypeFor[json.Number]()

func (c *copier) copy(v reflect.Value, path string, levels int) (any, error) {
	const other = 9
	size := other
	if v.Kind() == reflect.String {
		size = v.Len()
	}
	if err := c.spend(size, path); err != nil {
		return nil, err
	}
	if levels == 0 {
		return nil, Invalid(path, "is nested too deeply", fmt.Sprintf("must be at most %d levels", MaxDepth))
	}
	if !v.IsValid() {
		return nil, nil
	}
	switch v.Type() {
	case timeType:
		t := v.Interface().(time.Time).UTC().Truncate(time.Microsecond)
		if t.Year() < 1 || t.Year() > 9999 {
			return nil, Invalid(path, t.String(), "must be in the years 1 to 9999")
		}
		return t, nil
	case jsonType:
		return decimal(v.String(), path)
	case extType:
		e := v.Interface().(Ext)
		if err := c.spend(len(e.Data), path); err != nil {
			return nil, err
		}
		if e.Code < 0 {
			return nil, Invalid(path, fmt.Sprintf("of extension type %d", e.Code), "must be 0 to 127: the others belong to MessagePack, and TaskFlow takes them for no value of its own")
		}
		return Ext{e.Code, append([]byte(nil), e.Data...)}, nil
	}
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if v.Uint() > math.MaxInt64 {
			return v.Uint(), nil
		}
		return int64(v.Uint()), nil
	case reflect.Float32, reflect.Float64:
		return v.Float(), nil
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return nil, Invalid(path, fmt.Sprintf("%.64q", v.String()), "must be UTF-8")
		}
		return v.String(), nil
	case reflect.Interface:
		c.left += other // it is counted with what it holds
		return c.copy(v.Elem(), path, levels)
	case reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		return c.copy(v.Elem(), path, levels-1) // a level, for a pointer can lead to itself
	case reflect.Slice, reflect.Array:
		return c.list(v, path, levels)
	case reflect.Map:
		return c.mapping(v, path, levels)
	}
	return nil, Invalid(path, "of type "+v.Type().String(), "must be nil, bool, a number, text, []byte, time.Time, or a slice or map of these")
}

// spend counts bytes.
func (c *copier) spend(n int, path string) error {
	if c.left -= n; c.left < 0 {
		return Invalid("Details", "up to "+path, fmt.Sprintf("must be at most %d bytes", c.limit))
	}
	return nil
}

// decimal is a json.Number, which by its kind is text.
func decimal(text, path string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n, nil
	}
	if !strings.ContainsAny(text, ".eE") {
		return nil, Invalid(path, fmt.Sprintf("%.64q", text), "must be a number of 64 bits, or with a point to be a float")
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, Invalid(path, fmt.Sprintf("%.64q", text), "must be a number that fits a float64")
	}
	return f, nil
}

func (c *copier) list(v reflect.Value, path string, levels int) (any, error) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		return nil, nil
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		if err := c.spend(v.Len(), path); err != nil {
			return nil, err
		}
		data := make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(data), v)
		return data, nil
	}
	out := make([]any, v.Len())
	for i := range out {
		e, err := c.copy(v.Index(i), path+"["+strconv.Itoa(i)+"]", levels-1)
		if err != nil {
			return nil, err
		}
		out[i] = e
	}
	return out, nil
}

func (c *copier) mapping(v reflect.Value, path string, levels int) (any, error) {
	if v.Type().Key().Kind() != reflect.String {
		return nil, Invalid(path, "with keys of type "+v.Type().Key().String(), "must have keys of text: TaskFlow deletes postings with others")
	}
	if v.IsNil() {
		return nil, nil
	}
	out := make(map[string]any, v.Len())
	for it := v.MapRange(); it.Next(); {
		k := it.Key().String()
		if !utf8.ValidString(k) {
			return nil, Invalid(path, fmt.Sprintf("with the key %.64q", k), "must have keys of UTF-8")
		}
		if err := c.spend(len(k), path); err != nil {
			return nil, err
		}
		e, err := c.copy(it.Value(), path+"."+k, levels-1)
		if err != nil {
			return nil, err
		}
		out[k] = e
	}
	return out, nil
}

// Falsy says that Python takes v for false.
func Falsy(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case int64:
		return v == 0
	case float64:
		return v == 0
	case string:
		return v == ""
	case []byte:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
