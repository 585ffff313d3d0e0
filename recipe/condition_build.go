package recipe

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/expr-lang/expr/ast"

	"github.com/taktworks/takt/internal/nearest"
)

// functions that an expression may call: without side effects, without a clock, quick.
var functions = []string{"abs", "ceil", "floor", "float", "int", "len", "lower", "max", "min", "round", "string", "trim", "upper"}

// operators of two operands that an expression may use. Ranges (..) are left out, for they make large
// arrays.
var operators = []string{"==", "!=", "<", "<=", ">", ">=", "and", "or", "&&", "||", "+", "-", "*", "/", "%", "**", "^", "??", "in", "contains", "startsWith", "endsWith", "matches"}

// builder turns the tree of an expression as written into the tree to compile. It lets
// through a small language only: literals, operators, ? :, functions of the list, and the
// names of spec A.5.4, each of which becomes a variable filled before evaluation. What
// stands where a truth value is needed goes through truthFunction.
type builder struct {
	actions   map[string]bool
	condition *condition
	ahead     bool  // of what is not known before the run, makes errLater
	at        int   // place of the node that is built
	err       error // the first
}

func (b *builder) fail(format string, args ...any) ast.Node {
	for i, a := range args {
		if n, ok := a.(ast.Node); ok {
			args[i] = clipped(n.String(), 0)
		}
	}
	if b.err == nil {
		b.err = &placedError{fmt.Errorf(format, args...), b.at}
	}
	return &ast.NilNode{}
}

// placed gives a new node the place of the one it stands for, so that errors at run time
// can be placed.
func placed(n, like ast.Node) ast.Node {
	n.SetLocation(like.Location())
	return n
}

func call(like ast.Node, function string, args ...ast.Node) ast.Node {
	return placed(&ast.CallNode{Callee: placed(&ast.IdentifierNode{Value: function}, like), Arguments: args}, like)
}

func (b *builder) node(n ast.Node) ast.Node {
	b.at = n.Location().From
	switch n := n.(type) {
	case *ast.NilNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.StringNode:
		return n
	case *ast.ChainNode:
		return b.node(n.Node)
	case *ast.IdentifierNode, *ast.MemberNode:
		return b.reference(n)
	case *ast.UnaryNode:
		if isNot(n) {
			return placed(&ast.UnaryNode{Operator: n.Operator, Node: b.truth(n.Node)}, n)
		}
		if n.Operator == "-" && !isLiteral(n.Node) {
			return call(n, negateFunction, b.node(n.Node))
		}
		return placed(&ast.UnaryNode{Operator: n.Operator, Node: b.node(n.Node)}, n)
	case *ast.BinaryNode:
		return b.binary(n)
	case *ast.ConditionalNode:
		return placed(&ast.ConditionalNode{Ternary: n.Ternary, Cond: b.truth(n.Cond), Exp1: b.node(n.Exp1), Exp2: b.node(n.Exp2)}, n)
	case *ast.ArrayNode:
		return placed(&ast.ArrayNode{Nodes: b.nodes(n.Nodes)}, n)
	case *ast.BuiltinNode:
		if !slices.Contains(functions, n.Name) {
			return b.fail("the function %s cannot be used", n.Name)
		}
		return placed(&ast.BuiltinNode{Name: n.Name, Arguments: b.nodes(n.Arguments), Throws: n.Throws}, n)
	case *ast.CallNode:
		return b.fail("unknown function %s", n.Callee)
	}
	return b.fail("%s cannot be used", n)
}

func (b *builder) nodes(list []ast.Node) []ast.Node {
	out := make([]ast.Node, len(list))
	for i, n := range list {
		out[i] = b.node(n)
	}
	return out
}

func (b *builder) binary(n *ast.BinaryNode) ast.Node {
	switch {
	case !slices.Contains(operators, n.Operator):
		return b.fail("the operator %s cannot be used", n.Operator)
	case isLogical(n.Operator):
		return placed(&ast.BinaryNode{Operator: n.Operator, Left: b.truth(n.Left), Right: b.truth(n.Right)}, n)
	case isCalculation(n.Operator):
		return call(n, calculationFunction(n.Operator), b.node(n.Left), b.node(n.Right))
	case n.Operator == "matches":
		pattern, ok := n.Right.(*ast.StringNode)
		if !ok {
			return b.fail("the pattern of matches must be a string")
		}
		if err := b.condition.patterns.add(pattern.Value); err != nil {
			return b.fail("%v", err)
		}
		return call(n, matchFunction, b.node(n.Left), pattern, placed(&ast.StringNode{Value: n.Left.String()}, n))
	}
	return placed(&ast.BinaryNode{Operator: n.Operator, Left: b.node(n.Left), Right: b.node(n.Right)}, n)
}

