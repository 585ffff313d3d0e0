package recipe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/taktworks/takt/internal/jsonscan"
	"github.com/taktworks/takt/internal/nearest"
)

// Limits of the Parameters of a command after its references were resolved.
const (
	// MaxParametersBytes is their size in bytes. They stand in the execution document until
	// the command is answered.
	MaxParametersBytes = 256 << 10
	// MaxParametersDepth is how deep arrays and objects may nest in them.
	MaxParametersDepth = 60
	// MaxParametersElements is how many elements one array in them may have.
	MaxParametersElements = 10_000
)

// The members that make a reference of an object that has no other member.
const (
	refValue   = "$value"
	refExpr    = "$expr"
	refLiteral = "$literal"
)

// template is the Parameters of an action with references in them. It is immutable.
type template struct {
	text  []byte // of the recipe, without white space
	refs  []parameterRef
	needs []need
	later bool // it refers to results of actions or to step.t, so the order alone does not tell it
}

// parameterRef is one reference: text[start:end] is the object that it takes the place of.
// Exactly one of the others is set.
type parameterRef struct {
	start, end int
	pointer    string

	literal json.RawMessage // $literal
	expr    *condition      // $expr
	values  []operand       // $value: the first that is there
}

// operand is a name, or what stands in its place when it is missing.
type operand struct {
	ref     *reference
	literal json.RawMessage
}

// parameterFault is a reference that cannot be used (R039) or fails for each order (R041).
type parameterFault struct {
	code     string
	pointer  string // below Parameters
	severity string
	message  string
	fix      string
}

// compileParameters finds the references in Parameters. It is nil if there are none. What has a fault is left as it is
// written: so it was sent before there were references.
func compileParameters(text json.RawMessage, actions map[string]bool) (*template, []parameterFault) {
	if !bytes.ContainsRune(text, '$') && !bytes.Contains(text, []byte(`\u0024`)) {
		return nil, nil
	}
	src, err := parse(text, maxDepth)
	if err != nil {
		return nil, nil // not from a decoded recipe
	}
	b := parametersBuilder{source: &src, actions: actions, t: &template{text: text}}
	b.node(&src.root, "")
	if len(b.t.refs) == 0 {
		return nil, b.faults
	}
	return b.t, b.faults
}

type parametersBuilder struct {
	*source
	actions map[string]bool
	t       *template
	faults  []parameterFault
}

func (b *parametersBuilder) node(n *node, pointer string) {
	if n.kind == '{' && len(n.kids) == 1 {
		key := n.kids[0].key
		if isReference(key) {
			b.reference(n, key, &n.kids[0], pointer)
			return
		}
		if meant := nearest.Name(key, []string{refValue, refExpr, refLiteral}); meant != "" && strings.HasPrefix(key, "$") {
			b.faults = append(b.faults, parameterFault{"R039", pointer, SeverityWarning, fmt.Sprintf("the object with the member %q is sent as it is, did you mean %s?", key, meant), "write " + meant})
		}
	}
	if n.kind == '{' && len(n.kids) > 1 {
		if i := slices.IndexFunc(n.kids, func(kid node) bool { return isReference(kid.key) }); i >= 0 {
			b.faults = append(b.faults, parameterFault{"R039", pointer, SeverityWarning, fmt.Sprintf("the object with the member %q has others beside it, so it is sent as it is", n.kids[i].key), "let it be the only one, or leave it out"})
		}
	}
	for i := range n.kids {
		kid := &n.kids[i]
		if n.kind == '{' {
			b.node(kid, pointer+"/"+kid.key)
		} else {
			b.node(kid, pointer+"/"+strconv.Itoa(i))
		}
	}
}

func isReference(member string) bool {
	return member == refValue || member == refExpr || member == refLiteral
}

func (b *parametersBuilder) reference(n *node, key string, value *node, pointer string) {
	ref := parameterRef{start: n.start, end: n.end, pointer: pointer}
	if key == refLiteral {
		ref.literal = b.raw(value)
		b.t.refs = append(b.t.refs, ref)
		return
	}
	refuse := func(err error) {
		fix := "write a name such as job.parameters.torque or actions.weld.result.torque, if need be with ?? and another value"
		if key == refExpr {
			fix = "write an expression as in a condition"
		}
		b.faults = append(b.faults, parameterFault{"R039", pointer, SeverityError, fmt.Sprintf("%s: %v", key, err), fix})
	}
	if value.kind != '"' {
		refuse(fmt.Errorf("it must be a string, and is %s", value.describe()))
		return
	}
	c, tree, err := compileValue(value.text, b.actions)
	if err == nil && key == refValue {
		ref.values, err = operands(tree, b.actions)
	} else {
		ref.expr = c
	}
	if err != nil {
		refuse(err)
		return
	}
	if fault := constantFault(tree); fault != nil {
		b.faults = append(b.faults, parameterFault{"R041", pointer, SeverityError, fmt.Sprintf("%s: %v", key, fault), "mend that part"})
	}
	b.t.later = b.t.later || c.later()
	b.t.needs = append(b.t.needs, c.needs...)
	b.t.refs = append(b.t.refs, ref)
}

