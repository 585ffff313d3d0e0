package wire

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/testenv"
)

// By name, fields may change places, be added and be removed, at any depth, in arguments and results. What was renamed is refused.
func TestVersionsByName(t *testing.T) {
	type old struct{ To, Text string }
	type moved struct{ Text, To string }
	type longer struct {
		Copy bool
		Text string
		To   string
	}
	type shorter struct{ Text string }
	type renamed struct{ To, Body string }
	type (
		oldDeep   struct{ Parts map[string][]*old }
		movedDeep struct {
			Note  string
			Parts map[string][]*moved
		}
		renamedDeep struct{ Parts map[string][]*renamed }
	)
	v := old{"ada", "hello"}
	deep := oldDeep{map[string][]*old{"a": {&v, nil}}}
	for _, c := range []struct {
		name string
		err  error
		says string
	}{
		{"moved", versions(v, moved{"hello", "ada"}), ""},
		{"longer", versions(v, longer{Text: "hello", To: "ada"}), ""},
		{"shorter", versions(v, shorter{"hello"}), ""},
		{"none", versions(v, struct{}{}), ""},
		{"from none", versions(struct{}{}, v), "{ }"},
		{"nested, moved and longer", versions(deep, movedDeep{Parts: map[string][]*moved{"a": {{"hello", "ada"}, nil}}}), ""},
		{"renamed", versions(v, renamed{}), `has the member "Text", which wire.renamed lacks, and not its field Body`},
		{"nested, renamed", versions(deep, renamedDeep{}), `renamedDeep.Parts["a"][0], byte `},
	} {
		switch {
		case c.says == "" && c.err != nil:
			t.Errorf("%s: %v", c.name, c.err)
		case c.says == "{ }": // from no arguments all fields are zero, which is not v
			if c.err == nil || c.err.Error() != `args: {To: Text:}` {
				t.Errorf("%s: %v", c.name, c.err)
			}
		case c.says != "":
			var f *FormatError
			if !errors.As(c.err, &f) || !f.Layout || !strings.Contains(c.err.Error(), c.says) {
				t.Errorf("%s: %v", c.name, c.err)
			}
		}
	}

	byName, byPosition := codecOf[old](t, ByName), codecOf[old](t, ByPosition)
	named, err := byName.AppendArgs(nil, v)
	if err != nil || string(named) != "\x91\x82\xa2To\xa3ada\xa4Text\xa5hello" {
		t.Errorf("%x %v", named, err)
	}
	positional, err := byPosition.AppendArgs(nil, v)
	if err != nil || string(positional) != "\x92\xa3ada\xa5hello" {
		t.Errorf("%x %v", positional, err)
	}
	either := codecOf[old](t, EitherForm)
	for _, from := range []*Codec[old]{byName, byPosition} {
		b := must(t)(from.AppendValue(nil, v))
		if got, err := either.DecodeValue(b); err != nil || got != v {
			t.Errorf("%x: %+v %v", b, got, err)
		}
	}
	if got, err := byName.DecodeArgs([]byte("\x91\x83\xa2To\xa1a\xa2To\xa1b\xa4Text\xa1c")); err != nil || got != (old{"b", "c"}) {
		t.Errorf("a member that is there twice: %+v %v", got, err)
	}
}

