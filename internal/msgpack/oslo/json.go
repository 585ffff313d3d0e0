package oslo

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/taktworks/takt/internal/msgpack"
)

// ToJSON returns what Decode gave as JSON for people and their tools. Members keep their order; of two with one key there is the last.
//
//	datetime, XML-RPC datetime  "2026-11-21T00:15:03.092269Z", or with the offset of its zone
//	date, UUID, IP address      "2026-11-21", "0b7da2c7-1235-4ade-86b0-1a569887709b", "10.0.0.1"
//	set, frozenset              an array
//	counter                     {"count": [start, step]}
//	bytes                       {"bytes": base64}; as a key b"..." with Go's escapes
//	any other extension         {"ext": code, "data": base64}, also one of those above that is broken
//	NaN and infinities          "NaN", "Infinity", "-Infinity"
//
// There is no way back: a text and a datetime look alike. The error, a *msgpack.ValueError, is for what Decode never gives.
func ToJSON(v any) (json.RawMessage, error) {
	return appendJSON(nil, v, MaxDepth)
}

func appendJSON(out []byte, v any, levels int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(out, "null"...), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case int64:
		return strconv.AppendInt(out, v, 10), nil
	case uint64:
		return strconv.AppendUint(out, v, 10), nil
	case float64:
		return jsonFloat(out, v), nil
	case string:
		return jsonText(out, v), nil
	case []byte:
		return append(jsonBase64(append(out, `{"bytes":`...), v), '}'), nil
	case []any:
		return jsonArray(out, v, levels)
	case Map:
		return jsonObject(out, v, levels)
	case Ext:
		return jsonExt(out, v, levels), nil
	}
	return nil, msgpack.Unfit("", "a %T is not what Decode gives", v)
}

func jsonFloat(out []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(out, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(out, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(out, `"-Infinity"`...)
	}
	return strconv.AppendFloat(out, f, 'g', -1, 64)
}

// jsonText quotes s and leaves <, > and & as they are: people are to read it.
func jsonText(out []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // neither a string nor a Buffer fails
	return append(out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

func jsonBase64(out, b []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(out, '"'), b), '"')
}

func jsonArray(out []byte, list []any, levels int) (_ []byte, err error) {
	if err := enter(levels); err != nil {
		return nil, err
	}
	out = append(out, '[')
	for i, v := range list {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = appendJSON(out, v, levels-1); err != nil {
			return nil, msgpack.Within(index(i), err)
		}
	}
	return append(out, ']'), nil
}

func jsonObject(out []byte, m Map, levels int) (_ []byte, err error) {
	if err := enter(levels); err != nil {
		return nil, err
	}
	last := make(map[string]int, len(m))
	for i, p := range m {
		last[jsonKey(p.Key)] = i
	}
	out = append(out, '{')
	for i, p := range m {
		key := jsonKey(p.Key)
		if last[key] != i {
			continue
		}
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		if out, err = appendJSON(append(jsonText(out, key), ':'), p.Value, levels-1); err != nil {
			return nil, msgpack.Within(key, err)
		}
	}
	return append(out, '}'), nil
}

func jsonKey(key any) string {
	if b, ok := key.([]byte); ok {
		return fmt.Sprintf("b%q", b)
	}
	return fmt.Sprint(key)
}

func jsonExt(out []byte, e Ext, levels int) []byte {
	if meant, ok := jsonMeant(out, e, levels); ok {
		return meant
	}
	out = strconv.AppendInt(append(out, `{"ext":`...), int64(e.Code), 10)
	return append(jsonBase64(append(out, `,"data":`...), e.Data), '}')
}

// jsonMeant appends what an extension of oslo means, if it means something.
func jsonMeant(out []byte, e Ext, levels int) (_ []byte, ok bool) {
	switch e.Code {
	case CodeDatetime, CodeXMLRPC:
		t, err := Time(e)
		return t.AppendFormat(out, `"2006-01-02T15:04:05.000000Z07:00"`), err == nil
	case CodeDate:
		t, err := Date(e)
		return t.AppendFormat(out, `"`+time.DateOnly+`"`), err == nil
	case CodeUUID:
		u, err := UUID(e)
		return jsonText(out, u.String()), err == nil
	case CodeIP:
		a, err := IP(e)
		return jsonText(out, a.String()), err == nil
	case CodeCount:
		start, step, err := Count(e)
		return fmt.Appendf(out, `{"count":[%d,%d]}`, start, step), err == nil
	case CodeSet, CodeFrozenset:
		members, err := Set(e)
		if err == nil {
			out, err = jsonArray(out, members, levels)
		}
		return out, err == nil
	}
	return nil, false
}
