package lock

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Object is what is locked.
type Object struct {
	Type  ObjectType // registered in the Types of the Locker
	Key   string     // which one
	Extra []string   // at most 8 further parts
}

// ObjectType is a kind of thing that is locked. Those that are not built in are registered with Types.Add.
type ObjectType string

// The built-in types.
const (
	Task           ObjectType = "task"
	Job            ObjectType = "job"
	Transformation ObjectType = "transformation"
)

const (
	maxPart  = 128 // bytes of a part of an object, an owner or a waiter
	maxExtra = 8
)

// name is the object as it stands in keys: parts joined by colons, with % and : percent-encoded in each, so that
// ("a:b", "c") is not ("a", "b:c"). As no part is empty, "::" stands in no name: what follows it is never part of an object (see Locker.keys).
func (o Object) name() (string, error) {
	if len(o.Extra) > maxExtra {
		return "", &SpecError{"Object.Extra", fmt.Sprint(len(o.Extra), " parts"), fmt.Sprintf("must be at most %d", maxExtra)}
	}
	if err := checkPart("Object.Type", string(o.Type)); err != nil {
		return "", err
	}
	if err := checkPart("Object.Key", o.Key); err != nil {
		return "", err
	}
	var b strings.Builder
	escape(&b, string(o.Type))
	b.WriteByte(':')
	escape(&b, o.Key)
	for i, e := range o.Extra {
		if err := checkPart(fmt.Sprintf("Object.Extra[%d]", i), e); err != nil {
			return "", err
		}
		b.WriteByte(':')
		escape(&b, e)
	}
	return b.String(), nil
}

var colons = strings.NewReplacer("%", "%25", ":", "%3A")

func escape(b *strings.Builder, part string) {
	if !strings.ContainsAny(part, "%:") {
		b.WriteString(part)
		return
	}
	_, _ = colons.WriteString(b, part) // a strings.Builder takes everything
}

// checkPart says what is wrong with a text that becomes part of a key or stands in one.
func checkPart(field, value string) error {
	if len(value) < 1 || len(value) > maxPart {
		return &SpecError{field, quote(value), fmt.Sprintf("must have 1 to %d bytes", maxPart)}
	}
	if !utf8.ValidString(value) {
		return &SpecError{field, quote(value), "must be UTF-8"}
	}
	if strings.ContainsFunc(value, unicode.IsControl) {
		return &SpecError{field, quote(value), "must be free of control characters"}
	}
	return nil
}

// quote shows a value in an error, the beginning of it if it is long.
func quote(value string) string {
	if len(value) > maxPart {
		return fmt.Sprintf("%.40q... (%d bytes)", value, len(value))
	}
	return fmt.Sprintf("%q", value)
}
