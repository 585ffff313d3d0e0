package recipe

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// need is a job order parameter without which an expression can fail, or a member of one.
type need struct {
	path []any  // the parameter, then members and elements
	name string // as written below job.parameters, for messages
}

// needsOf lists what expression n, as written, needs of an order: what is compared by size,
// calculated with, searched or searched for, without ?? and outside a test for nil. As a
// truth value, in == and in != a missing parameter does no harm. value says that the result
// itself must be there, as that of a reference in Parameters.
func needsOf(n ast.Node, value bool) []need {
	w := needsWalk{value: value}
	w.walk(n, value, nil)
	return w.found
}

type needsWalk struct {
	value bool
	found []need
}

// present lists parameters that are there where an expression is evaluated.
type present struct {
	name string
	next *present
}

func (p *present) has(name string) bool {
	for ; p != nil; p = p.next {
		if p.name == name {
			return true
		}
	}
	return false
}

// walk looks at n; strict says that n must not be nil.
func (w *needsWalk) walk(n ast.Node, strict bool, known *present) {
	switch n := n.(type) {
	case *ast.ChainNode:
		w.walk(n.Node, strict, known)
	case *ast.IdentifierNode, *ast.MemberNode:
		w.reference(n, strict, known)
	case *ast.UnaryNode:
		w.walk(n.Node, n.Operator == "-" || n.Operator == "+", known)
	case *ast.BinaryNode:
		w.binary(n, strict, known)
	case *ast.ConditionalNode:
		w.walk(n.Cond, false, known)
		w.walk(n.Exp1, strict, learn(known, n.Cond, true))
		w.walk(n.Exp2, strict, learn(known, n.Cond, false))
	case *ast.ArrayNode:
		for _, e := range n.Nodes {
			w.walk(e, false, known)
		}
	case *ast.BuiltinNode:
		for _, a := range n.Arguments { // string makes a text of nil, which no command should hold
			w.walk(a, n.Name != "string" || w.value, known)
		}
	}
}

func (w *needsWalk) binary(n *ast.BinaryNode, strict bool, known *present) {
	switch n.Operator {
	case "and", "&&":
		w.walk(n.Left, false, known)
		w.walk(n.Right, false, learn(known, n.Left, true))
	case "or", "||":
		w.walk(n.Left, false, known)
		w.walk(n.Right, false, learn(known, n.Left, false))
	case "??":
		w.walk(n.Left, false, known)
		w.walk(n.Right, strict, known)
	case "==", "!=":
		w.walk(n.Left, false, known)
		w.walk(n.Right, false, known)
	default:
		w.walk(n.Left, true, known)
		w.walk(n.Right, true, known)
	}
}

func (w *needsWalk) reference(n ast.Node, strict bool, known *present) {
	root, members := flatten(n)
	if _, name := root.(*ast.IdentifierNode); !name {
		w.walk(root, strict, known)
	}
	path := constantPath(members)
	for _, m := range members[len(path):] {
		w.walk(m, strict, known)
	}
	if needed, ok := parameterOf(n); ok && strict && !known.has(needed.name) &&
		!slices.ContainsFunc(w.found, func(f need) bool { return f.name == needed.name }) {
		w.found = append(w.found, needed)
	}
}

// learn adds what is known to be there when n is true, or when it is false.
func learn(known *present, n ast.Node, truth bool) *present {
	switch n := n.(type) {
	case *ast.ChainNode:
		return learn(known, n.Node, truth)
	case *ast.IdentifierNode, *ast.MemberNode:
		if p, ok := parameterOf(n); ok && truth {
			return &present{p.name, known}
		}
	case *ast.UnaryNode:
		if n.Operator == "not" || n.Operator == "!" {
			return learn(known, n.Node, !truth)
		}
	case *ast.BinaryNode:
		switch n.Operator {
		case "and", "&&", "or", "||":
			if truth == (n.Operator == "and" || n.Operator == "&&") {
				return learn(learn(known, n.Left, truth), n.Right, truth)
			}
		case "==", "!=":
			equal := truth == (n.Operator == "==")
			for _, sides := range [][2]ast.Node{{n.Left, n.Right}, {n.Right, n.Left}} {
				p, ok := parameterOf(sides[0])
				if _, isNil := sides[1].(*ast.NilNode); ok && (isNil && !equal || isLiteral(sides[1]) && equal) {
					known = &present{p.name, known}
				}
			}
		case "in": // 'a' in job.parameters
			name, ok := n.Left.(*ast.StringNode)
			root, members := flatten(n.Right)
			if id, is := root.(*ast.IdentifierNode); ok && is && id.Value == "job" && slices.Equal(constantPath(members), []any{"parameters"}) && len(members) == 1 && truth {
				return &present{name.Value, known}
			}
		}
	}
	return known
}

func isLiteral(n ast.Node) bool {
	switch n.(type) {
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.StringNode:
		return true
	}
	return false
}

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

// Missing lists the parameters that o lacks and for want of which a condition or a command
// of p can fail, in the order of the recipe, each once. A parameter whose value is null is
// missing.
func (p *Program) Missing(o Order) []string {
	c := newCache()
	var missing []string
	for _, n := range p.needs {
		id, ok := n.path[0].(string)
		if ok && follow(c.parameter(&o, id), n.path[1:]) == nil {
			missing = append(missing, n.name)
		}
	}
	return missing
}

// Refusal says why o cannot run p: parameters that are missing, or the first reference in
// Parameters that fails and depends on o alone. It is "" if nothing is known to fail.
func (p *Program) Refusal(o Order) string {
	switch missing := p.Missing(o); len(missing) {
	case 0:
	case 1:
		return "parameter " + missing[0] + " is missing"
	default:
		return "parameters " + strings.Join(missing, ", ") + " are missing"
	}
	for i, t := range p.templates {
		if t == nil || t.later {
			continue
		}
		if _, err := t.resolve(scope{order: &o, execution: &Execution{}, cache: newCache()}); err != nil {
			return "action " + p.actions[i].Name + ": Parameters" + err.Error()
		}
	}
	return ""
}
