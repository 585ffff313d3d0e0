package isa95

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/taktworks/takt/internal/nearest"
)

// UnknownMembers says what becomes of a member that Takt does not know, where a body enters.
type UnknownMembers string

// The policies. "" is RefuseUnknown. The other two are for senders that cannot be changed.
const (
	RefuseUnknown UnknownMembers = "refuse" // the body is refused, with the known name that is nearest
	KeepUnknown   UnknownMembers = "keep"   // it is stored, and published with the order
	IgnoreUnknown UnknownMembers = "ignore" // it is dropped
)

// Member is a member of an object under a name that Takt does not know, as it was sent.
type Member struct {
	Name  string
	Value []byte
}

// UnknownMember is a member that is refused. Nearest is the known name that was probably meant, "" if none is near.
type UnknownMember struct {
	Pointer string // JSON pointer of the object that has the member, "" = the body
	Line    int    // of the body, from 1
	Name    string // printable and shortened
	Nearest string
}

// UnknownMembersError is a body with members that Takt does not know. A misspelt member would else be ignored, and the
// station would do something that was not ordered.
type UnknownMembersError struct {
	Members []UnknownMember // the first ten
	More    int             // how many there are besides
}

// Error names each member, where it stands and what was probably meant.
func (e *UnknownMembersError) Error() string {
	var texts []string
	for _, m := range e.Members {
		texts = append(texts, m.String())
	}
	if e.More > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(texts, "; ")
}

// String is the member with its place and the proposal, for people.
func (m UnknownMember) String() string {
	text := fmt.Sprintf("member %q", m.Name)
	if m.Pointer != "" {
		text += " of " + m.Pointer
	}
	text += " is not known"
	if m.Nearest != "" {
		text += ", did you mean " + m.Nearest + "?"
	}
	return text
}

// Receive reads a body that enters, as Unmarshal does, and more strictly: no member of an object may be there twice
// (ErrTwice), in two spellings neither, and not even inside a parameter's Value; and a member that v does not know is refused, kept or ignored, as
// unknown says. Free are names that begin with _ (metadata of stores, such as _dataschema; dropped) or with x- (of the
// sender; kept unless unknown is IgnoreUnknown). The error is a *DecodeError or an *UnknownMembersError.
func Receive(data []byte, v any, unknown UnknownMembers) error {
	d := decoder{strict: true, keep: unknown != IgnoreUnknown}
	if unknown == "" || unknown == RefuseUnknown {
		d.unknown = new(UnknownMembersError)
	}
	if err := d.read(data, v); err != nil {
		return err
	}
	if d.unknown != nil && len(d.unknown.Members) > 0 {
		return d.unknown
	}
	return nil
}

// UnmarshalStored reads a document of a store: as Unmarshal does, and what it does not know is kept, so that a document
// written by a newer version loses nothing when this one writes it back. Names that begin with _ are not kept: they are
// the store's own.
func UnmarshalStored(data []byte, v any) error {
	d := decoder{keep: true}
	return d.read(data, v)
}

// isMetadata says whether a member of this name belongs to the store that wrote it.
func isMetadata(name []byte) bool { return len(name) > 0 && name[0] == '_' }

// other consumes the value of a member that p, the plan of v, does not know, and keeps it in v if it is to be kept.
func (d *decoder) other(p *plan, name []byte, v reflect.Value) error {
	free := isMetadata(name) || bytes.HasPrefix(name, []byte("x-"))
	if d.unknown != nil && !free {
		d.refuse(p, string(name))
	}
	start := d.Pos
	if err := d.Skip(); err != nil {
		return under(err, string(name))
	}
	if d.keep && p.other != nil && !isMetadata(name) {
		others := v.FieldByIndex(p.other)
		others.Set(reflect.Append(others, reflect.ValueOf(Member{Name: string(name), Value: slices.Clone(d.Data[start:d.Pos])})))
	}
	return nil
}

// maxUnknown is how many members that are not known are named in one answer.
const maxUnknown = 10

func (d *decoder) refuse(p *plan, name string) {
	if len(d.unknown.Members) == maxUnknown {
		d.unknown.More++
		return
	}
	known := make([]string, len(p.fields))
	for i, f := range p.fields {
		known[i] = f.alias
	}
	at := DecodeError{}
	for _, level := range slices.Backward(d.path) {
		under(&at, level)
	}
	d.unknown.Members = append(d.unknown.Members, UnknownMember{
		Pointer: at.Pointer, Line: d.line(), Name: printable(shorten(name)), Nearest: nearest.Name(name, known),
	})
}

// twiceSpelled is a member that is there under its wire name alias and under its snake_case name.
func twiceSpelled(name, alias string) error {
	err := &DecodeError{Rule: fmt.Sprintf("is there twice, as %s and as %s; send it once", alias, snakeCase(alias)), Err: ErrTwice}
	return under(err, name)
}
