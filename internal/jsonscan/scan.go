// Package jsonscan reads JSON strictly (RFC 8259), within limits, and says where it is none. It writes with no more escapes
// than JSON needs.
package jsonscan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// What an Error is, for errors.Is.
var (
	ErrSyntax = errors.New("not JSON")
	ErrLimit  = errors.New("too large")
	ErrTwice  = errors.New("there twice")
)

// Error is why a text was refused.
type Error struct {
	Member string // the member that Rule is about, "" = the text
	Value  string // what stands there, shortened; "" = nothing, or not told
	Rule   string // what it has to be, as a sentence part: "must ..."
	Err    error  // ErrSyntax, ErrLimit or ErrTwice
}

func (e *Error) Error() string {
	text := e.Member
	if e.Value != "" {
		text += fmt.Sprintf(" %q", e.Value)
	}
	return strings.TrimSpace(text + " " + e.Rule)
}

// Unwrap is Err.
func (e *Error) Unwrap() error { return e.Err }

// Scanner reads one value after the other. Each method stands at a byte, consumes what it is named for and leaves Pos
// behind it. Errors are *Error, or those of a callback.
type Scanner struct {
	Data        []byte
	Pos         int
	Depth       int // containers open at Pos
	MaxDepth    int
	MaxElements int  // of one array
	Spaced      bool // there was white space between tokens
	Once        bool // Skip refuses a member that is there twice
}

// Span is what stands between the quotes of a string: Data[Start:End].
type Span struct {
	Start, End int
	Escaped    bool // it has escapes
}

// Space consumes white space and returns the byte at pos, 0 at the end.
func (s *Scanner) Space() byte {
	for s.Pos < len(s.Data) {
		switch c := s.Data[s.Pos]; c {
		case ' ', '\t', '\n', '\r':
			s.Pos++
			s.Spaced = true
		default:
			return c
		}
	}
	return 0
}

func (s *Scanner) syntax(what string) error {
	rest := s.Data[min(s.Pos, len(s.Data)):]
	if len(rest) == 0 {
		return &Error{Rule: fmt.Sprintf("must be JSON: %s at byte %d, where it ends", what, s.Pos), Err: ErrSyntax}
	}
	return &Error{Value: string(rest[:min(len(rest), 20)]), Rule: fmt.Sprintf("must be JSON: %s at byte %d", what, s.Pos), Err: ErrSyntax}
}

// list consumes what stands between the bracket at Pos and end, and calls element where each part of it begins.
func (s *Scanner) list(end byte, element func(i int) error) error {
	s.Pos++
	s.Depth++
	if s.Depth > s.MaxDepth {
		return &Error{Rule: fmt.Sprintf("must not nest deeper than %d", s.MaxDepth), Err: ErrLimit}
	}
	for i := 0; s.Space() != end || i > 0; i++ {
		if err := element(i); err != nil {
			return err
		}
		if c := s.Space(); c == end {
			break
		} else if c != ',' {
			return s.syntax("want a comma or " + string(end))
		}
		s.Pos++
	}
	s.Pos++
	s.Depth--
	return nil
}

// Object consumes an object and calls member at the value of each of its members; member consumes the value.
func (s *Scanner) Object(member func(name Span) error) error {
	return s.list('}', func(int) error {
		if s.Space() != '"' {
			return s.syntax("want a member name in quotes")
		}
		name, err := s.String()
		if err != nil {
			return err
		}
		if s.Space() != ':' {
			return s.syntax("want a colon")
		}
		s.Pos++
		s.Space()
		return member(name)
	})
}

// Array consumes an array and calls element at each of its values; element consumes the value.
func (s *Scanner) Array(element func(i int) error) error {
	return s.list(']', func(i int) error {
		if i == s.MaxElements {
			return &Error{Rule: fmt.Sprintf("must not have more than %d elements", s.MaxElements), Err: ErrLimit}
		}
		return element(i)
	})
}

// Skip consumes any value.
func (s *Scanner) Skip() error {
	switch s.Space() {
	case '{':
		var seen Names
		return s.Object(func(name Span) error {
			if s.Once {
				if name, err := s.Text(name); err != nil || seen.Twice(string(name)) {
					return cmp.Or(err, Twice(string(name)))
				}
			}
			return s.Skip()
		})
	case '[':
		return s.Array(func(int) error { return s.Skip() })
	case '"':
		_, err := s.String()
		return err
	case 't':
		return s.Word("true")
	case 'f':
		return s.Word("false")
	case 'n':
		return s.Word("null")
	}
	_, err := s.Number()
	return err
}

// Word consumes a word: true, false or null.
func (s *Scanner) Word(want string) error {
	if len(s.Data)-s.Pos < len(want) || string(s.Data[s.Pos:s.Pos+len(want)]) != want {
		return s.syntax("want " + want)
	}
	s.Pos += len(want)
	return nil
}