// A struct in the form that its type does not have, and more arguments than a type takes, are a mismatch of layouts: an error with the form to give. Of missing arguments the values are zero.
func TestOtherFormsAndNumbersOfArguments(t *testing.T) {
	type letter struct{ To, Text string }
	type parcel struct {
		N      int
		Letter letter
	}
	type long struct{ A, B, C, D, E, F, G, H, I int }
	const (
		asList = "wire.letter travels by position, [To, Text]: submit it so, or register the type without task.Positional()"
		byName = `wire.letter travels by name, {"To": ..., "Text": ...}: submit it so, or register the type with task.Positional()`
	)
	named := mapOf(2, "To", "ada", "Text", "hello")
	null := []byte{0xc0}
	for _, c := range []struct {
		name string
		err  error
		says string // "" = no error
	}{
		{"two texts, by name", decodeArgs[letter](ByName, arrayOf(2, "ada", "hello")), "letter, byte 1: has arguments by position, and " + byName},
		{"one text, by name", decodeArgs[letter](ByName, arrayOf(1, "ada")), "has arguments by position, and " + byName},
		{"nil, by name", decodeArgs[letter](ByName, arrayOf(1, null)), "has arguments by position, and " + byName},
		{"a struct by position, by name", decodeArgs[letter](ByName, arrayOf(1, arrayOf(2, "ada", "hello"))), "has arguments by position, and " + byName},
		{"a map and more, by name", decodeArgs[letter](ByName, arrayOf(2, named, 1)), "has arguments by position, and " + byName},
		{"two texts, pointer by name", decodeArgs[*letter](ByName, arrayOf(2, "ada", "hello")), "has arguments by position, and " + byName},
		{"nil, pointer by name", decodeArgs[*letter](ByName, arrayOf(1, null)), ""},
		{"many fields", decodeArgs[long](ByName, arrayOf(1, 1)), `"H": ..., ...}: submit`},
		{"nested, by name", decodeArgs[parcel](ByName, arrayOf(1, mapOf(2, "N", 1, "Letter", arrayOf(2, "ada", "hello")))), "parcel.Letter, byte 12: is a struct by position, and " + byName},
		{"result, by name", decodeValue[letter](ByName, arrayOf(2, "ada", "hello")), "letter, byte 0: is a struct by position, and " + byName},

		{"a map, by position", decodeArgs[letter](ByPosition, arrayOf(1, named)), "letter, byte 1: has arguments by name, and " + asList},
		{"a map first, by position", decodeArgs[parcel](ByPosition, arrayOf(1, mapOf(1, "N", 1))), "has arguments by name, and wire.parcel travels by position, [N, Letter]"},
		{"a map, pointer by position", decodeArgs[*letter](ByPosition, arrayOf(1, named)), "is a struct by name, and " + asList},
		{"nested, by position", decodeArgs[parcel](ByPosition, arrayOf(2, 1, named)), "parcel.Letter, byte 2: is a struct by name, and " + asList},
		{"result, by position", decodeValue[letter](ByPosition, named), "letter, byte 0: is a struct by name, and " + asList},

		{"surplus, by position", decodeArgs[letter](ByPosition, arrayOf(3, "ada", "hello", 1)), "letter, byte 1: arguments given: 3, taken by wire.letter: 2 at most; give fewer"},
		{"surplus of one", decodeArgs[int](ByName, arrayOf(2, 1, 2)), "arguments given: 2, taken by int: 1 at most"},
		{"surplus of none", decodeArgs[struct{}](ByName, arrayOf(1, 1)), "arguments given: 1, taken by struct {}: 0 at most"},
		{"surplus in a nested struct is of a newer version", decodeArgs[parcel](ByPosition, arrayOf(2, 1, arrayOf(3, "ada", "hello", 1))), ""},
		{"surplus in a result is of a newer version", decodeValue[letter](ByPosition, arrayOf(3, "ada", "hello", 1)), ""},
		{"fewer, by position", decodeArgs[letter](ByPosition, arrayOf(1, "ada")), ""},
		{"none, by position", decodeArgs[letter](ByPosition, arrayOf(0)), ""},
		{"none, by name", decodeArgs[letter](ByName, arrayOf(0)), ""},
		{"no members, by name", decodeArgs[letter](ByName, arrayOf(1, mapOf(0))), ""},
		{"no bytes", decodeArgs[letter](ByName, nil), ""},
	} {
		var f *FormatError
		if c.says == "" && c.err != nil || c.says != "" && (!errors.As(c.err, &f) || !f.Layout || !strings.Contains(c.err.Error(), c.says)) {
			t.Errorf("%s: %v\nwant %s", c.name, c.err, c.says)
		}
	}
}