// operands takes a name apart from what ?? puts in its place.
func operands(n ast.Node, actions map[string]bool) ([]operand, error) {
	const want = "it must be the name of a value, such as job.parameters.torque; for anything else there is $expr"
	switch n := n.(type) {
	case *ast.ChainNode:
		return operands(n.Node, actions)
	case *ast.BinaryNode:
		if n.Operator != "??" {
			return nil, fmt.Errorf("%s", want)
		}
		left, err := operands(n.Left, actions)
		if err != nil {
			return nil, err
		}
		right, err := operands(n.Right, actions)
		return append(left, right...), err
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.StringNode:
		literal, err := jsonOf(literalValue(n))
		return []operand{{literal: literal}}, err
	case *ast.IdentifierNode, *ast.MemberNode:
		b := builder{actions: actions, condition: &condition{}}
		_, plain := b.reference(n).(*ast.IdentifierNode)
		switch {
		case b.err != nil:
			return nil, b.err
		case !plain || len(b.condition.refs) != 1:
			return nil, fmt.Errorf("%s", want)
		}
		r := b.condition.refs[0]
		if r.root == "t" || r.root == "parameters" && len(r.path) == 0 {
			return nil, fmt.Errorf("%s", want)
		}
		return []operand{{ref: &r}}, nil
	}
	return nil, fmt.Errorf("%s", want)
}

// literalValue is the value of a literal, nil if n is none.
func literalValue(n ast.Node) any {
	switch n := n.(type) {
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		return n.Value
	case *ast.FloatNode:
		return n.Value
	case *ast.StringNode:
		return n.Value
	}
	return nil
}

// resolve puts values in the place of the references. The error begins with the JSON pointer of the reference below
// Parameters.
func (t *template) resolve(s scope) (json.RawMessage, error) {
	out := make([]byte, 0, len(t.text))
	done := 0
	for i := range t.refs {
		r := &t.refs[i]
		value, err := r.value(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.pointer, err)
		}
		out = append(append(out, t.text[done:r.start]...), value...)
		done = r.end
	}
	out = append(out, t.text[done:]...)
	if err := parametersFit(out); err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	return out, nil
}

func parametersFit(text []byte) error {
	if len(text) > MaxParametersBytes {
		return fmt.Errorf("they have %d bytes with the values in place, and may have %d", len(text), MaxParametersBytes)
	}
	s := jsonscan.Scanner{Data: text, MaxDepth: MaxParametersDepth, MaxElements: MaxParametersElements}
	if s.Space() != '{' {
		return fmt.Errorf("they must be an object, and are %s with the value in place", describeValue(plain(json.RawMessage(text))))
	}
	if err := s.Skip(); err != nil {
		return fmt.Errorf("with the values in place they %w", err)
	}
	return nil
}

func (r *parameterRef) value(s scope) (json.RawMessage, error) {
	switch {
	case r.literal != nil:
		return r.literal, nil
	case r.expr != nil:
		v, err := r.expr.evaluate(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.expr.text, err)
		}
		if v == nil {
			return nil, fmt.Errorf("%s has no value%s", r.expr.text, r.expr.lacks(s))
		}
		return jsonOf(v)
	}
	var names []string
	for _, o := range r.values {
		if o.ref == nil {
			return o.literal, nil
		}
		if raw := o.ref.raw(s); raw != nil {
			return raw, nil
		}
		names = append(names, o.ref.text)
	}
	return nil, fmt.Errorf("%s is missing", strings.Join(names, " and "))
}

// raw is the JSON text of what r refers to, nil if there is no such thing or it is null.
func (r *reference) raw(s scope) json.RawMessage {
	var text json.RawMessage
	path := r.path
	switch r.root {
	case "id":
		text, _ = jsonOf(s.order.ID)
	case "ok":
		text, _ = jsonOf(r.value(s))
	case "parameters":
		id := fmt.Sprint(path[0])
		path = path[1:]
		switch v := s.order.Parameters[id].(type) {
		case nil:
		case json.RawMessage:
			text = v
		default:
			text, _ = jsonOf(v)
		}
	case "result":
		if a := s.execution.Action(r.action); a != nil {
			text = a.Result
		}
	}
	if len(text) == 0 {
		return nil
	}
	src, err := parse(text, maxDepth+8)
	if err != nil {
		return nil
	}
	n := &src.root
	for _, p := range path {
		if n = n.below(p); n == nil {
			return nil
		}
	}
	if n.kind == 'n' {
		return nil
	}
	return src.raw(n)
}

// below is a member or an element of n, nil without one.
func (n *node) below(p any) *node {
	switch p := p.(type) {
	case string:
		if n.kind == '{' {
			return n.member(p)
		}
	case int:
		if n.kind == '[' && p >= 0 && p < len(n.kids) {
			return &n.kids[p]
		}
	}
	return nil
}

// jsonOf writes what an expression gives.
func jsonOf(v any) (json.RawMessage, error) {
	if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return nil, fmt.Errorf("the result is %v, which JSON cannot hold", f)
	}
	text, err := jsonscan.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("the result cannot be written: %w", err)
	}
	return text, nil
}
