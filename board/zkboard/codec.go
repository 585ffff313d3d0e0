package zkboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board/driver"
)

const (
	jobPrefix  = "job"
	lockSuffix = ".lock"

	// maxRecord is the size of the largest record that is read, in bytes.
	maxRecord = 64 << 20
	// maxDepth is how deeply values may be nested that are read, as on Redis. TaskFlow fails at about 1000.
	maxDepth = 500
)

// member is one of a JSON object. path names its value in errors.
type member struct {
	key   string
	value any
	path  string
}

// encodePosting writes a posting as json.dumps of Python does. Maps are in the order of their keys, which readers of TaskFlow do not mind.
func encodePosting(p *driver.Posting) ([]byte, error) {
	all := []member{{"uuid", p.UUID, ""}, {"name", p.Name, ""}, {"priority", p.Priority.String(), ""}, {"details", p.Details, "Details"}}
	if p.Book != nil {
		all = append(all, member{"book", map[string]any{"name": p.Book.Name, "uuid": p.Book.UUID}, ""})
	}
	return appendObject(nil, append(all, members(p.Extra, "Extra")...))
}

func encodeLock(owner string) []byte {
	raw, _ := appendObject(nil, []member{{"owner", owner, ""}}) // text is always JSON
	return raw
}

func encodeEntity(e driver.Entity) ([]byte, error) {
	return appendObject(nil, []member{{"kind", e.Kind, ""}, {"name", e.Name, ""}, {"metadata", e.Metadata, "Entity.Metadata"}})
}

// timeFormat is how jsonutils of OpenStack writes a datetime, which then is a text for all readers.
const timeFormat = "2006-01-02T15:04:05.000000"

// appendValue writes a value of the types that driver.Details makes. The error is an *InvalidError with the path of what JSON cannot say.
func appendValue(dst []byte, v any, path string) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case uint64:
		return strconv.AppendUint(dst, v, 10), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, driver.Invalid(path, fmt.Sprint(v), "must be a finite number: boards on ZooKeeper store JSON")
		}
		return appendFloat(dst, v), nil
	case string:
		return appendString(dst, v), nil
	case time.Time:
		return appendString(dst, v.UTC().Format(timeFormat)), nil
	case []any:
		return appendList(dst, v, path)
	case map[string]any:
		return appendObject(dst, members(v, path))
	}
	return nil, driver.Invalid(path, fmt.Sprintf("of type %T", v), "must be what JSON can say: boards on ZooKeeper store it. Text, in base64 for example, can hold bytes")
}

