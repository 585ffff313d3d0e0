package recipe

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// need is what an expression needs of a job order: a parameter without which, or with another
// kind of value in which, it fails. Or a member of a parameter.
type need struct {
	path     []any  // the parameter, then members and elements
	name     string // as written below job.parameters, for messages
	optional bool   // it may be missing, and must be of its kind if it is there
	kind     kind   // of its value
	given    []fact // only an order of which these are true needs it
	certain  bool   // each such order does; else what else is true may make it needless
}

func (n need) equal(o need) bool {
	return n.name == o.name && n.optional == o.optional && n.kind == o.kind && slices.EqualFunc(n.given, o.given, fact.equal)
}

// of tells whether o needs n.
func (n need) of(o *Order, c *cache) bool {
	return !slices.ContainsFunc(n.given, func(f fact) bool { return !f.of(o, c) })
}

// fact is that a parameter, or a member of one, is there.
type fact struct {
	path []any
	null bool // or is null: 'name' in job.parameters
}

func (f fact) equal(g fact) bool { return f.null == g.null && slices.Equal(f.path, g.path) }

func (f fact) of(o *Order, c *cache) bool {
	if f.null {
		_, ok := o.Parameters[f.path[0].(string)]
		return ok
	}
	return c.below(o, f.path) != nil
}

// kind is a kind of values, in words; anyKind is any.
type kind string

const (
	anyKind    kind = ""
	numberKind kind = "a number"
	stringKind kind = "a string"
	truthKind  kind = "true or false"
)

// kindOf is the kind that the operators and functions of n make of it, or that it has as a literal.
func kindOf(n ast.Node) kind {
	switch n := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return numberKind
	case *ast.StringNode:
		return stringKind
	case *ast.UnaryNode:
		if n.Operator == "-" || n.Operator == "+" {
			return numberKind
		}
	case *ast.BinaryNode:
		if isCalculation(n.Operator) {
			return numberKind
		}
	case *ast.BuiltinNode:
		if n.Name == "len" || n.Name == "int" || n.Name == "float" {
			return numberKind
		}
		return argumentKinds[n.Name]
	case *ast.MemberNode:
		root, members := flatten(n)
		if id, ok := root.(*ast.IdentifierNode); ok && len(members) == 1 {
			switch path := constantPath(members); {
			case id.Value == "step" && slices.Equal(path, []any{"t"}):
				return numberKind
			case id.Value == "job" && slices.Equal(path, []any{"id"}):
				return stringKind
			}
		}
	}
	return anyKind
}

// The kinds of arguments, where they are always the same; that is also the kind of the result.
var (
	argumentKinds = map[string]kind{
		"abs": numberKind, "ceil": numberKind, "floor": numberKind, "round": numberKind,
		"lower": stringKind, "upper": stringKind, "trim": stringKind,
	}
)

// needsOf lists what expression n, as written, needs of an order: what is compared by size,
// calculated with, searched or searched for, without ?? and outside a test for nil. As a
// truth value, in == and in != a missing parameter does no harm. A kind is needed only where n
// is evaluated for each order that has what is given. value says that the result itself must be
// there, as that of a reference in Parameters.
func needsOf(n ast.Node, value bool) []need {
	w := needsWalk{value: value}
	d := demand{strict: value, certain: true}
	if !value {
		d.kind = truthKind
	}
	w.walk(n, d)
	return w.found
}

type needsWalk struct {
	value bool
	found []need
}

// demand is what the place of a part of an expression asks of it.
type demand struct {
	strict  bool     // it must not be nil
	kind    kind     // what it must be unless it is nil
	certain bool     // it is evaluated if what is known is so
	known   *present // where it is evaluated
}

// as is d for a part of another kind that is evaluated at the same place.
func (d demand) as(strict bool, k kind) demand {
	d.strict, d.kind = strict, k
	return d
}

// behind is d for what is evaluated only if test is true, or false.
func (d demand) behind(test ast.Node, truth bool) demand {
	known, all := learn(d.known, test, truth)
	d.known, d.certain = known, d.certain && all
	return d
}

// present lists what is true where an expression is evaluated.
type present struct {
	fact
	next *present
}

// has tells whether path is known to be there, by itself or by something below it.
func (p *present) has(path []any) bool {
	for ; p != nil; p = p.next {
		if !p.null && len(p.path) >= len(path) && slices.Equal(p.path[:len(path)], path) {
			return true
		}
	}
	return false
}

// above lists the facts about path and about what it is a member of.
func (p *present) above(path []any) []fact {
	return slices.DeleteFunc(p.facts(), func(f fact) bool {
		return len(f.path) > len(path) || !slices.Equal(f.path, path[:len(f.path)])
	})
}

func (p *present) facts() (all []fact) {
	for ; p != nil; p = p.next {
		all = append(all, p.fact)
	}
	return all
}

// walk looks at n, of which d is asked.
func (w *needsWalk) walk(n ast.Node, d demand) {
	switch n := n.(type) {
	case *ast.ChainNode:
		w.walk(n.Node, d)
	case *ast.IdentifierNode, *ast.MemberNode:
		w.reference(n, d)
	case *ast.UnaryNode:
		if n.Operator == "-" || n.Operator == "+" {
			w.walk(n.Node, d.as(true, numberKind))
		} else {
			w.walk(n.Node, d.as(false, truthKind))
		}
	case *ast.BinaryNode:
		w.binary(n, d)
	case *ast.ConditionalNode:
		w.walk(n.Cond, d.as(false, truthKind))
		w.walk(n.Exp1, d.behind(n.Cond, true))
		w.walk(n.Exp2, d.behind(n.Cond, false))
	case *ast.ArrayNode:
		for _, e := range n.Nodes {
			w.walk(e, d.as(false, anyKind))
		}
	case *ast.BuiltinNode:
		for _, a := range n.Arguments { // string makes a text of nil, which no command should hold
			w.walk(a, d.as(n.Name != "string" || w.value, argumentKinds[n.Name]))
		}
	}
}

