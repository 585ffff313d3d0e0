package redisboard

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/msgpack"
	"github.com/taktworks/takt/internal/msgpack/oslo"
)

// maxRecord is the size of the largest record that is read, in bytes. TaskFlow has no limit.
const maxRecord = 64 << 20

// appendHead appends the record of a posting, in the order of TaskFlow, up to the sequence number, which is the last value and which the server adds. The error is for an extension that TaskFlow cannot read.
func appendHead(dst []byte, p *driver.Posting) ([]byte, error) {
	n := 6
	if p.Book != nil {
		n++
	}
	dst = msgpack.AppendMapLen(dst, n+len(p.Extra))
	dst = appendText(dst, "uuid", p.UUID)
	dst = appendText(dst, "name", p.Name)
	dst = appendText(dst, "priority", p.Priority.String())
	dst = msgpack.AppendString(dst, "created_on")
	dst, err := oslo.AppendTime(dst, p.CreatedOn)
	if err != nil {
		return nil, err
	}
	dst = msgpack.AppendString(dst, "details")
	if dst, err = appendValue(dst, p.Details); err != nil {
		return nil, err
	}
	if p.Book != nil {
		dst = msgpack.AppendString(dst, "book")
		dst = msgpack.AppendMapLen(dst, 2)
		dst = appendText(dst, "name", p.Book.Name)
		dst = appendText(dst, "uuid", p.Book.UUID)
	}
	for _, key := range slices.Sorted(maps.Keys(p.Extra)) {
		dst = msgpack.AppendString(dst, key)
		if dst, err = appendValue(dst, p.Extra[key]); err != nil {
			return nil, err
		}
	}
	return msgpack.AppendString(dst, "sequence"), nil
}

func appendText(dst []byte, key, value string) []byte {
	return msgpack.AppendString(msgpack.AppendString(dst, key), value)
}

// appendValue appends a value of the types that driver.Details makes, maps in the order of their keys.
func appendValue(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case map[string]any:
		dst = msgpack.AppendMapLen(dst, len(v))
		var err error
		for _, key := range slices.Sorted(maps.Keys(v)) {
			dst = msgpack.AppendString(dst, key)
			if dst, err = appendValue(dst, v[key]); err != nil {
				return nil, err
			}
		}
		return dst, nil
	case []any:
		dst = msgpack.AppendArrayLen(dst, len(v))
		var err error
		for _, e := range v {
			if dst, err = appendValue(dst, e); err != nil {
				return nil, err
			}
		}
		return dst, nil
	case driver.Ext:
		from := len(dst)
		dst, err := oslo.Append(dst, oslo.Ext(v))
		if err == nil {
			err = oslo.Check(dst[from:])
		}
		if err != nil {
			return nil, driver.Invalid("Details", fmt.Sprintf("with an extension of type %d", v.Code), "must be what TaskFlow can read: "+err.Error())
		}
		return dst, nil
	}
	return oslo.Append(dst, v)
}

// appendTime appends a time as the records of last_modified have it.
func appendTime(dst []byte, t time.Time) []byte {
	dst, err := oslo.AppendTime(dst, t)
	if err != nil {
		panic(err) // of this clock's years
	}
	return dst
}

func decodeTime(raw []byte) (time.Time, error) {
	r := msgpack.NewReader(raw)
	e, err := r.Want(msgpack.KindExt)
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return time.Time{}, err
	}
	t, err := oslo.Time(oslo.Ext{Code: e.Code, Data: e.Body})
	return t.UTC(), err
}

// decodePosting reads a record as TaskFlow does. field is its name in the hash.
func decodePosting(field string, raw []byte) (*driver.Posting, error) {
	if len(raw) > maxRecord {
		return nil, fmt.Errorf("%d bytes, want at most %d", len(raw), maxRecord)
	}
	p := &driver.Posting{Ref: field, UUID: field}
	var has [len(required)]bool
	r := msgpack.NewReader(raw)
	n, err := r.Members(msgpack.KindMap)
	if err != nil {
		return nil, err
	}
	for range n {
		key, err := r.Key()
		if err != nil {
			return nil, err
		}
		if key.Kind == msgpack.KindBytes { // TaskFlow knows no key by bytes
			err = r.Skip(oslo.MaxDepth)
		} else {
			err = decodeField(p, &has, &r, key.Body)
		}
		if err != nil {
			return nil, fmt.Errorf("%.64s: %w", key.Body, err)
		}
	}
	if err := r.End(); err != nil {
		return nil, err
	}
	if i := slices.Index(has[:], false); i >= 0 {
		return p, fmt.Errorf("%s: is missing", required[i])
	}
	return p, nil
}

// required are the keys that TaskFlow cannot do without.
var required = [...]string{"uuid", "name", "created_on", "sequence"}

const (
	hasUUID = iota
	hasName
	hasCreated
	hasSequence
)

func decodeField(p *driver.Posting, has *[len(required)]bool, r *msgpack.Reader, name []byte) (err error) {
	key := ""
	switch string(name) { // of keys that are known no text is made
	case "created_on":
		has[hasCreated] = true
		return decodeCreated(p, r)
	case "sequence":
		has[hasSequence] = true
		p.Sequence, err = r.Int()
		return err
	case "uuid":
		has[hasUUID], key = true, "uuid"
	case "name":
		has[hasName], key = true, "name"
	case "priority":
		key = "priority"
	case "details":
		key = "details"
	case "book":
		key = "book"
	default:
		key = string(name)
	}
	v, err := decodeText(r)
	if err != nil {
		return err
	}
	return p.Set(key, v)
}

// decodeText reads a value, which mostly is a short text.
func decodeText(r *msgpack.Reader) (any, error) {
	if text, ok := r.ShortText(); ok {
		return string(text), nil
	}
	return decodeValue(r)
}

// decodeCreated takes anything: TaskFlow does, and can do without a time.
func decodeCreated(p *driver.Posting, r *msgpack.Reader) error {
	look := *r
	t, err := look.Next()
	if err != nil {
		return err
	}
	p.CreatedOn = time.Time{}
	if t.Kind == msgpack.KindExt {
		if created, err := oslo.Time(oslo.Ext{Code: t.Code, Data: t.Body}); err == nil {
			p.CreatedOn = created.UTC()
		}
	}
	return r.Skip(oslo.MaxDepth)
}

// decodeValue reads a value in the types of driver.Details. Keys that are bytes become text.
func decodeValue(r *msgpack.Reader) (any, error) {
	raw, err := r.Raw(oslo.MaxDepth)
	if err != nil {
		return nil, err
	}
	if len(raw) == 1 && raw[0] == emptyMap {
		return map[string]any(nil), nil
	}
	v, err := oslo.Decode(raw)
	if err != nil {
		return nil, err
	}
	return plain(v), nil
}

const emptyMap = 0x80

func plain(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
		return v
	case oslo.Map:
		m := make(map[string]any, len(v))
		for _, pair := range v {
			switch key := pair.Key.(type) {
			case string:
				m[key] = plain(pair.Value)
			case []byte:
				m[string(key)] = plain(pair.Value)
			}
		}
		return m
	case oslo.Ext:
		if t, err := oslo.Time(v); err == nil && v.Code == oslo.CodeDatetime {
			return t.UTC()
		}
		return driver.Ext(v)
	}
	return v
}
