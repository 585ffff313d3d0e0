package station

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/taktworks/takt/internal/jsonscalar"
	"github.com/taktworks/takt/internal/utf8text"
)

const (
	maxFile  = 1 << 20 // bytes of a YAML file
	maxDepth = 64      // levels of nesting
)

// document collects what is wrong in one file while it is read.
type document struct {
	file   string
	faults []Fault
}

// field is a place in the document. node is nil where the file has nothing; line is then that of the object lacking it.
type field struct {
	d    *document
	path string
	node ast.Node
	line int
}

// parseYAML reads a file of one YAML document. On an error of syntax the field is absent and the fault noted.
func parseYAML(file string, data []byte) (root field) {
	root = field{d: &document{file: file}, line: 1}
	if len(data) > maxFile {
		root.fault("must not be larger than %d bytes (it has %d)", maxFile, len(data))
		return root
	}
	data, err := utf8text.Of(data)
	if err != nil {
		root.fault("must be YAML: %v", err)
		return root
	}
	defer func() {
		// The library is not hardened against hostile text. The node is a tree of its own, nothing else is touched.
		if p := recover(); p != nil {
			root.node = nil
			root.fault("must be YAML (%v)", p)
		}
	}()
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		message := err.Error()
		var where yaml.Error
		if errors.As(err, &where) {
			message = where.GetMessage()
			if token := where.GetToken(); token != nil && token.Position != nil {
				root.line = token.Position.Line
			}
		}
		root.fault("must be YAML: %s", message)
		return root
	}
	var bodies []ast.Node
	for _, doc := range parsed.Docs {
		if doc.Body != nil {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		root.fault("must not be empty")
		return root
	case 1:
		root = root.at("", bodies[0])
	default:
		root.at("", bodies[1]).fault("must be one YAML document, not several")
		return root
	}
	root.refuseReferences(0)
	if len(root.d.faults) > 0 {
		root.node = nil
	}
	return root
}

// err is everything found wrong, nil when nothing is.
func (d *document) err() error {
	if len(d.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(d.faults, func(a, b Fault) int {
		if a.File != b.File {
			return 0 // the recipes of a file after it, as they were read
		}
		return cmp.Compare(a.Line, b.Line)
	})
	return &InvalidError{Faults: d.faults}
}

func (f field) at(path string, node ast.Node) field {
	f.path, f.node = path, node
	if node != nil {
		if token := node.GetToken(); token != nil && token.Position != nil {
			f.line = token.Position.Line
		}
	}
	return f
}

// fault notes that this place is wrong.
func (f field) fault(rule string, args ...any) {
	value := ""
	if _, sequence := f.node.(*ast.SequenceNode); f.node != nil && !sequence && !f.isMapping() {
		value = f.scalar()
	}
	f.faultValue(value, rule, args...)
}

func (f field) faultValue(value, rule string, args ...any) {
	const limit = 80
	if len(value) > limit {
		value = strings.ToValidUTF8(value[:limit], "") + "..."
	}
	if f.path != "" && slices.ContainsFunc(f.d.faults, func(o Fault) bool { return o.File == f.d.file && o.Field == f.path }) {
		return // the first says enough
	}
	f.d.faults = append(f.d.faults, Fault{
		File: f.d.file, Line: f.line, Field: f.path, Value: value, Rule: fmt.Sprintf(rule, args...),
	})
}

// absent reports whether the file says nothing here: no member, or null.
func (f field) absent() bool {
	if f.node == nil {
		return true
	}
	_, null := f.node.(*ast.NullNode)
	return null
}

// refuseReferences turns away what our files do without: anchors, aliases, merge keys and tags. A line then says
// what it means.
func (f field) refuseReferences(depth int) {
	if depth > maxDepth {
		f.fault("must not nest deeper than %d levels", maxDepth)
		return
	}
	switch n := f.node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		f.faultValue("", "must not use anchors, aliases or merge keys")
	case *ast.TagNode:
		f.faultValue("", "must not use tags")
	case *ast.SequenceNode:
		for i, v := range n.Values {
			f.at(fmt.Sprintf("%s[%d]", f.path, i), v).refuseReferences(depth + 1)
		}
	default:
		for _, pair := range f.pairs() {
			if _, merge := pair.Key.(*ast.MergeKeyNode); merge {
				f.at(f.path, pair.Key).faultValue("", "must not use anchors, aliases or merge keys")
				continue
			}
			f.at(f.join(keyText(pair.Key)), pair.Value).refuseReferences(depth + 1)
		}
	}
}

