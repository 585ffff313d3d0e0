package isa95

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/taktworks/takt/internal/jsonscan"
)

// Unmarshal reads a JSON body into the struct v points to, as leniently as MicroDCS does but
// within limits and without losing anything silently:
//
//   - a member may have its wire name (JobOrderID) or its snake_case name (job_order_id); the wire name wins;
//     otherwise case matters; of two of the same name the last wins;
//   - unknown members are ignored, `_dataschema` and the like too, at any depth (Receive refuses them);
//   - null is the same as absent; raw values (Value, data) are kept byte for byte, with the nulls inside them;
//   - text takes numbers (with their digits) and booleans; integers take integral numbers (7.0, 1e3), decimal text and
//     booleans, never 7.9; booleans take numbers (0 is false) and text ("" is false);
//   - an empty body is the empty object.
//
// A body has at most 1 MiB, 64 levels and 10,000 elements per array, inside raw values too; documents and lists of them
// may be larger (limits.go). The error is a *DecodeError; v is then half filled and of no use. Structs of other packages
// are read by the same rules, embedded structs included; what those rules do not cover (maps, own UnmarshalJSON) is left
// to encoding/json. Unmarshal never panics on input (only for a Go struct of more than 64 members), keeps nothing of
// data, and may be called from any goroutine.
func Unmarshal(data []byte, v any) error {
	var d decoder
	return d.read(data, v)
}

// read is Unmarshal with what d says.
func (d *decoder) read(data []byte, v any) error {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("isa95: Unmarshal needs a pointer, not %T", v)
	}
	target = target.Elem()
	target.SetZero()
	p := planOf(target.Type())
	d.Scanner = jsonscan.Scanner{Data: data, MaxDepth: p.limits.depth, MaxElements: p.limits.elements, Once: d.strict}
	if len(data) > p.limits.size {
		return &DecodeError{Rule: fmt.Sprintf("must not be larger than %d bytes", p.limits.size), Err: ErrLimit}
	}
	if len(data) == 0 && p.kind == kindStruct {
		d.Data = []byte("{}")
	}
	if c := d.Space(); p.kind == kindStruct && c != '{' {
		return decodeError(d.wrongType("must be an object")) // null included
	}
	if err := d.value(p, target, false); err != nil {
		wrong := decodeError(err)
		wrong.Line = d.line()
		return wrong
	}
	if err := d.End(); err != nil {
		return decodeError(err)
	}
	return nil
}

// line is the line of pos, from 1.
func (d *decoder) line() int { return 1 + bytes.Count(d.Data[:min(d.Pos, len(d.Data))], []byte{'\n'}) }

// decoder is how a body is read. The zero value reads as Unmarshal does.
type decoder struct {
	jsonscan.Scanner
	strict  bool                 // no member may be there twice
	keep    bool                 // what is not known goes into the struct's Other
	unknown *UnknownMembersError // what is not known is collected here; nil = it is not refused
	path    []string             // to the object at pos, when unknown is not nil
}

// text consumes a string and returns its text, valid until the data is.
func (d *decoder) text() ([]byte, error) {
	span, err := d.String()
	if err != nil {
		return nil, err
	}
	return d.Text(span)
}

// wrongType consumes the value at pos and says that it is not what it must be.
func (d *decoder) wrongType(rule string) error {
	d.Space()
	start := d.Pos
	if err := d.Skip(); err != nil {
		return err
	}
	return &DecodeError{Value: printable(shorten(string(d.Data[start:d.Pos]))), Rule: rule, Err: ErrType}
}

