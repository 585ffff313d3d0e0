package isa95

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads JSON strictly (RFC 8259), one value after the other. Each method stands at a byte, consumes what it
// is named for and leaves pos behind it.
type scanner struct {
	data   []byte
	pos    int
	depth  int  // containers open at pos
	spaced bool // there was white space between tokens
	limits limits
	strict bool // skip refuses a member that is there twice
}

// space consumes white space and returns the byte at pos, 0 at the end.
func (s *scanner) space() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
			s.spaced = true
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) syntax(what string) *DecodeError {
	rest := s.data[min(s.pos, len(s.data)):]
	if len(rest) == 0 {
		return &DecodeError{Rule: fmt.Sprintf("must be JSON: %s at byte %d, where it ends", what, s.pos), Err: ErrSyntax}
	}
	near := printable(string(rest[:min(len(rest), 20)]))
	return &DecodeError{Value: near, Rule: fmt.Sprintf("must be JSON: %s at byte %d", what, s.pos), Err: ErrSyntax}
}

func (s *scanner) open() *DecodeError {
	s.pos++
	s.depth++
	if s.depth > s.limits.depth {
		return &DecodeError{Rule: fmt.Sprintf("must not nest deeper than %d", s.limits.depth), Err: ErrLimit}
	}
	return nil
}

func (s *scanner) tooMany() *DecodeError {
	return &DecodeError{Rule: fmt.Sprintf("must not have more than %d elements", s.limits.elements), Err: ErrLimit}
}

// object consumes an object and calls member at the value of each of its members; member consumes the value. name is
// valid during the call only.
func (s *scanner) object(member func(name []byte) *DecodeError) *DecodeError {
	if err := s.open(); err != nil {
		return err
	}
	if s.space() == '}' {
		s.pos++
		s.depth--
		return nil
	}
	for {
		if s.space() != '"' {
			return s.syntax("want a member name in quotes")
		}
		name, err := s.text()
		if err != nil {
			return err
		}
		if s.space() != ':' {
			return s.syntax("want a colon")
		}
		s.pos++
		s.space()
		if err := member(name); err != nil {
			return err
		}
		switch s.space() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			s.depth--
			return nil
		default:
			return s.syntax("want a comma or }")
		}
	}
}

// array consumes an array and calls element at each of its values; element consumes the value.
func (s *scanner) array(element func(i int) *DecodeError) *DecodeError {
	if err := s.open(); err != nil {
		return err
	}
	if s.space() == ']' {
		s.pos++
		s.depth--
		return nil
	}
	for i := 0; ; i++ {
		if i == s.limits.elements {
			return s.tooMany()
		}
		s.space()
		if err := element(i); err != nil {
			return err
		}
		switch s.space() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			s.depth--
			return nil
		default:
			return s.syntax("want a comma or ]")
		}
	}
}

// skip consumes any value.
func (s *scanner) skip() *DecodeError {
	switch s.space() {
	case '{':
		var seen names
		return s.object(func(name []byte) *DecodeError {
			if s.strict && seen.twice(string(name)) {
				return twice(string(name))
			}
			return s.skip()
		})
	case '[':
		return s.array(func(int) *DecodeError { return s.skip() })
	case '"':
		_, err := s.quoted()
		return err
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	_, err := s.number()
	return err
}

func (s *scanner) word(want string) *DecodeError {
	if len(s.data)-s.pos < len(want) || string(s.data[s.pos:s.pos+len(want)]) != want {
		return s.syntax("want " + want)
	}
	s.pos += len(want)
	return nil
}

// number consumes a number and returns its text.
func (s *scanner) number() ([]byte, *DecodeError) {
	start := s.pos
	digits := func() bool {
		from := s.pos
		for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
			s.pos++
		}
		return s.pos > from
	}
	at := func(chars ...byte) bool {
		for _, c := range chars {
			if s.pos < len(s.data) && s.data[s.pos] == c {
				s.pos++
				return true
			}
		}
		return false
	}
	at('-')
	if !at('0') && !digits() {
		s.pos = start
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
	return s.data[start:s.pos], nil
}

// quoted consumes a string and returns what is between the quotes, escapes as they are. It checks UTF-8 and escapes.
func (s *scanner) quoted() (inner []byte, err *DecodeError) {
	_, inner, err = s.string()
	return inner, err
}

// text consumes a string and returns its text, valid until the data is.
func (s *scanner) text() ([]byte, *DecodeError) {
	escaped, inner, err := s.string()
	if err != nil || !escaped {
		return inner, err
	}
	return s.unescape(inner)
}

func (s *scanner) string() (escaped bool, inner []byte, err *DecodeError) {
	open := s.pos
	s.pos++
	ascii := true
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			inner = s.data[open+1 : s.pos]
			if !ascii && !utf8.Valid(inner) {
				s.pos = open
				return false, nil, s.syntax("a string that is no valid UTF-8")
			}
			s.pos++
			return escaped, inner, nil
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return false, nil, err
			}
		case c < ' ':
			return false, nil, s.syntax("a control character in a string")
		default:
			if c >= utf8.RuneSelf {
				ascii = false
			}
			s.pos++
		}
	}
	return false, nil, s.syntax("want the closing quote of a string")
}

// escape consumes an escape sequence.
func (s *scanner) escape() *DecodeError {
	rest := s.data[s.pos:]
	if len(rest) > 1 {
		switch rest[1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			s.pos += 2
			return nil
		case 'u':
			if _, ok := hex4(rest); ok {
				s.pos += 6
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
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unescape resolves the escapes of inner, which escape has checked. A surrogate without its other half is refused:
// it is no character and could not be written back.
func (s *scanner) unescape(inner []byte) ([]byte, *DecodeError) {
	out := make([]byte, 0, len(inner))
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
					return nil, &DecodeError{Value: printable(shorten(string(inner))),
						Rule: "must not contain half a surrogate pair", Err: ErrSyntax}
				}
				i += 6
			}
			out = utf8.AppendRune(out, r)
			continue
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		default:
			out = append(out, c)
		}
		i += 2
	}
	return out, nil
}