// pairs are the members of a mapping, nil for anything else.
func (f field) pairs() []*ast.MappingValueNode {
	switch n := f.node.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

func keyText(key ast.MapKeyNode) string {
	if s, ok := key.(*ast.StringNode); ok {
		return s.Value
	}
	return key.String()
}

func (f field) join(name string) string {
	if f.path == "" {
		return name
	}
	return f.path + "." + name
}

// object reads a mapping that has members of these names only. get gives a member, an absent field where there is none.
func (f field) object(names ...string) (get func(name string) field) {
	members := map[string]field{}
	get = func(name string) field {
		if m, ok := members[name]; ok {
			return m
		}
		return field{d: f.d, path: f.join(name), line: f.line}
	}
	if f.absent() {
		return get
	}
	if !f.isMapping() {
		f.fault("must be a mapping with members of %s", strings.Join(names, ", "))
		return get
	}
	for _, pair := range f.pairs() {
		name := keyText(pair.Key)
		if !slices.Contains(names, name) {
			f.at(f.join(name), pair.Key).faultValue("", "is not known here; known are %s", strings.Join(names, ", "))
			continue
		}
		members[name] = f.at(f.join(name), pair.Value)
	}
	return get
}

func (f field) isMapping() bool {
	_, several := f.node.(*ast.MappingNode)
	_, one := f.node.(*ast.MappingValueNode)
	return several || one
}

// list reads a sequence; absent is none.
func (f field) list() []field {
	if f.absent() {
		return nil
	}
	n, ok := f.node.(*ast.SequenceNode)
	if !ok {
		f.fault("must be a list")
		return nil
	}
	elements := make([]field, len(n.Values))
	for i, v := range n.Values {
		elements[i] = f.at(fmt.Sprintf("%s[%d]", f.path, i), v)
	}
	return elements
}

// text reads a string; absent is "". Numbers and booleans are taken as they are written, for ids often look like them.
func (f field) text() string {
	if f.absent() {
		return ""
	}
	if _, sequence := f.node.(*ast.SequenceNode); sequence || f.isMapping() {
		f.fault("must be text")
		return ""
	}
	return f.scalar()
}

// required is text that must not be empty.
func (f field) required() string {
	s := f.text()
	if s == "" && f.absent() {
		f.fault("is missing")
	} else if s == "" {
		f.fault("must not be empty")
	}
	return s
}

// scalar is the text of a scalar as the file has it, without quotes.
func (f field) scalar() string {
	switch n := f.node.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.NullNode:
		return ""
	}
	if token := f.node.GetToken(); token != nil {
		return token.Value
	}
	return ""
}

// plain is the text of a scalar without quotes, as it is written.
func (f field) plain() (text string, ok bool) {
	switch f.node.(type) {
	case *ast.NullNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
	case *ast.StringNode:
		if f.node.GetToken().Type != token.StringType {
			return "", false
		}
	default:
		return "", false
	}
	return f.node.GetToken().Value, true
}

// integer reads a whole number from low to high; absent is the default.
func (f field) integer(byDefault, low, high int64) int64 {
	if f.absent() {
		return byDefault
	}
	if s, ok := f.plain(); ok && jsonscalar.IsWhole(s) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err == nil && n >= low && n <= high {
			return n
		}
	}
	f.fault("must be a whole number from %d to %d", low, high)
	return byDefault
}

// fraction reads a number from 0 to 1; absent is the default.
func (f field) fraction(byDefault float64) float64 {
	if f.absent() {
		return byDefault
	}
	s, ok := f.plain()
	n, err := strconv.ParseFloat(s, 64)
	if !ok || !jsonscalar.IsNumber(s) || err != nil || n < 0 || n > 1 {
		f.fault("must be a number from 0 to 1")
		return byDefault
	}
	return n
}

// texts reads a list of non-empty texts without repeats.
func (f field) texts() []string {
	var all []string
	for _, e := range f.list() {
		s := e.required()
		if slices.Contains(all, s) {
			e.fault("must not stand here twice")
		}
		all = append(all, s)
	}
	return all
}