// truth is n where true or false is needed.
func (b *builder) truth(n ast.Node) ast.Node {
	b.at = n.Location().From
	switch n := n.(type) {
	case *ast.BoolNode:
		return n
	case *ast.UnaryNode:
		if isNot(n) {
			return b.node(n)
		}
		return b.fail("%s is not true or false", n)
	case *ast.BinaryNode:
		switch {
		case isLogical(n.Operator) || isComparison(n.Operator):
			return b.node(n)
		case n.Operator != "??":
			return b.fail("%s is not true or false", n)
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.StringNode, *ast.ArrayNode, *ast.NilNode, *ast.BuiltinNode:
		b.node(n) // an unknown name in it is the better message
		return b.fail("%s is not true or false", n)
	}
	return call(n, truthFunction, b.node(n), placed(&ast.StringNode{Value: n.String()}, n))
}

func isLogical(operator string) bool {
	return slices.Contains([]string{"and", "or", "&&", "||"}, operator)
}

func isComparison(operator string) bool {
	return slices.Contains([]string{"==", "!=", "<", "<=", ">", ">=", "in", "contains", "startsWith", "endsWith", "matches"}, operator)
}

// reference is a name with what follows it: actions.weld.result.a[0], (…).b.
func (b *builder) reference(n ast.Node) ast.Node {
	root, below := flatten(n)
	var value ast.Node
	if name, ok := root.(*ast.IdentifierNode); ok {
		value, below = b.variable(n, name.Value, below)
	} else {
		value = b.node(root)
	}
	if isLiteral(root) {
		return b.fail("%s has no members", root)
	}
	_, list := root.(*ast.ArrayNode)
	for i, m := range below {
		value = call(n, memberFunction, value, b.node(m), placed(&ast.BoolNode{Value: list && i == 0}, n))
	}
	return value
}

// flatten takes members off n, those of ?. too: what they are members of, and they from there on.
func flatten(n ast.Node) (root ast.Node, members []ast.Node) {
	root = n
	for {
		if m, ok := root.(*ast.MemberNode); ok {
			members = append(members, m.Property)
			root = m.Node
		} else if c, ok := root.(*ast.ChainNode); ok {
			root = c.Node
		} else {
			break
		}
	}
	slices.Reverse(members)
	return root, members
}

// variable makes a reference of a name and as many constant members as follow it. What
// is left of the members is evaluated at run time.
func (b *builder) variable(n ast.Node, name string, below []ast.Node) (ast.Node, []ast.Node) {
	path := constantPath(below)
	first, _ := at(path, 0).(string)
	second, _ := at(path, 1).(string)
	r := reference{root: first}
	taken := 1 // members that make the root
	switch {
	case name == "actions" && len(path) == 0:
		return b.fail("write actions.<name>.ok or actions.<name>.result"), nil
	case name == "actions" && !b.actions[first]:
		return b.fail("there is no action %q%s", fmt.Sprint(path[0]), nearest.Ask(fmt.Sprint(path[0]), slices.Sorted(maps.Keys(b.actions)))), nil
	case name == "actions" && second != "ok" && second != "result":
		return b.fail("write actions.%s.ok or actions.%s.result", first, first), nil
	case name == "actions":
		r.root, r.action, taken = second, first, 2
	case name == "job" && first != "id" && first != "parameters":
		return b.fail("write job.id or job.parameters.<id>"), nil
	case name == "job":
	case name == "step" && first != "t":
		return b.fail("write step.t, the seconds since the step became active"), nil
	case name == "step":
		b.condition.timed = true
	default:
		return b.fail("unknown name %q", name), nil
	}
	r.path = path[taken:]
	if len(below) > taken && r.root != "result" && r.root != "parameters" {
		return b.fail("%s has no members", r.root), nil
	}
	if b.ahead && r.later() && r.root != "ok" {
		return call(n, laterFunction), below[len(path):]
	}
	r.text = pathText(name, path)
	value := placed(&ast.IdentifierNode{Value: b.name(r)}, n)
	if b.ahead && r.later() {
		value = call(n, laterFunction, value)
	}
	return value, below[len(path):]
}

// pathText is a name with members, as people write it.
func pathText(name string, path []any) string {
	for _, p := range path {
		if i, ok := p.(int); ok {
			name += "[" + strconv.Itoa(i) + "]"
		} else {
			name += "." + p.(string)
		}
	}
	return name
}

// name returns the variable for r, the same for the same reference.
func (b *builder) name(r reference) string {
	for _, known := range b.condition.refs {
		if known.root == r.root && known.action == r.action && slices.Equal(known.path, r.path) {
			return known.variable
		}
	}
	r.variable = "v" + strconv.Itoa(len(b.condition.refs))
	b.condition.refs = append(b.condition.refs, r)
	return r.variable
}

// constantPath is the leading members that are literals.
func constantPath(members []ast.Node) []any {
	var path []any
	for _, m := range members {
		switch m := m.(type) {
		case *ast.StringNode:
			path = append(path, m.Value)
		case *ast.IntegerNode:
			path = append(path, m.Value)
		default:
			return path
		}
	}
	return path
}

func at(path []any, i int) any {
	if i < len(path) {
		return path[i]
	}
	return nil
}
