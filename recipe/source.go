package recipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

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
	if !utf8.Valid(data) {
		return source{}, &syntaxError{offset: invalidUTF8(data), err: errors.New("the text is not valid UTF-8")}
	}
	if !json.Valid(data) {
		return source{}, invalidJSON(data)
	}
	p := reader{data: data, text: string(data), depth: depth}
	src := source{data: data}
	p.value(&src.root, 0)
	if p.deep != 0 {
		return source{}, &syntaxError{offset: p.deep, deep: true, err: fmt.Errorf("the text nests deeper than %d levels", depth)}
	}
	return src, nil
}

func invalidJSON(data []byte) *syntaxError {
	var whole json.RawMessage
	err := json.Unmarshal(data, &whole)
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return &syntaxError{err: err}
	}
	return &syntaxError{offset: int(syntax.Offset), deep: strings.Contains(err.Error(), "max depth"), err: err}
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return len(data)
}

// reader builds the tree of a text that encoding/json has accepted, so it does not look
// for errors itself.
type reader struct {
	data  []byte
	text  string // the same; strings of the tree are parts of it
	pos   int
	depth int
	deep  int // where the text first went too deep, 0 = nowhere
}

// value reads the value at pos into n, which is zero but for its key.
func (p *reader) value(n *node, level int) {
	p.space()
	n.start = p.pos
	if level > p.depth && p.deep == 0 {
		p.deep = p.pos
	}
	switch c := p.data[p.pos]; c {
	case '{', '[':
		n.kind = c
		if p.deep != 0 { // the rest is of no use
			p.pos = len(p.data)
			break
		}
		p.pos++
		p.members(n, level)
	case '"':
		n.kind = '"'
		n.text = p.string()
	case 't', 'n':
		n.kind = c
		p.pos += 4
	case 'f':
		n.kind = c
		p.pos += 5
	default:
		n.kind = '0'
		for p.pos < len(p.data) && strings.IndexByte("+-.0123456789eE", p.data[p.pos]) >= 0 {
			p.pos++
		}
	}
	n.end = p.pos
}

// members reads what stands between the brackets of n, and the closing one.
func (p *reader) members(n *node, level int) {
	for p.deep == 0 {
		p.space()
		switch p.data[p.pos] {
		case '}', ']':
			p.pos++
			return
		case ',':
			p.pos++
			continue
		}
		if n.kids == nil {
			n.kids = make([]node, 0, min(4, 1+(len(p.data)-p.pos)/16))
		}
		if len(n.kids) == cap(n.kids) && len(n.kids) >= 64 { // of a long list, what is to come is counted first
			n.kids = slices.Grow(n.kids, p.rest())
		}
		n.kids = append(n.kids, node{})
		kid := &n.kids[len(n.kids)-1]
		if n.kind == '{' {
			kid.key = p.string()
			p.space()
			p.pos++ // the colon
		}
		p.value(kid, level+1)
	}
}

// rest is how many members or elements there are from pos to the closing bracket.
func (p *reader) rest() int {
	n, depth := 1, 0
	for i := p.pos; ; i++ {
		switch p.data[i] {
		case '"':
			for i++; p.data[i] != '"'; i++ {
				if p.data[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return n
			}
			depth--
		case ',':
			if depth == 0 {
				n++
			}
		}
	}
}

func (p *reader) string() string {
	start := p.pos
	plain := true
	for p.pos++; p.data[p.pos] != '"'; p.pos++ {
		if p.data[p.pos] == '\\' {
			plain = false
			p.pos++
		}
	}
	p.pos++
	if plain {
		return p.text[start+1 : p.pos-1]
	}
	var s string
	_ = json.Unmarshal(p.data[start:p.pos], &s) // valid: the whole text is
	return s
}

func (p *reader) space() {
	for p.pos < len(p.data) && (p.data[p.pos] == ' ' || p.data[p.pos] == '\t' || p.data[p.pos] == '\n' || p.data[p.pos] == '\r') {
		p.pos++
	}
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
	const few = 16
	var seen map[string]bool // of an object with many members
	if n.kind == '{' && len(n.kids) > few {
		seen = make(map[string]bool, len(n.kids))
	}
	for i := range n.kids {
		kid := &n.kids[i]
		step := kid.key
		if n.kind == '{' {
			if seen[step] || seen == nil && n.index(step) < i {
				return "/" + step, kid
			}
			if seen != nil {
				seen[step] = true
			}
		}
		if path, found := kid.doubled(); found != nil {
			if n.kind == '[' {
				step = strconv.Itoa(i)
			}
			return "/" + step + path, found
		}
	}
	return "", nil
}

// raw is the text of n without white space outside strings.
func (s *source) raw(n *node) json.RawMessage {
	text := s.data[n.start:n.end] // valid: the whole text is
	raw := make(json.RawMessage, 0, len(text))
	for i, inString := 0, false; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			inString = !inString
		case c == '\\' && inString:
			raw = append(raw, c)
			i++
		case !inString && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			continue
		}
		raw = append(raw, text[i])
	}
	if cap(raw) > len(raw)+64 { // it took room for the white space
		return bytes.Clone(raw)
	}
	return raw
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
