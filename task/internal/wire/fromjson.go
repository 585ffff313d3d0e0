package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/taktworks/takt/internal/msgpack"
	"github.com/taktworks/takt/internal/rfc3339"
)

// FromJSON returns JSON as msgpack: what ToJSON wrote, or a person. Numbers without point and exponent are integers of at most 64
// bits, others are floats; nothing is rounded to fit. Members keep their order. The error, a *ValueError, says what
// is no JSON, is there twice, is too large, or nests deeper than MaxValueDepth.
func FromJSON(text []byte) (raw []byte, err error) {
	if !utf8.Valid(text) {
		return nil, msgpack.Unfit("", "the JSON is not UTF-8")
	}
	if !json.Valid(text) {
		return nil, msgpack.Unfit("", "is not JSON: %v", json.Unmarshal(text, new(any)))
	}
	p := jsonParser{json.NewDecoder(bytes.NewReader(text))}
	p.UseNumber()
	// A `$map` is three levels in JSON, and an `$ext` at the bottom as many.
	if raw, err = p.value(nil, 3*MaxValueDepth+3); err != nil {
		return nil, err
	}
	if err := Check(raw, MaxValueDepth); err != nil {
		return nil, msgpack.Unfit("", "is nested deeper than %d", MaxValueDepth)
	}
	return raw, nil
}

// jsonParser goes over text that is known to be JSON.
type jsonParser struct{ *json.Decoder }

func (p jsonParser) value(out []byte, levels int) ([]byte, error) {
	token, err := p.Token()
	if err != nil {
		return nil, msgpack.Unfit("", "is not JSON: %v", err)
	}
	switch v := token.(type) {
	case bool:
		return msgpack.AppendBool(out, v), nil
	case json.Number:
		return fromNumber(out, v.String())
	case string:
		return msgpack.AppendString(out, v), nil
	case json.Delim:
		if levels < 1 {
			return nil, msgpack.Unfit("", "is nested deeper than %d", MaxValueDepth)
		}
		if v == '[' {
			return p.array(out, levels)
		}
		return p.object(out, levels)
	}
	return msgpack.AppendNil(out), nil
}

func fromNumber(out []byte, s string) ([]byte, error) {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, msgpack.Unfit("", "%.40s does not fit a float64", s)
		}
		return msgpack.AppendFloat64(out, f), nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return msgpack.AppendInt(out, n), nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return nil, msgpack.Unfit("", "%.40s does not fit 64 bits; write it with a point to have a float", s)
	}
	return msgpack.AppendUint(out, n), nil
}

func (p jsonParser) array(out []byte, levels int) (_ []byte, err error) {
	var elements []byte
	n := 0
	for ; p.More(); n++ {
		if elements, err = p.value(elements, levels-1); err != nil {
			return nil, msgpack.Within(index(n), err)
		}
	}
	_, _ = p.Token() // ]
	return append(msgpack.AppendArrayLen(out, n), elements...), nil
}

func (p jsonParser) object(out []byte, levels int) ([]byte, error) {
	var members, value []byte
	var key string
	seen := make(map[string]bool)
	for p.More() {
		token, err := p.Token()
		if err != nil {
			return nil, msgpack.Unfit("", "is not JSON: %v", err)
		}
		key, _ = token.(string)
		if seen[key] {
			return nil, msgpack.Unfit(quoted(key), "is there twice")
		}
		seen[key] = true
		if value, err = p.value(value[:0], levels-1); err != nil {
			return nil, msgpack.Within(quoted(key), err)
		}
		members = append(msgpack.AppendString(members, key), value...)
	}
	_, _ = p.Token() // }
	if len(seen) == 1 && reserved(key) {
		out, err := special(out, key, value)
		if err != nil {
			return nil, msgpack.Within(quoted(key), err)
		}
		return out, nil
	}
	return append(msgpack.AppendMapLen(out, len(seen)), members...), nil
}

// special appends what an object with one of our members stands for; value is that member, already msgpack.
func special(out []byte, key string, value []byte) ([]byte, error) {
	r := newReader(value)
	switch key {
	case jsonMap:
		return pairsFrom(out, &r)
	case jsonExt:
		return extensionFrom(out, &r)
	}
	s, err := r.Text()
	if err != nil {
		return nil, msgpack.Unfit("", "must be text")
	}
	switch key {
	case jsonBin:
		b, err := base64.StdEncoding.Strict().DecodeString(s)
		if err != nil {
			return nil, msgpack.Unfit("", "is not base64: %v", err)
		}
		return msgpack.AppendBytes(out, b), nil
	case jsonTime:
		t, err := rfc3339.Parse(s)
		if err != nil {
			return nil, msgpack.Unfit("", "%v", err)
		}
		return msgpack.AppendTimestamp(out, t), nil
	}
	return floatFrom(out, s)
}

func floatFrom(out []byte, s string) ([]byte, error) {
	switch s {
	case "NaN":
		return msgpack.AppendFloat64(out, math.NaN()), nil
	case "Infinity":
		return msgpack.AppendFloat64(out, math.Inf(1)), nil
	case "-Infinity":
		return msgpack.AppendFloat64(out, math.Inf(-1)), nil
	}
	return nil, msgpack.Unfit("", "must be NaN, Infinity or -Infinity")
}

func extensionFrom(out []byte, r *reader) ([]byte, error) {
	code, body, err := readExtension(r)
	if err != nil || code < math.MinInt8 || code > math.MaxInt8 {
		return nil, msgpack.Unfit("", `must be [type, {"$bin": base64}] with a type from -128 to 127`)
	}
	from := len(out)
	out = msgpack.AppendExt(out, int8(code), body)
	if err := Check(out[from:], 0); err != nil {
		return nil, msgpack.Unfit("", "is no timestamp")
	}
	return out, nil
}

func readExtension(r *reader) (code int64, body []byte, err error) {
	if t, err := r.Want(msgpack.KindArray); err != nil || t.N() != 2 {
		return 0, nil, r.Fail(0, "is no pair")
	}
	if code, err = r.Int(); err != nil {
		return 0, nil, err
	}
	b, err := r.Want(msgpack.KindBytes)
	return code, b.Body, err
}

func pairsFrom(out []byte, r *reader) ([]byte, error) {
	const want = "must be [[key, value], ...] with keys of text or bytes"
	t, err := r.Want(msgpack.KindArray)
	if err != nil {
		return nil, msgpack.Unfit("", want)
	}
	out = msgpack.AppendMapLen(out, t.N())
	for range t.N() {
		if pair, err := r.Want(msgpack.KindArray); err != nil || pair.N() != 2 {
			return nil, msgpack.Unfit("", want)
		}
		from := r.Offset()
		if _, err := r.Key(); err != nil {
			return nil, msgpack.Unfit("", want)
		}
		if err := r.Skip(3 * MaxValueDepth); err != nil {
			return nil, msgpack.Unfit("", want)
		}
		out = append(out, r.Since(from)...)
	}
	return out, nil
}