func decodeArgs[T any](form Form, raw []byte) error {
	c, err := NewCodec[T](form)
	if err == nil {
		_, err = c.DecodeArgs(raw)
	}
	return err
}

func decodeValue[T any](form Form, raw []byte) error {
	c, err := NewCodec[T](form)
	if err == nil {
		_, err = c.DecodeValue(raw)
	}
	return err
}

// The json tag of a field names its member, at any depth; a field with the tag "-" stays out, in both forms.
func TestJSONTagsNameMembers(t *testing.T) {
	type part struct {
		Code string `json:"code"`
	}
	type tagged struct {
		To   string   `json:"to"`
		Done chan int `json:"-"`
		//lint:ignore SA5008 encoding/json reads a dash with a comma as a name
		Dash  int    `json:"-,"`
		Empty string `json:",omitempty"`
		Parts []part `json:"parts,omitempty"`
	}
	type twice struct {
		A int `json:"B"`
		B int
	}
	type broken struct {
		//lint:ignore SA5008 the name under test
		A int `json:"\xff"`
	}
	v := tagged{To: "ada", Parts: []part{{"x"}}}
	for form, want := range map[Form][]byte{
		ByName:     mapOf(4, "to", "ada", "-", 0, "Empty", "", "parts", arrayOf(1, mapOf(1, "code", "x"))),
		ByPosition: arrayOf(4, "ada", 0, "", arrayOf(1, arrayOf(1, "x"))),
	} {
		c := codecOf[tagged](t, form)
		b, err := c.AppendValue(nil, v)
		expect(t, b, err, want)
		got, err := c.DecodeValue(b)
		same(t, got, err, v)
	}
	if err := decodeArgs[tagged](ByName, arrayOf(1, mapOf(1, "To", "ada"))); err == nil || !strings.Contains(err.Error(), `has the member "To", which wire.tagged lacks, and not its field to`) {
		t.Errorf("the name of the field: %v", err)
	}
	if err := decodeArgs[tagged](ByName, arrayOf(1, "ada")); err == nil || !strings.Contains(err.Error(), `{"to": ..., "-": ..., "Empty": ..., "parts": ...}`) {
		t.Errorf("the form: %v", err)
	}
	refused[twice](t, `twice.B: its name in messages, "B", is that of another field, too`)
	refused[broken](t, `broken.A: its name in messages, "\xff", is not UTF-8`)
	refused[struct {
		A int `json:"-"`
	}](t, "has no exported field that travels")
}

func codecOf[T any](t *testing.T, form Form) *Codec[T] {
	t.Helper()
	c, err := NewCodec[T](form)
	testenv.Must(t, err)
	return c
}

// versions sends v as arguments and as a result to a program that has another version of its type.
func versions[A, B any](v A, want B) error {
	from, err := NewCodec[A](ByName)
	if err != nil {
		return err
	}
	to, err := NewCodec[B](ByName)
	if err != nil {
		return err
	}
	args, err := from.AppendArgs(nil, v)
	if err != nil {
		return err
	}
	value, err := from.AppendValue(nil, v)
	if err != nil {
		return err
	}
	got, err := to.DecodeArgs(args)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("args: %+v", got)
	}
	if got, err = to.DecodeValue(value); err == nil && !reflect.DeepEqual(got, want) {
		err = fmt.Errorf("result: %+v", got)
	}
	return err
}

// A struct of all kinds comes back by name, and no bytes are taken that cannot be written again.
func TestEveryKindByName(t *testing.T) {
	all := codecOf[every](t, ByName)
	b := must(t)(all.AppendArgs(nil, everyValue()))
	got, err := all.DecodeArgs(b)
	testenv.Must(t, err)
	again, err := all.AppendArgs(nil, got)
	if err != nil || string(again) != string(b) {
		t.Errorf("%x\n%x %v", b, again, err)
	}
	rapid.Check(t, func(rt *rapid.T) { // one byte is another
		changed := append([]byte(nil), b...)
		changed[rapid.IntRange(0, len(b)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
		refit(t, all, changed)
	})
}
