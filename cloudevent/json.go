package cloudevent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// MarshalJSON writes the structured form: one flat object, the body first, then Attributes. The body is the member
// data when it is JSON by its content type (or has none) and by itself, else data_base64. Delivery is left out.
// It never fails. Through json.Marshal the text of data comes out with <, > and & escaped, as the same JSON value.
func (e Event) MarshalJSON() ([]byte, error) {
	out := e.appendBody(append(make([]byte, 0, len(e.Data)+usualAttributes), '{'))
	for a := range e.Attributes() {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(appendText(out, a.Name), ':')
		if a.Name == "expiryinterval" && e.ExpiryInterval > 0 {
			out = strconv.AppendInt(out, e.ExpiryInterval, 10)
		} else {
			out = appendText(out, a.Value)
		}
	}
	return append(out, '}'), nil
}

// usualAttributes are as many bytes as the attributes of most events take in the structured form.
const usualAttributes = 640

// appendText appends s as JSON. Most texts need no escape.
func appendText(out []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(s) // a string always encodes
			return append(out, text...)
		}
	}
	return append(append(append(out, '"'), s...), '"')
}

// appendBody appends the member data, or data_base64 when Data would not come back as it is. Without Data it appends nothing.
func (e *Event) appendBody(out []byte) []byte {
	if len(e.Data) == 0 {
		return out
	}
	if with, ok := e.appendJSON(append(out, `"data":`...)); ok {
		return with
	}
	out = append(out, `"data_base64":"`...)
	return append(base64.StdEncoding.AppendEncode(out, e.Data), '"')
}

// appendJSON appends Data as a JSON value without white space. ok is false when it would not come back as it is.
func (e *Event) appendJSON(out []byte) (with []byte, ok bool) {
	if e.DataContentType != "" && !IsJSON(e.DataContentType) || !utf8.Valid(e.Data) {
		return nil, false
	}
	compact := bytes.NewBuffer(out)
	if json.Compact(compact, e.Data) != nil {
		return nil, false
	}
	with = compact.Bytes()
	switch body := with[len(out):]; {
	case string(body) == "null":
		return nil, false
	case e.DataContentType == "" && !bytes.Equal(body, e.Data):
		return nil, false // nothing said that white space does not count
	}
	return with, true
}

// UnmarshalJSON reads the structured form. Attributes may be text, numbers or booleans; null is absent; an extension
// that is an array or object is kept as its JSON text. Of two members of one name the last counts. Data is the text of
// the member data without white space, or, when the content type is not JSON and data is a string, that string.
//
// The error is an *Error: PAYLOAD_INVALID when the text is no such object, else that of SetAttribute for the first bad
// attribute in the order of names; what could be read is then in e all the same, so that it can be answered.
func (e *Event) UnmarshalJSON(text []byte) error {
	if e.readPlain(text) {
		return nil
	}
	return e.read(text)
}

// readPlain reads what MarshalJSON writes of most events, which is read again for each status event: data first, without white space,
// and attributes that need no escape. It does as read does, or returns false.
func (e *Event) readPlain(text []byte) bool {
	*e = Event{}
	const dataFirst = `{"data":`
	rest, ok := bytes.CutPrefix(text, []byte(dataFirst))
	if !ok {
		return false
	}
	end := plainValue(rest)
	if end <= 0 || !json.Valid(rest[:end]) || isNull(rest[:end]) || rest[0] == '"' {
		return false
	}
	e.Data = bytes.Clone(rest[:end])
	attributes := string(rest[end:]) // all their texts share this copy
	for len(attributes) > 2 && attributes[0] == ',' {
		name, after, ok := plainText(attributes[1:])
		if !ok || len(after) < 2 || after[0] != ':' || name == "data" || name == "data_base64" {
			return false
		}
		var value string
		if after[1] == '"' {
			value, attributes, ok = plainText(after[1:])
		} else {
			value, attributes, ok = plainNumber(after[1:])
		}
		if !ok || e.setAttribute(name, value) != nil {
			return false
		}
	}
	return attributes == "}"
}

// plainValue is the length of the JSON value that data begins with, 0 if there is white space in it, or none is complete. It does not look whether it is valid.
func plainValue(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
		case ',':
			if depth == 0 {
				return i
			}
		case ' ', '\t', '\n', '\r':
			return 0
		}
	}
	return 0
}

// plainText takes a JSON string that needs no escape from the beginning of data.
func plainText(data string) (text, rest string, ok bool) {
	if len(data) == 0 || data[0] != '"' {
		return "", "", false
	}
	for i := 1; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			return data[1:i], data[i+1:], true
		case c < ' ' || c > '~' || c == '\\':
			return "", "", false
		}
	}
	return "", "", false
}

// plainNumber takes a number without sign, fraction and exponent from the beginning of data.
func plainNumber(data string) (number, rest string, ok bool) {
	n := 0
	for n < len(data) && data[n] >= '0' && data[n] <= '9' {
		n++
	}
	return data[:n], data[n:], n > 0 && (data[0] != '0' || n == 1)
}

// read is UnmarshalJSON for every form.
func (e *Event) read(text []byte) error {
	*e = Event{}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return Errorf(KindPayloadInvalid, "must be a CloudEvent in JSON: %v", err)
	}
	if members == nil {
		return Errorf(KindPayloadInvalid, "must be a CloudEvent in JSON, not null")
	}
	data, encoded := members["data"], members["data_base64"]
	delete(members, "data")
	delete(members, "data_base64")
	var first *Error
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value, err := attributeText(name, members[name])
		if err == nil && !isNull(members[name]) {
			err = e.setAttribute(name, value)
		}
		if err != nil && first == nil {
			first = err
		}
	}
	if err := e.setBody(data, encoded); err != nil && first == nil {
		first = err
	}
	if first != nil {
		return first
	}
	return nil
}

// attributeText is the text form of an attribute's JSON value.
func attributeText(name string, raw json.RawMessage) (string, *Error) {
	switch raw[0] {
	case '"':
		var text string
		_ = json.Unmarshal(raw, &text) // the object around it was read
		return text, nil
	case '[', '{':
		if reserved(name) {
			return "", invalid(KindUserPropertyInvalid, name, string(raw), "must be text")
		}
		var compact bytes.Buffer
		_ = json.Compact(&compact, raw)
		return compact.String(), nil
	}
	return string(raw), nil
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func (e *Event) setBody(data, encoded json.RawMessage) *Error {
	switch {
	case isNull(data) && isNull(encoded):
		return nil
	case !isNull(data) && !isNull(encoded):
		return Errorf(KindPayloadInvalid, "must not have both data and data_base64")
	case !isNull(encoded):
		var body []byte
		if encoded[0] != '"' || json.Unmarshal(encoded, &body) != nil {
			return Errorf(KindPayloadInvalid, "data_base64 must be text in Base64")
		}
		e.Data = orNil(body)
		return nil
	case data[0] == '"' && e.DataContentType != "" && !IsJSON(e.DataContentType):
		var body string
		_ = json.Unmarshal(data, &body)
		e.Data = orNil([]byte(body))
		return nil
	}
	var compact bytes.Buffer
	_ = json.Compact(&compact, data)
	e.Data = compact.Bytes()
	return nil
}

func orNil(body []byte) []byte {
	if len(body) == 0 {
		return nil
	}
	return body
}
