package isa95

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/taktworks/takt/internal/jsonscan"
)

// Marshal writes v as compact JSON, members in declaration order, non-ASCII raw and nothing escaped that JSON does not
// want escaped. A member without a value (nil pointer, raw null) is left out, a nil slice too unless its tag keeps it;
// an empty slice is []. Raw values keep their digits and member order and lose white space. A StateIndex is written in
// the Page spelling; see StateIndex.Encode.
//
// It fails for raw values that are not JSON, and for what Unmarshal would refuse as too large (ErrLimit): what was
// written can be read again. Safe for concurrent use.
func Marshal(v any) ([]byte, error) { return marshal(v, Page) }

// Encode writes the index in the spelling given, "" = Page. It fails as Marshal does.
func (x StateIndex) Encode(spelling Spelling) ([]byte, error) { return marshal(x, spelling) }

func marshal(v any, spelling Spelling) ([]byte, error) {
	value := reflect.ValueOf(v)
	for value.Kind() == reflect.Pointer && !value.IsNil() {
		value = value.Elem()
	}
	if !value.IsValid() || value.Kind() == reflect.Pointer {
		return []byte("null"), nil
	}
	p := planOf(value.Type())
	e := encoder{out: make([]byte, 0, p.room()), limits: p.limits, page: spelling != Wire}
	if err := e.value(p, value); err != nil {
		return nil, fmt.Errorf("isa95: %T: %w", v, err)
	}
	if len(e.out) > e.limits.size {
		return nil, fmt.Errorf("isa95: %T: must not be larger than %d bytes: %w", v, e.limits.size, ErrLimit)
	}
	p.written.Store(int64(len(e.out)))
	if cap(e.out) > 2*len(e.out)+64 { // the last body was much longer: who keeps this one keeps no more than it has
		return bytes.Clone(e.out), nil
	}
	return e.out, nil
}

// room is how many bytes the next body of this type is likely to take: those of the last one and an eighth.
func (p *plan) room() int64 {
	last := p.written.Load()
	return min(max(last+last/8, 64), 64<<10)
}

type encoder struct {
	out    []byte
	depth  int
	limits limits
	page   bool // write the states of a StateIndex in the Page spelling
	snake  bool // inside such a state
}

func (e *encoder) value(p *plan, v reflect.Value) error {
	switch p.kind {
	case kindString:
		e.out = jsonscan.AppendString(e.out, v.String())
	case kindInt:
		e.out = strconv.AppendInt(e.out, v.Int(), 10)
	case kindUint:
		e.out = strconv.AppendUint(e.out, v.Uint(), 10)
	case kindBool:
		e.out = strconv.AppendBool(e.out, v.Bool())
	case kindRaw:
		return e.raw(v.Bytes())
	case kindPointer:
		if v.IsNil() {
			e.out = append(e.out, "null"...)
			return nil
		}
		return e.value(p.element, v.Elem())
	case kindSlice:
		return e.slice(p, v)
	case kindStruct:
		return e.object(p, v)
	default:
		text, err := jsonscan.Marshal(v.Interface())
		if err != nil {
			return err
		}
		return e.raw(text)
	}
	return nil
}

func (e *encoder) open(c byte) error {
	e.out = append(e.out, c)
	e.depth++
	if e.depth > e.limits.depth {
		return fmt.Errorf("must not nest deeper than %d: %w", e.limits.depth, ErrLimit)
	}
	return nil
}

func (e *encoder) close(c byte) {
	e.depth--
	e.out = append(e.out, c)
}

func (e *encoder) slice(p *plan, v reflect.Value) error {
	if v.Len() > e.limits.elements {
		return fmt.Errorf("must not have more than %d elements: %w", e.limits.elements, ErrLimit)
	}
	if err := e.open('['); err != nil {
		return err
	}
	for i := range v.Len() {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if err := e.value(p.element, v.Index(i)); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	e.close(']')
	return nil
}

func (e *encoder) object(p *plan, v reflect.Value) error {
	if p.goType == entryType && e.page {
		e.snake = true
		defer func() { e.snake = false }()
	}
	if err := e.open('{'); err != nil {
		return err
	}
	first := true
	for i := range p.fields {
		f := &p.fields[i]
		if e.snake && p.goType == textType {
			f = &p.fields[len(p.fields)-1-i] // the page has text before locale
		}
		member := v.FieldByIndex(f.index)
		if f.absent(member) {
			continue
		}
		if !first {
			e.out = append(e.out, ',')
		}
		first = false
		if e.snake {
			e.out = append(e.out, f.snakeKey...)
		} else {
			e.out = append(e.out, f.key...)
		}
		if err := e.value(f.plan, member); err != nil {
			return fmt.Errorf("%s: %w", f.alias, err)
		}
	}
	if p.other != nil {
		if others := v.FieldByIndex(p.other); others.Len() > 0 {
			if err := e.others(others.Interface().([]Member), first); err != nil {
				return err
			}
		}
	}
	e.close('}')
	return nil
}

// others writes the members that were kept without being known.
func (e *encoder) others(members []Member, first bool) error {
	for _, m := range members {
		if !first {
			e.out = append(e.out, ',')
		}
		first = false
		e.out = append(jsonscan.AppendString(e.out, m.Name), ':')
		if err := e.raw(m.Value); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

// absent reports whether the member is left out.
func (f *field) absent(v reflect.Value) bool {
	switch f.plan.kind {
	case kindRaw:
		raw := bytes.TrimSpace(v.Bytes())
		return len(raw) == 0 || string(raw) == "null"
	case kindPointer:
		return v.IsNil()
	case kindSlice:
		return f.omitEmpty && v.Len() == 0 || f.omitZero && v.IsNil()
	}
	return (f.omitZero || f.omitEmpty) && v.IsZero()
}

// raw appends JSON text as it is, without the white space between tokens.
func (e *encoder) raw(text []byte) error {
	s := jsonscan.Scanner{Data: text, Depth: e.depth, MaxDepth: e.limits.depth, MaxElements: e.limits.elements}
	if err := s.Skip(); err != nil {
		return decodeError(err)
	}
	end := s.Pos
	if err := s.End(); err != nil {
		return decodeError(err)
	}
	if !s.Spaced {
		e.out = append(e.out, text...)
		return nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text[:end]); err != nil {
		return err
	}
	e.out = append(e.out, compact.Bytes()...)
	return nil
}