// value consumes the value at pos and puts it into v, which is zero.
func (d *decoder) value(p *plan, v reflect.Value, container bool) error {
	c := d.Space()
	if c == 'n' {
		return d.Word("null")
	}
	switch p.kind {
	case kindString:
		return d.intoString(c, v)
	case kindInt, kindUint:
		return d.intoInt(c, v)
	case kindBool:
		return d.intoBool(c, v)
	case kindRaw:
		if container && c != '{' && c != '[' {
			return d.wrongType("must be an object or an array")
		}
		start := d.Pos
		d.Once = d.strict && !container // what a container holds has rules of its own
		err := d.Skip()
		d.Once = d.strict
		if err != nil {
			return err
		}
		v.SetBytes(bytes.Clone(d.Data[start:d.Pos]))
		return nil
	case kindPointer:
		v.Set(reflect.New(p.element.goType))
		return d.value(p.element, v.Elem(), container)
	case kindSlice:
		return d.intoSlice(p, c, v)
	case kindStruct:
		return d.intoStruct(p, c, v)
	}
	return d.intoOther(v)
}

func (d *decoder) intoStruct(p *plan, c byte, v reflect.Value) error {
	if c != '{' {
		return d.wrongType("must be an object")
	}
	var byAlias, present, spelled uint64
	var seen jsonscan.Names
	err := d.Object(func(span jsonscan.Span) error {
		name, err := d.Text(span)
		if err != nil {
			return err
		}
		known, ok := p.names[string(name)]
		if !ok {
			if d.strict && seen.Twice(string(name)) {
				return jsonscan.Twice(string(name))
			}
			return d.other(p, name, v)
		}
		bit := uint64(1) << known.field
		if d.strict && spelled&bit != 0 {
			if known.snake == (byAlias&bit == 0) {
				return jsonscan.Twice(string(name))
			}
			return twiceSpelled(string(name), p.fields[known.field].alias)
		}
		spelled |= bit
		if known.snake && byAlias&bit != 0 {
			if err := d.Skip(); err != nil {
				return under(err, string(name))
			}
			return nil
		}
		if !known.snake {
			byAlias |= bit
		}
		f := &p.fields[known.field]
		member := v.FieldByIndex(f.index)
		if present&bit != 0 {
			member.SetZero()
			present &^= bit
		}
		if d.Space() != 'n' {
			present |= bit
		}
		if d.unknown != nil {
			d.path = append(d.path, string(name))
			defer func() { d.path = d.path[:len(d.path)-1] }()
		}
		if err := d.value(f.plan, member, f.container); err != nil {
			return under(err, string(name))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if missing := p.needed &^ present; missing != 0 {
		for i := range p.fields {
			if missing&(1<<i) != 0 {
				err := &DecodeError{Rule: "is required", Err: ErrMissing}
				return under(err, p.fields[i].alias)
			}
		}
	}
	return nil
}

func (d *decoder) intoSlice(p *plan, c byte, v reflect.Value) error {
	if c != '[' {
		return d.wrongType("must be an array")
	}
	err := d.Array(func(i int) error {
		if i == v.Cap() {
			v.Grow(1)
		}
		v.SetLen(i + 1)
		if d.unknown != nil {
			d.path = append(d.path, strconv.Itoa(i))
			defer func() { d.path = d.path[:len(d.path)-1] }()
		}
		if err := d.value(p.element, v.Index(i), false); err != nil {
			return under(err, strconv.Itoa(i))
		}
		return nil
	})
	if v.IsNil() { // [] is not the same as absent
		v.Set(reflect.MakeSlice(p.goType, 0, 0))
	}
	return err
}

func (d *decoder) intoString(c byte, v reflect.Value) error {
	switch {
	case c == '"':
		text, err := d.text()
		v.SetString(string(text))
		return err
	case c == 't' || c == 'f':
		start := d.Pos
		err := d.Skip()
		v.SetString(string(d.Data[start:d.Pos]))
		return err
	case isNumber(c):
		text, err := d.Number()
		v.SetString(string(text))
		return err
	}
	return d.wrongType("must be a string")
}

func isNumber(c byte) bool { return c == '-' || c >= '0' && c <= '9' }

func (d *decoder) intoInt(c byte, v reflect.Value) error {
	start, bits := d.Pos, v.Type().Bits()
	number, isInteger, err := d.integer(c)
	if err != nil {
		return err
	}
	rule := "must be an integer"
	switch {
	case !isInteger:
	case v.CanInt():
		n, err := strconv.ParseInt(number, 10, bits)
		if err == nil {
			v.SetInt(n)
			return nil
		}
		rule = fmt.Sprintf("must be an integer of %d bits", bits)
	default:
		n, err := strconv.ParseUint(number, 10, bits)
		if err == nil {
			v.SetUint(n)
			return nil
		}
		rule = fmt.Sprintf("must be an integer of %d bits without sign", bits)
	}
	d.Pos = start
	return d.wrongType(rule)
}

// integer consumes a scalar and returns the integer it stands for, in decimal digits with a sign for negative ones.
func (d *decoder) integer(c byte) (digits string, ok bool, err error) {
	switch {
	case c == 't':
		return "1", true, d.Word("true")
	case c == 'f':
		return "0", true, d.Word("false")
	case c == '"':
		text, err := d.text()
		if err != nil {
			return "", false, err
		}
		digits, ok = decimalText(string(text))
		return digits, ok, nil
	case isNumber(c):
		text, err := d.Number()
		if err != nil {
			return "", false, err
		}
		digits, ok = integral(string(text))
		return digits, ok, nil
	}
	return "", false, nil
}

// decimalText is text that stands for an integer: digits with or without a sign, white space around them.
func decimalText(text string) (digits string, ok bool) {
	text = strings.TrimPrefix(strings.TrimSpace(text), "+")
	unsigned := strings.TrimPrefix(text, "-")
	if unsigned == "" || strings.Trim(unsigned, "0123456789") != "" {
		return "", false
	}
	return integral(text)
}

// integral writes a JSON number without fraction and exponent. ok is false when it is not an integer. Numbers beyond
// 64 bits come back in some form that no parser takes.
func integral(number string) (digits string, ok bool) {
	if len(number) < 19 && !strings.ContainsAny(number, ".eE") {
		return number, true
	}
	number, negative := strings.CutPrefix(number, "-")
	exponent := 0
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		n, _ := strconv.Atoi(number[i+1:])    // out of range: the nearest int
		exponent = max(-1<<30, min(n, 1<<30)) // no mantissa is that long
		number = number[:i]
	}
	whole, fraction, _ := strings.Cut(number, ".")
	mantissa := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	for strings.HasSuffix(mantissa, "0") {
		mantissa = mantissa[:len(mantissa)-1]
		exponent++
	}
	switch {
	case mantissa == "":
		return "0", true
	case exponent < 0:
		return "", false
	case len(mantissa)+exponent > 20:
		return "out of range", true
	}
	digits = mantissa + strings.Repeat("0", exponent)
	if negative {
		digits = "-" + digits
	}
	return digits, true
}

func (d *decoder) intoBool(c byte, v reflect.Value) error {
	switch {
	case c == 't':
		v.SetBool(true)
		return d.Word("true")
	case c == 'f':
		return d.Word("false")
	case c == '"':
		text, err := d.text()
		v.SetBool(len(text) > 0)
		return err
	case isNumber(c):
		text, err := d.Number()
		mantissa, _, _ := strings.Cut(strings.ToLower(string(text)), "e")
		v.SetBool(strings.Trim(mantissa, "-0.") != "")
		return err
	}
	return d.wrongType("must be true or false")
}

func (d *decoder) intoOther(v reflect.Value) error {
	start := d.Pos
	if err := d.Skip(); err != nil {
		return err
	}
	raw := d.Data[start:d.Pos]
	if err := json.Unmarshal(raw, v.Addr().Interface()); err != nil {
		return &DecodeError{Value: printable(shorten(string(raw))), Rule: "is refused: " + printable(err.Error()), Err: ErrType}
	}
	return nil
}
