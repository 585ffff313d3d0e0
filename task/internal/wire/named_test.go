package wire

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
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

	// The forms are never taken for each other.
	byName, byPosition := codecOf[old](t, ByName), codecOf[old](t, ByPosition)
	named, err := byName.AppendArgs(nil, v)
	if err != nil || string(named) != "\x91\x82\xa2To\xa3ada\xa4Text\xa5hello" {
		t.Errorf("%x %v", named, err)
	}
	positional, err := byPosition.AppendArgs(nil, v)
	if err != nil || string(positional) != "\x92\xa3ada\xa5hello" {
		t.Errorf("%x %v", positional, err)
	}
	if got, err := byName.DecodeArgs(positional); err == nil {
		t.Errorf("by name from an array: %+v", got)
	}
	if got, err := byPosition.DecodeArgs(named); err == nil {
		t.Errorf("by position from a map: %+v", got)
	}
	either := codecOf[old](t, EitherForm)
	for _, from := range []*Codec[old]{byName, byPosition} {
		b, err := from.AppendValue(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := either.DecodeValue(b); err != nil || got != v {
			t.Errorf("%x: %+v %v", b, got, err)
		}
	}
	if got, err := byName.DecodeArgs([]byte("\x91\x83\xa2To\xa1a\xa2To\xa1b\xa4Text\xa1c")); err != nil || got != (old{"b", "c"}) {
		t.Errorf("a member that is there twice: %+v %v", got, err)
	}
}

func decodeArgs[T any](form Form, raw []byte) error {
	c, err := NewCodec[T](form)
	if err == nil {
		_, err = c.DecodeArgs(raw)
	}
	return err
}

// The json tag of a field names its member, at any depth; a field with the tag "-" stays out, in both forms.
func TestJSONTagsNameMembers(t *testing.T) {
	type part struct {
		Code string `json:"code"`
	}
	type tagged struct {
		To    string   `json:"to"`
		Done  chan int `json:"-"`
		Dash  int      `json:"-,"`
		Empty string   `json:",omitempty"`
		Parts []part   `json:"parts,omitempty"`
	}
	type twice struct {
		A int `json:"B"`
		B int
	}
	type broken struct {
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
	refused[twice](t, `twice.B: its name in messages, "B", is that of another field, too`)
	refused[broken](t, `broken.A: its name in messages, "\xff", is not UTF-8`)
	refused[struct {
		A int `json:"-"`
	}](t, "has no exported field that travels")
}

func codecOf[T any](t *testing.T, form Form) *Codec[T] {
	t.Helper()
	c, err := NewCodec[T](form)
	if err != nil {
		t.Fatal(err)
	}
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
	b, err := all.AppendArgs(nil, everyValue())
	if err != nil {
		t.Fatal(err)
	}
	got, err := all.DecodeArgs(b)
	if err != nil {
		t.Fatal(err)
	}
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
