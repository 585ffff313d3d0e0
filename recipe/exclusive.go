package recipe

import "github.com/expr-lang/expr/ast"

// opposite comparisons: never do both hold.
var opposite = map[string]string{"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

// shape is what exclusive looks at of an expression, as texts, for a recipe may have many
// pairs to compare.
type shape struct {
	whole                 string
	negated               string // of "not x": x
	left, operator, right string // of a comparison
	literal               any    // the right side, if it is one
}

func shapeOf(n ast.Node) shape {
	s := shape{whole: n.String()}
	switch n := n.(type) {
	case *ast.UnaryNode:
		if isNot(n) {
			s.negated = n.Node.String()
		}
	case *ast.BinaryNode:
		s.left, s.operator, s.right, s.literal = n.Left.String(), n.Operator, n.Right.String(), literalValue(n.Right)
	}
	return s
}

// exclusive tells whether a and b can be seen, from their text, never to hold together.
// false: perhaps they can.
func exclusive(a, b *condition) bool {
	switch {
	case a.kind == conditionNever || b.kind == conditionNever:
		return true
	case a.kind == conditionAlways || b.kind == conditionAlways:
		return false
	case a.kind == conditionOtherwise || b.kind == conditionOtherwise:
		return a.kind != b.kind // otherwise is for when no other holds
	case a.program == nil || b.program == nil: // did not compile
		return false
	}
	return negates(&a.shape, &b.shape) || negates(&b.shape, &a.shape) || differ(&a.shape, &b.shape)
}

// opposites tells whether a and b can be seen, from their text, to be expressions of which
// one always holds. false: perhaps they are not.
func opposites(a, b *condition) bool {
	return a.program != nil && b.program != nil && (negates(&a.shape, &b.shape) || negates(&b.shape, &a.shape))
}

// negates: b is "not a", or the opposite comparison of the same things.
func negates(a, b *shape) bool {
	if b.negated != "" {
		return b.negated == a.whole
	}
	return a.operator != "" && opposite[a.operator] == b.operator && a.left == b.left && a.right == b.right
}

// differ: both compare the same thing, to different literals.
func differ(a, b *shape) bool {
	return a.operator == "==" && b.operator == "==" && a.left == b.left &&
		a.literal != nil && b.literal != nil && a.literal != b.literal
}