func appendList(dst []byte, v []any, path string) ([]byte, error) {
	dst = append(dst, '[')
	var err error
	for i, e := range v {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if dst, err = appendValue(dst, e, path+"["+strconv.Itoa(i)+"]"); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// members are those of a map, in the order of their keys.
func members(m map[string]any, path string) []member {
	all := make([]member, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		all = append(all, member{key, m[key], path + "." + key})
	}
	return all
}

func appendObject(dst []byte, all []member) ([]byte, error) {
	dst = append(dst, '{')
	var err error
	for i, m := range all {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(appendString(dst, m.key), ": "...)
		if dst, err = appendValue(dst, m.value, m.path); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// appendFloat writes the shortest text that reads back, as repr of Python does: with an exponent below 1e-4 and from 1e16 on, and never without a point or an exponent.
func appendFloat(dst []byte, f float64) []byte {
	const smallest, largest = 1e-4, 1e16
	if a := math.Abs(f); a != 0 && (a < smallest || a >= largest) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if bytes.IndexByte(dst[from:], '.') < 0 {
		dst = append(dst, ".0"...)
	}
	return dst
}

// appendString writes ASCII alone.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r >= ' ' && r <= '~':
			dst = append(dst, byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\b':
			dst = append(dst, `\b`...)
		case r == '\f':
			dst = append(dst, `\f`...)
		case r > math.MaxUint16:
			high, low := utf16.EncodeRune(r)
			dst = fmt.Appendf(dst, `\u%04x\u%04x`, high, low)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		}
	}
	return append(dst, '"')
}

// number reads the name of a node that is to be a posting.
func number(ref string) (int64, error) {
	digits, ok := strings.CutPrefix(ref, jobPrefix)
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || strings.HasPrefix(digits, "+") {
		return 0, fmt.Errorf("its name %.64q is not %s and a number", ref, jobPrefix)
	}
	return n, nil
}

// decodePosting reads a record as TaskFlow does.
func decodePosting(ref string, raw []byte, stat *zk.Stat) (*driver.Posting, error) {
	sequence, err := number(ref)
	if err != nil {
		return nil, err
	}
	fields, err := decodeObject(raw)
	if err != nil {
		return nil, err
	}
	p := &driver.Posting{Ref: ref, Sequence: sequence}
	if stat != nil {
		p.CreatedOn = milliseconds(stat.Ctime)
	}
	for _, key := range []string{"uuid", "name"} {
		if _, ok := fields[key]; !ok {
			return nil, fmt.Errorf("%s: is missing", key)
		}
	}
	for key, v := range fields {
		if err := p.Set(key, v); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return p, nil
}

func milliseconds(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// decodeObject reads one JSON object in the types of driver.Details.
func decodeObject(raw []byte) (map[string]any, error) {
	if len(raw) > maxRecord {
		return nil, fmt.Errorf("%d bytes, want at most %d", len(raw), maxRecord)
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("not UTF-8")
	}
	v, err := decodeJSON(raw)
	if err != nil {
		v, err = decodeJSON(standard(raw))
	}
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a %T, want an object", v)
	}
	_, err = plain(fields, maxDepth+1)
	return fields, err
}

func decodeJSON(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows the first value")
	}
	return v, nil
}

// nan stands for NaN: a number that nobody writes like this.
const nan = "-0e-00000"

// strange finds texts, and the words for numbers that Python writes and reads although JSON has them not.
var strange = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|NaN|Infinity`)

// standard replaces the strange numbers of Python, outside of texts, by numbers that are read as these.
func standard(raw []byte) []byte {
	return strange.ReplaceAllFunc(raw, func(found []byte) []byte {
		switch string(found) {
		case "NaN":
			return []byte(nan)
		case "Infinity":
			return []byte("1e999")
		}
		return found
	})
}

// plain replaces the numbers in v by those of driver.Details.
func plain(v any, levels int) (_ any, err error) {
	if levels < 0 {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	switch v := v.(type) {
	case json.Number:
		return decodeNumber(string(v))
	case map[string]any:
		for key := range v {
			if v[key], err = plain(v[key], levels-1); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = plain(v[i], levels-1); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func decodeNumber(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, nil
		}
		if u, err := strconv.ParseUint(text, 10, 64); err == nil {
			return u, nil
		}
	}
	if text == nan {
		return math.NaN(), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // what is too large is infinite, in Python, too
		return nil, fmt.Errorf("number %.64s: %w", text, err)
	}
	return f, nil
}

// decodeOwner reads a lock. owned is false for one without an owner, which TaskFlow takes for an unclaimed posting. What is no lock of TaskFlow at all is owned by nobody knows whom.
func decodeOwner(raw []byte) (owner string, owned bool) {
	fields, err := decodeObject(raw)
	if err != nil {
		return fmt.Sprintf("unknown: lock holds %.64q", raw), true
	}
	if v, ok := fields["owner"]; ok && !driver.Falsy(v) {
		return driver.Text(v), true
	}
	return "", false
}

func decodeEntity(raw []byte) (e driver.Entity, err error) {
	fields, err := decodeObject(raw)
	if err != nil {
		return e, err
	}
	e.Kind, e.Name = driver.Text(fields["kind"]), driver.Text(fields["name"])
	e.Metadata, _ = fields["metadata"].(map[string]any)
	return e, nil
}
