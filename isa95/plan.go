package isa95

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
)

// kind is how a Go type is read and written.
type kind uint8

const (
	kindOther kind = iota // maps, interfaces, types with JSON methods: left to encoding/json
	kindString
	kindInt
	kindUint
	kindBool
	kindRaw
	kindPointer
	kindSlice
	kindStruct
)

// plan is what reading and writing need to know of a Go type. Made once per type, never changed but for written.
type plan struct {
	kind    kind
	goType  reflect.Type
	limits  limits       // of a body that is this type
	written atomic.Int64 // bytes of the body that was written last
	element *plan        // of a pointer or slice
	fields  []field
	names   map[string]fieldName
	needed  uint64 // required fields, bit i = fields[i]
	other   []int  // index of the field for members that are not known, nil = there is none
}

type field struct {
	index         []int // as reflect.Value.FieldByIndex takes it; more than one for embedded structs
	plan          *plan
	alias         string // the name on the wire
	key, snakeKey []byte // `"JobOrderID":`, `"job_order_id":`
	omitZero      bool   // left out when zero
	omitEmpty     bool   // left out when zero or without elements
	container     bool   // raw: an object or an array
}

// fieldName is what a member name stands for. The alias beats the snake_case name when both are there.
type fieldName struct {
	field int
	snake bool
}

var (
	plans           sync.Map // reflect.Type -> *plan
	rawType         = reflect.TypeFor[json.RawMessage]()
	textType        = reflect.TypeFor[LocalizedText]()
	otherType       = reflect.TypeFor[[]Member]()
	entryType       = reflect.TypeFor[StateIndexEntry]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	marshalerType   = reflect.TypeFor[json.Marshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
)

func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p, _ := plans.LoadOrStore(t, makePlan(t, make(map[reflect.Type]*plan)))
	return p.(*plan)
}

// makePlan makes the plan of t; made holds those of the types around it, for types contain themselves (Subparameters).
func makePlan(t reflect.Type, made map[reflect.Type]*plan) *plan {
	if p, ok := made[t]; ok {
		return p
	}
	p := &plan{goType: t, limits: limitsOf(t)}
	made[t] = p
	pointer := reflect.PointerTo(t)
	switch {
	case t == rawType:
		p.kind = kindRaw
		return p
	case t.Kind() != reflect.Pointer && (pointer.Implements(unmarshalerType) || pointer.Implements(textUnmarshaler) ||
		pointer.Implements(marshalerType) || pointer.Implements(textMarshaler)):
		return p
	}
	switch t.Kind() {
	case reflect.String:
		p.kind = kindString
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.kind = kindInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.kind = kindUint
	case reflect.Bool:
		p.kind = kindBool
	case reflect.Pointer:
		p.kind = kindPointer
		p.element = makePlan(t.Elem(), made)
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // bytes are Base64 in JSON: kindOther
			p.kind = kindSlice
			p.element = makePlan(t.Elem(), made)
		}
	case reflect.Struct:
		p.kind = kindStruct
		p.names = make(map[string]fieldName)
		p.addFields(t, nil, made)
	}
	return p
}

// addFields adds the fields of t, those of embedded structs in their place. An outer field hides an inner one.
func (p *plan) addFields(t reflect.Type, outer []int, made map[reflect.Type]*plan) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(outer), i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct {
			p.addFields(f.Type, index, made)
			continue
		}
		if f.Type == otherType && (p.other == nil || len(p.other) > len(index)) {
			p.other = index
		}
		if tag == "-" || !f.IsExported() {
			continue
		}
		if tag == "" {
			tag = f.Name
		}
		added := field{
			index: index, plan: makePlan(f.Type, made), alias: tag,
			key: []byte(`"` + tag + `":`), snakeKey: []byte(`"` + snakeCase(tag) + `":`),
			omitZero:  strings.Contains(options, "omitzero"),
			omitEmpty: strings.Contains(options, "omitempty"),
			container: f.Tag.Get("rule") == "container",
		}
		at := len(p.fields)
		if known, ok := p.names[tag]; ok && !known.snake {
			if len(p.fields[known.field].index) <= len(index) {
				continue
			}
			at = known.field
			p.fields[at] = added
		} else {
			p.fields = append(p.fields, added)
		}
		if at >= 64 {
			panic(fmt.Sprintf("isa95: %v has more than 64 fields", p.goType))
		}
		if f.Tag.Get("rule") == "required" {
			p.needed |= 1 << at
		}
		p.names[tag] = fieldName{field: at}
		if snake := snakeCase(tag); snake != tag {
			p.names[snake] = fieldName{field: at, snake: true}
		}
	}
}

// snakeCase is the attribute name MicroDCS has for a member: JobOrderID becomes job_order_id.
func snakeCase(name string) string {
	var out strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 && runes[i-1] != '_' &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}