// Number consumes a number and returns its text.
func (s *Scanner) Number() ([]byte, error) {
	start := s.Pos
	digits := func() bool {
		from := s.Pos
		for s.Pos < len(s.Data) && s.Data[s.Pos] >= '0' && s.Data[s.Pos] <= '9' {
			s.Pos++
		}
		return s.Pos > from
	}
	at := func(chars ...byte) bool {
		for _, c := range chars {
			if s.Pos < len(s.Data) && s.Data[s.Pos] == c {
				s.Pos++
				return true
			}
		}
		return false
	}
	at('-')
	if !at('0') && !digits() {
		s.Pos = start
		return nil, s.syntax("want a value")
	}
	if at('.') && !digits() {
		return nil, s.syntax("want a digit")
	}
	if at('e', 'E') {
		at('+', '-')
		if !digits() {
			return nil, s.syntax("want a digit")
		}
	}
	return s.Data[start:s.Pos], nil
}

// Text is what a string says.
func (s *Scanner) Text(of Span) ([]byte, error) {
	inner := s.Data[of.Start:of.End]
	if !of.Escaped {
		return inner, nil
	}
	text, whole := Unescape(inner)
	if !whole {
		return nil, &Error{Value: string(inner), Rule: "must not contain half a surrogate pair", Err: ErrSyntax}
	}
	return text, nil
}

// String consumes a string. It checks UTF-8 and escapes.
func (s *Scanner) String() (of Span, err error) {
	open := s.Pos
	s.Pos++
	of.Start = s.Pos
	ascii := true
	for s.Pos < len(s.Data) {
		switch c := s.Data[s.Pos]; {
		case c == '"':
			of.End = s.Pos
			if !ascii && !utf8.Valid(s.Data[of.Start:of.End]) {
				s.Pos = open
				return of, s.syntax("a string that is no valid UTF-8")
			}
			s.Pos++
			return of, nil
		case c == '\\':
			of.Escaped = true
			if err := s.escape(); err != nil {
				return of, err
			}
		case c < ' ':
			return of, s.syntax("a control character in a string")
		default:
			if c >= utf8.RuneSelf {
				ascii = false
			}
			s.Pos++
		}
	}
	return of, s.syntax("want the closing quote of a string")
}

// escape consumes an escape sequence.
func (s *Scanner) escape() error {
	rest := s.Data[s.Pos:]
	if len(rest) > 1 {
		switch rest[1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			s.Pos += 2
			return nil
		case 'u':
			if _, ok := hex4(rest); ok {
				s.Pos += 6
				return nil
			}
		}
	}
	return s.syntax("an escape that JSON does not have")
}

// hex4 reads the \uXXXX at the beginning of b.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 32)
	return rune(n), err == nil
}

// Unescape resolves the escapes of inner, which String has checked. A surrogate without its other half becomes U+FFFD, and
// whole is false: it is no character and could not be written back.
func Unescape(inner []byte) (out []byte, whole bool) {
	out, whole = make([]byte, 0, len(inner)), true
	for i := 0; i < len(inner); {
		if inner[i] != '\\' {
			out = append(out, inner[i])
			i++
			continue
		}
		switch c := inner[i+1]; c {
		case 'u':
			r, _ := hex4(inner[i:])
			i += 6
			if utf16.IsSurrogate(r) {
				low, _ := hex4(inner[i:])
				if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
					whole = false
				} else {
					i += 6
				}
			}
			out = utf8.AppendRune(out, r)
			continue
		default:
			if k := strings.IndexByte("bfnrt", c); k >= 0 {
				c = "\b\f\n\r\t"[k]
			}
			out = append(out, c)
		}
		i += 2
	}
	return out, whole
}

// End is an error if something stands behind the value that was read.
func (s *Scanner) End() error {
	if s.Space(); s.Pos < len(s.Data) {
		return s.syntax("more than one value")
	}
	return nil
}

// Twice is the error about a member that is there twice.
func Twice(member string) error {
	return &Error{Member: member, Rule: "is there twice; send it once", Err: ErrTwice}
}

// Names notices a member that an object has twice.
type Names struct {
	few  []string
	many map[string]bool
}

// Twice notes a name, and tells whether it was noted before.
func (n *Names) Twice(name string) bool {
	const few = 16
	if n.many != nil {
		known := n.many[name]
		n.many[name] = true
		return known
	}
	if slices.Contains(n.few, name) {
		return true
	}
	if n.few = append(n.few, name); len(n.few) == few {
		n.many = make(map[string]bool, 4*few)
		for _, known := range n.few {
			n.many[known] = true
		}
	}
	return false
}