func (w *needsWalk) binary(n *ast.BinaryNode, d demand) {
	left, right := anyKind, anyKind
	switch n.Operator {
	case "and", "&&", "or", "||":
		w.walk(n.Left, d.as(false, truthKind))
		w.walk(n.Right, d.as(false, truthKind).behind(n.Left, n.Operator == "and" || n.Operator == "&&"))
		return
	case "??":
		w.walk(n.Left, d.as(false, d.kind))
		d.certain = false
		w.walk(n.Right, d)
		return
	case "==", "!=":
		w.walk(n.Left, d.as(false, anyKind))
		w.walk(n.Right, d.as(false, anyKind))
		return
	case "<", "<=", ">", ">=":
		left, right = kindOf(n.Right), kindOf(n.Left)
	case "contains", "startsWith", "endsWith", "matches": // false, whatever the one is, if the other is nil
		if kindOf(n.Right) != anyKind {
			left = stringKind
		}
		if kindOf(n.Left) != anyKind {
			right = stringKind
		}
	default:
		if isCalculation(n.Operator) {
			left, right = numberKind, numberKind
		}
	}
	w.walk(n.Left, d.as(true, left))
	w.walk(n.Right, d.as(true, right))
}

func (w *needsWalk) reference(n ast.Node, d demand) {
	root, members := flatten(n)
	if _, name := root.(*ast.IdentifierNode); !name {
		w.walk(root, d.as(d.strict, anyKind))
	}
	path := constantPath(members)
	_, list := root.(*ast.ArrayNode)
	for i, m := range members[len(path):] {
		w.walk(m, d.as(d.strict || list && len(path)+i == 0, anyKind))
	}
	needed, ok := parameterOf(n)
	if !ok {
		return
	}
	if d.strict && !d.known.has(needed.path) {
		missing := needed
		missing.given = d.known.above(needed.path)
		missing.certain = d.certain && len(missing.given) == len(d.known.facts())
		w.add(missing)
	}
	if d.kind != anyKind && d.certain && len(path) == len(members) {
		needed.kind, needed.optional, needed.given = d.kind, true, d.known.facts()
		w.add(needed)
	}
}

func (w *needsWalk) add(n need) {
	if i := slices.IndexFunc(w.found, n.equal); i >= 0 {
		w.found[i].certain = w.found[i].certain || n.certain
		return
	}
	w.found = append(w.found, n)
}

// learn adds what is known to be there when n is true, or when it is false. all says that n is a test for that and for
// nothing else, so that it comes out so for each order that has it.
func learn(known *present, n ast.Node, truth bool) (after *present, all bool) {
	switch n := n.(type) {
	case *ast.ChainNode:
		return learn(known, n.Node, truth)
	case *ast.IdentifierNode, *ast.MemberNode:
		if p, ok := parameterOf(n); ok && truth {
			return &present{fact{path: p.path}, known}, false
		}
	case *ast.UnaryNode:
		if isNot(n) {
			return learn(known, n.Node, !truth)
		}
	case *ast.BinaryNode:
		switch n.Operator {
		case "and", "&&", "or", "||":
			if truth == (n.Operator == "and" || n.Operator == "&&") {
				left, allLeft := learn(known, n.Left, truth)
				right, allRight := learn(left, n.Right, truth)
				return right, allLeft && allRight
			}
		case "==", "!=":
			equal := truth == (n.Operator == "==")
			for _, sides := range [][2]ast.Node{{n.Left, n.Right}, {n.Right, n.Left}} {
				p, ok := parameterOf(sides[0])
				if _, isNil := sides[1].(*ast.NilNode); ok && (isNil && !equal || isLiteral(sides[1]) && equal) {
					known, all = &present{fact{path: p.path}, known}, isNil
				}
			}
			return known, all
		case "in": // 'a' in job.parameters
			if name, ok := memberOfParameters(n); ok && truth {
				return &present{fact{path: []any{name}, null: true}, known}, true
			}
		}
	}
	return known, false
}

func isNot(n *ast.UnaryNode) bool { return n.Operator == "not" || n.Operator == "!" }

// memberOfParameters is the name in: 'name' in job.parameters.
func memberOfParameters(n *ast.BinaryNode) (string, bool) {
	name, ok := n.Left.(*ast.StringNode)
	root, members := flatten(n.Right)
	id, is := root.(*ast.IdentifierNode)
	if !ok || !is || id.Value != "job" || len(members) != 1 || !slices.Equal(constantPath(members), []any{"parameters"}) {
		return "", false
	}
	return name.Value, true
}

func isLiteral(n ast.Node) bool { return literalValue(n) != nil }

// parameterOf is the job order parameter that n names, with its constant members.
func parameterOf(n ast.Node) (need, bool) {
	root, members := flatten(n)
	id, ok := root.(*ast.IdentifierNode)
	path := constantPath(members)
	if !ok || id.Value != "job" || len(path) < 2 || path[0] != "parameters" {
		return need{}, false
	}
	return need{path: path[1:], name: strings.TrimPrefix(pathText("", path[1:]), ".")}, true
}
