package recipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/taktworks/takt/internal/jsonscan"
	"github.com/taktworks/takt/internal/utf8text"
)

// maxDepth is how deep a document may nest. What is stored is put into other documents
// and read again, so it stays far below the limit of encoding/json.
const maxDepth = 64

// node is a JSON value that knows where it stands in the text. encoding/json forgets
// that, and findings need a line; it also forgets the order of members.
type node struct {
	kind       byte   // one of { [ " 0 t f n; '0' is any number
	start, end int    // data[start:end] is the value
	key        string // under which its object has it
	kids       []node // members or elements
	text       string // of a string, decoded
}

// source is a parsed document with its text.
type source struct {
	data  []byte
	root  node
	lines []int // offset of each line start, filled on first use
}

// syntaxError is a text that is not JSON, or nests too deep.
type syntaxError struct {
	offset int
	deep   bool
	err    error
}

func (e *syntaxError) Error() string { return e.err.Error() }

// parse reads data, which must be UTF-8 and one JSON value of at most depth levels. A byte order mark is passed over.
func parse(data []byte, depth int) (source, *syntaxError) {
	data, err := utf8text.Of(data)
	if err != nil {
		return source{}, &syntaxError{err: err}
	}
	p := reader{text: string(data), Scanner: jsonscan.Scanner{Data: data, MaxDepth: depth, MaxElements: math.MaxInt}}
	src := source{data: data}
	if err = p.value(&src.root); err == nil {
		err = p.End()
	}
	if err != nil {
		return source{}, &syntaxError{offset: p.Pos, deep: errors.Is(err, jsonscan.ErrLimit), err: err}
	}
	return src, nil
}

// reader builds the tree of a text.
type reader struct {
	jsonscan.Scanner
	text string // the data; strings of the tree are parts of it
}

// value reads the value at Pos into n, which is zero but for its key.
func (p *reader) value(n *node) (err error) {
	n.kind = p.Space()
	n.start = p.Pos
	switch n.kind {
	case '{':
		err = p.Object(func(name jsonscan.Span) error { return p.value(n.add(p.string(name))) })
	case '[':
		err = p.Array(func(int) error { return p.value(n.add("")) })
	case '"':
		var text jsonscan.Span
		if text, err = p.String(); err == nil {
			n.text = p.string(text)
		}
	case 't', 'f', 'n':
		err = p.Skip()
	default:
		n.kind = '0'
		err = p.Skip()
	}
	n.end = p.Pos
	return err
}

func (n *node) add(key string) *node {
	if n.kids == nil {
		n.kids = make([]node, 0, 4)
	}
	n.kids = append(n.kids, node{key: key})
	return &n.kids[len(n.kids)-1]
}

// string is what a string says; half a surrogate pair becomes U+FFFD.
func (p *reader) string(of jsonscan.Span) string {
	if !of.Escaped {
		return p.text[of.Start:of.End]
	}
	text, _ := jsonscan.Unescape(p.Data[of.Start:of.End])
	return string(text)
}

// member returns the value of key, nil if there is none. The last of several counts, as
// everywhere in JSON.
func (n *node) member(key string) *node {
	if n.kind != '{' {
		return nil
	}
	for i := len(n.kids) - 1; i >= 0; i-- {
		if n.kids[i].key == key {
			return &n.kids[i]
		}
	}
	return nil
}

// index is which of the members of n is the first under key, -1 = none.
func (n *node) index(key string) int {
	for i := range n.kids {
		if n.kind == '{' && n.kids[i].key == key {
			return i
		}
	}
	return -1
}

// has says whether n has a member under key.
func (n *node) has(key string) bool { return n.index(key) >= 0 }

// doubled is the first member in n or below that its object has twice, with its path from n; nil if there is none.
func (n *node) doubled() (path string, kid *node) {
	var seen jsonscan.Names
	for i := range n.kids {
		kid := &n.kids[i]
		step := kid.key
		if n.kind == '[' {
			step = strconv.Itoa(i)
		} else if seen.Twice(step) {
			return "/" + step, kid
		}
		if path, found := kid.doubled(); found != nil {
			return "/" + step + path, found
		}
	}
	return "", nil
}

// raw is the text of n without white space outside strings.
func (s *source) raw(n *node) json.RawMessage {
	text := s.data[n.start:n.end] // valid: the whole text is
	if !bytes.ContainsAny(text, " \t\r\n") {
		return bytes.Clone(text)
	}
	var compact bytes.Buffer
	_ = json.Compact(&compact, text)
	return bytes.Clone(compact.Bytes()) // without the room for the white space
}

// line is the number, from 1, of the line on which offset stands.
func (s *source) line(offset int) int {
	if s.lines == nil {
		s.lines = []int{0}
		for i, c := range s.data {
			if c == '\n' {
				s.lines = append(s.lines, i+1)
			}
		}
	}
	return sort.SearchInts(s.lines, offset+1)
}

// at finds an element by PascalCase names and indexes and returns its JSON pointer, with
// the names as the text spells them, and its line. It goes as far as the text does: for
// a member that is absent it is the object that lacks it.
func (s *source) at(path ...any) (pointer string, line int) {
	n := &s.root
	for _, p := range path {
		var kid *node
		switch p := p.(type) {
		case int:
			if n.kind == '[' && p < len(n.kids) {
				kid = &n.kids[p]
				pointer += "/" + strconv.Itoa(p)
			}
		case string:
			if key := n.spelling(p); key != "" {
				kid = n.member(key)
				pointer += "/" + key
			}
		}
		if kid == nil {
			break
		}
		n = kid
	}
	return pointer, s.line(n.start)
}

// spelling returns the key under which n has the member called name in PascalCase: that
// name, else its snake_case form, else "".
func (n *node) spelling(name string) string {
	if n.has(name) {
		return name
	}
	if snake := snakeCase(name); n.has(snake) {
		return snake
	}
	return ""
}

// snakeCase turns TypeId into type_id.
func snakeCase(name string) string {
	var b strings.Builder
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// integer reads a number that is written without fraction and exponent.
func (n *node) integer(data []byte) (int64, bool) {
	if n.kind != '0' {
		return 0, false
	}
	i, err := strconv.ParseInt(string(data[n.start:n.end]), 10, 64)
	return i, err == nil
}
