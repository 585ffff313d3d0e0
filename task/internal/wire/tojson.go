package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/taktworks/takt/internal/msgpack"
)

// JSON has no bytes, instants and the like. They are objects with one of these members and no other; a map that happens to look like that is
// written as `$map`, too.
const (
	jsonBin   = "$bin"   // {"$bin": "base64"}
	jsonTime  = "$time"  // {"$time": "2026-01-02T03:04:05.678901Z"}
	jsonFloat = "$float" // {"$float": "NaN"}, "Infinity", "-Infinity"
	jsonExt   = "$ext"   // {"$ext": [type, {"$bin": "base64"}]}
	jsonMap   = "$map"   // {"$map": [[key, value], ...]}: keys of bytes, keys that are there twice
)

func reserved(key string) bool {
	switch key {
	case jsonBin, jsonTime, jsonFloat, jsonExt, jsonMap:
		return true
	}
	return false
}

// ToJSON returns one msgpack value as JSON for people, for instance arguments. FromJSON gives the same value back: integers have no point,
// floats always have one or an exponent, the order of members is kept, bytes are {"$bin": base64}, timestamps {"$time": RFC 3339},
// and what else JSON lacks is {"$float": ...}, {"$ext": ...} or {"$map": ...}. nil is null. The error is a *FormatError.
func ToJSON(raw []byte) (json.RawMessage, error) {
	if raw == nil {
		return json.RawMessage("null"), nil
	}
	r := newReader(raw)
	out, err := r.json(nil, MaxValueDepth)
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (r *reader) json(out []byte, levels int) ([]byte, error) {
	t, err := r.Next()
	if err != nil {
		return nil, err
	}
	switch t.Kind {
	case msgpack.KindBool:
		return strconv.AppendBool(out, t.Bool()), nil
	case msgpack.KindInt:
		return strconv.AppendInt(out, t.Int(), 10), nil
	case msgpack.KindUint:
		return strconv.AppendUint(out, t.Uint(), 10), nil
	case msgpack.KindFloat:
		return jsonNumber(out, t.Float()), nil
	case msgpack.KindString:
		return jsonText(out, t.Body), nil
	case msgpack.KindBytes:
		return jsonBytes(out, t.Body), nil
	case msgpack.KindExt:
		return jsonExtension(out, &t), nil
	case msgpack.KindArray:
		return r.jsonArray(out, &t, levels)
	case msgpack.KindMap:
		return r.jsonObject(out, &t, levels)
	}
	return append(out, "null"...), nil
}

func jsonNumber(out []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(out, `{"$float":"NaN"}`...)
	case math.IsInf(f, 1):
		return append(out, `{"$float":"Infinity"}`...)
	case math.IsInf(f, -1):
		return append(out, `{"$float":"-Infinity"}`...)
	}
	from := len(out)
	out = strconv.AppendFloat(out, f, 'g', -1, 64)
	if !bytes.ContainsAny(out[from:], ".e") {
		out = append(out, ".0"...)
	}
	return out
}

// jsonText quotes s, which is UTF-8, and leaves <, > and & as they are: people are to read it.
func jsonText(out, s []byte) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(string(s)) // neither a string nor a Buffer fails
	return append(out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

func jsonBytes(out, b []byte) []byte {
	out = append(out, `{"$bin":"`...)
	out = base64.StdEncoding.AppendEncode(out, b)
	return append(out, `"}`...)
}

func jsonExtension(out []byte, t *msgpack.Token) []byte {
	if t.IsTime() {
		if at := t.Time(); writable(at) {
			out = append(out, `{"$time":"`...)
			return append(at.AppendFormat(out, time.RFC3339Nano), `"}`...)
		}
	}
	out = strconv.AppendInt(append(out, `{"$ext":[`...), int64(t.Code), 10)
	return append(jsonBytes(append(out, ','), t.Body), "]}"...)
}

// writable says whether RFC 3339 has the year of t.
func writable(t time.Time) bool {
	const first, last = -62167219200, 253402300799 // years 0 to 9999
	return t.Unix() >= first && t.Unix() <= last
}

func (r *reader) jsonArray(out []byte, t *msgpack.Token, levels int) (_ []byte, err error) {
	if err := r.Enter(t, levels); err != nil {
		return nil, err
	}
	out = append(out, '[')
	for i := range t.N() {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = r.json(out, levels-1); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

func (r *reader) jsonObject(out []byte, t *msgpack.Token, levels int) ([]byte, error) {
	if err := r.Enter(t, levels); err != nil {
		return nil, err
	}
	plain, err := r.plainKeys(t.N(), levels)
	if err != nil {
		return nil, err
	}
	open, colon, end := `{`, `:`, `}`
	if !plain {
		open, colon, end = `{"$map":[`, `,`, `]}`
	}
	out = append(out, open...)
	for i := range t.N() {
		if i > 0 {
			out = append(out, ',')
		}
		if !plain {
			out = append(out, '[')
		}
		if out, err = r.json(out, 0); err != nil { // the key
			return nil, err
		}
		if out, err = r.json(append(out, colon...), levels-1); err != nil {
			return nil, err
		}
		if !plain {
			out = append(out, ']')
		}
	}
	return append(out, end...), nil
}

// plainKeys looks ahead over n members: whether their keys are text, each once, and could not be taken for one of ours.
func (r reader) plainKeys(n, levels int) (bool, error) {
	seen := make(map[string]bool)
	plain := true
	for range n {
		key, err := r.Key()
		if err != nil {
			return false, err
		}
		name := string(key.Body)
		plain = plain && key.Kind == msgpack.KindString && !seen[name] && (n > 1 || !reserved(name))
		seen[name] = true
		if err := r.Skip(levels - 1); err != nil {
			return false, err
		}
	}
	return plain, nil
}
