package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// FromJSON returns JSON as msgpack: what ToJSON wrote, or a person. Numbers without point and exponent are integers of at most 64
// bits, others are floats; nothing is rounded to fit. Members keep their order. The error, a *ValueError, says what
// is no JSON, is there twice, is too large, or nests deeper than MaxValueDepth.
func FromJSON(text []byte) (raw []byte, err error) {
	if !utf8.Valid(text) {
		return nil, unfit("", "the JSON is not UTF-8")
	}
	if !json.Valid(text) {
		return nil, unfit("", "is not JSON: %v", json.Unmarshal(text, new(any)))
	}
	p := jsonParser{json.NewDecoder(bytes.NewReader(text))}
	p.UseNumber()
	// A `$map` is three levels in JSON, and an `$ext` at the bottom as many.
	if raw, err = p.value(nil, 3*MaxValueDepth+3); err != nil {
		return nil, err
	}
	if err := Check(raw, MaxValueDepth); err != nil {
		return nil, unfit("", "is nested deeper than %d", MaxValueDepth)
	}
	return raw, nil
}

// jsonParser goes over text that is known to be JSON.
type jsonParser struct{ *json.Decoder }

func (p jsonParser) value(out []byte, levels int) ([]byte, error) {
	token, err := p.Token()
	if err != nil {
		return nil, unfit("", "is not JSON: %v", err)
	}
	switch v := token.(type) {
	case bool:
		return appendBool(out, v), nil
	case json.Number:
		return fromNumber(out, v.String())
	case string:
		return appendText(out, v), nil
	case json.Delim:
		if levels < 1 {
			return nil, unfit("", "is nested deeper than %d", MaxValueDepth)
		}
		if v == '[' {
			return p.array(out, levels)
		}
		return p.object(out, levels)
	}
	return append(out, nilByte), nil
}

func fromNumber(out []byte, s string) ([]byte, error) {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, unfit("", "%.40s does not fit a float64", s)
		}
		return appendFloat(out, f), nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return appendInt(out, n), nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return nil, unfit("", "%.40s does not fit 64 bits; write it with a point to have a float", s)
	}
	return appendUint(out, n), nil
}

func (p jsonParser) array(out []byte, levels int) (_ []byte, err error) {
	var elements []byte
	n := 0
	for ; p.More(); n++ {
		if elements, err = p.value(elements, levels-1); err != nil {
			return nil, within(index(n), err)
		}
	}
	_, _ = p.Token() // ]
	return append(appendArrayLen(out, n), elements...), nil
}

func (p jsonParser) object(out []byte, levels int) ([]byte, error) {
	var members, value []byte
	var key string
	seen := make(map[string]bool)
	for p.More() {
		token, err := p.Token()
		if err != nil {
			return nil, unfit("", "is not JSON: %v", err)
		}
		key, _ = token.(string)
		if seen[key] {
			return nil, unfit(quoted(key), "is there twice")
		}
		seen[key] = true
		if value, err = p.value(value[:0], levels-1); err != nil {
			return nil, within(quoted(key), err)
		}
		members = append(appendText(members, key), value...)
	}
	_, _ = p.Token() // }
	if len(seen) == 1 && reserved(key) {
		out, err := special(out, key, value)
		if err != nil {
			return nil, within(quoted(key), err)
		}
		return out, nil
	}
	return append(appendMapLen(out, len(seen)), members...), nil
}

// special appends what an object with one of our members stands for; value is that member, already msgpack.
func special(out []byte, key string, value []byte) ([]byte, error) {
	r := reader{in: value}
	switch key {
	case jsonMap:
		return pairsFrom(out, &r)
	case jsonExt:
		return extensionFrom(out, &r)
	}
	s, err := r.text()
	if err != nil {
		return nil, unfit("", "must be text")
	}
	switch key {
	case jsonBin:
		b, err := base64.StdEncoding.Strict().DecodeString(s)
		if err != nil {
			return nil, unfit("", "is not base64: %v", err)
		}
		return appendBin(out, b), nil
	case jsonTime:
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return nil, unfit("", "is no time like 2026-01-02T03:04:05Z: %v", err)
		}
		return appendTime(out, t), nil
	}
	return floatFrom(out, s)
}

func floatFrom(out []byte, s string) ([]byte, error) {
	switch s {
	case "NaN":
		return appendFloat(out, math.NaN()), nil
	case "Infinity":
		return appendFloat(out, math.Inf(1)), nil
	case "-Infinity":
		return appendFloat(out, math.Inf(-1)), nil
	}
	return nil, unfit("", "must be NaN, Infinity or -Infinity")
}

func extensionFrom(out []byte, r *reader) ([]byte, error) {
	code, body, err := readExtension(r)
	if err != nil || code < math.MinInt8 || code > math.MaxInt8 {
		return nil, unfit("", `must be [type, {"$bin": base64}] with a type from -128 to 127`)
	}
	from := len(out)
	out = appendExt(out, int8(code), body)
	if err := Check(out[from:], 0); err != nil {
		return nil, unfit("", "is no timestamp")
	}
	return out, nil
}

func readExtension(r *reader) (code int64, body []byte, err error) {
	if t, err := r.want(kindArray); err != nil || t.n() != 2 {
		return 0, nil, r.fail(0, "is no pair")
	}
	if code, err = r.int(); err != nil {
		return 0, nil, err
	}
	b, err := r.want(kindBin)
	return code, b.body, err
}

func pairsFrom(out []byte, r *reader) ([]byte, error) {
	const want = "must be [[key, value], ...] with keys of text or bytes"
	t, err := r.want(kindArray)
	if err != nil {
		return nil, unfit("", want)
	}
	out = appendMapLen(out, t.n())
	for range t.n() {
		if pair, err := r.want(kindArray); err != nil || pair.n() != 2 {
			return nil, unfit("", want)
		}
		from := r.at
		if _, err := r.key(); err != nil {
			return nil, unfit("", want)
		}
		if err := r.skip(3 * MaxValueDepth); err != nil {
			return nil, unfit("", want)
		}
		out = append(out, r.in[from:r.at]...)
	}
	return out, nil
}
