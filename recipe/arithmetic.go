package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
)

// The expression library calculates as Go does: a sum that is too large for an int comes out negative, and a division by
// zero is infinite, which is more than any limit. Here each of them is an error. The functions of the operators are called
// as they are with a $ in front, which cannot be written in an expression.
const negateFunction = "$negate"

func isCalculation(operator string) bool {
	return slices.Contains([]string{"+", "-", "*", "/", "%", "**", "^"}, operator)
}

func calculationFunction(operator string) string {
	if operator == "^" {
		operator = "**"
	}
	return "$" + operator
}

// arithmetic are the options that give an expression these functions.
var arithmetic = []expr.Option{
	calculation("+", true, func(a, b int) (int, bool) { c := a + b; return c, (c > a) == (b > 0) }, func(a, b float64) float64 { return a + b }),
	calculation("-", true, func(a, b int) (int, bool) { c := a - b; return c, (c < a) == (b > 0) }, func(a, b float64) float64 { return a - b }),
	calculation("*", true, multiplied, func(a, b float64) float64 { return a * b }),
	calculation("/", false, divided, func(a, b float64) float64 { return a / b }),
	calculation("**", false, power, math.Pow),
	expr.Function(calculationFunction("%"), remainder, new(func(any, any) any)),
	expr.Function(negateFunction, negate, new(func(any) any)),
}

func multiplied(a, b int) (int, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	c := a * b
	return c, c/b == a && (a != -1 || b != math.MinInt) && (b != -1 || a != math.MinInt)
}

func divided(a, b int) (int, bool) {
	if b == 0 || a%b != 0 || a == math.MinInt && b == -1 {
		return 0, false
	}
	return a / b, true
}

func power(a, b int) (c int, ok bool) {
	if b < 0 {
		return 0, false
	}
	if a >= -1 && a <= 1 {
		b = min(b, 2+b%2) // the same result, soon
	}
	for c, ok = 1, true; b > 0 && ok; b-- {
		c, ok = multiplied(c, a)
	}
	return c, ok
}

// remainder is the operator %.
func remainder(args ...any) (any, error) {
	a, aInt := args[0].(int)
	b, bInt := args[1].(int)
	switch {
	case aInt && bInt && b != 0:
		return a % b, nil
	case bInt && b == 0:
		return nil, errors.New("the right operand of % is 0")
	}
	_, okA, errA := number(args[0])
	_, okB, errB := number(args[1])
	switch {
	case errA != nil || errB != nil:
		return nil, cmp.Or(errA, errB)
	case okA && okB:
		return nil, fmt.Errorf("the operands of %% must be whole numbers, and are %v and %v", args[0], args[1])
	}
	return nil, fmt.Errorf("invalid operation: %T %% %T", args[0], args[1]) // plainWords knows these
}

// calculation makes the function of an operator. whole is what it does with two ints, and whether the result is one; if it is
// not, that is an error if must is true, else they are calculated with as other numbers are.
func calculation(operator string, must bool, whole func(a, b int) (int, bool), fractional func(a, b float64) float64) expr.Option {
	return expr.Function(calculationFunction(operator), func(args ...any) (any, error) {
		a, aInt := args[0].(int)
		b, bInt := args[1].(int)
		if aInt && bInt {
			if c, ok := whole(a, b); ok {
				return c, nil
			}
			if must {
				return nil, fmt.Errorf("%d %s %d is out of the range of whole numbers", a, operator, b)
			}
		}
		x, okX, errX := number(args[0])
		y, okY, errY := number(args[1])
		switch {
		case (!okX || !okY) && operator == "+": // not the concatenation of strings and arrays, which could use much memory
			return nil, fmt.Errorf("cannot add %s and %s", describeValue(args[0]), describeValue(args[1]))
		case !okX || !okY:
			return nil, fmt.Errorf("invalid operation: %T %s %T", args[0], operator, args[1]) // plainWords knows these
		case errX != nil || errY != nil:
			return nil, cmp.Or(errX, errY)
		case operator == "/" && y == 0:
			return nil, fmt.Errorf("%v / %v is a division by zero", args[0], args[1])
		}
		z := fractional(x, y)
		if math.IsInf(z, 0) || math.IsNaN(z) {
			return nil, fmt.Errorf("%v %s %v is out of the range of numbers", args[0], operator, args[1])
		}
		return wholeOr(z), nil
	}, new(func(any, any) any))
}

func negate(args ...any) (any, error) {
	switch v := args[0].(type) {
	case int:
		if v == math.MinInt {
			return nil, fmt.Errorf("-(%d) is out of the range of whole numbers", v)
		}
		return -v, nil
	default:
		if f, ok, err := number(v); ok {
			return -f, err
		}
	}
	return nil, fmt.Errorf("invalid operation: - %T", args[0])
}

// constantFault evaluates the parts of an expression, as written, that have no names in them. The error says which of them
// fails, as 1 / 0 does, for each order that comes to it. Parts that no order comes to, for a constant says so, are not looked at.
func constantFault(n ast.Node) error {
	var operands []ast.Node
	switch n := n.(type) {
	case *ast.ChainNode:
		operands = []ast.Node{n.Node}
	case *ast.UnaryNode:
		operands = []ast.Node{n.Node}
	case *ast.BinaryNode:
		operands = []ast.Node{n.Left, n.Right}
		if left, ok, err := constant(n.Left); ok && err == nil && decides(n.Operator, left) {
			operands = operands[:1]
		}
	case *ast.ConditionalNode:
		operands = []ast.Node{n.Cond, n.Exp1, n.Exp2}
		switch cond, ok, err := constant(n.Cond); {
		case !ok || err != nil:
		case cond == true:
			operands = operands[:2]
		default:
			operands = []ast.Node{n.Cond, n.Exp2}
		}
	case *ast.ArrayNode:
		operands = n.Nodes
	case *ast.BuiltinNode:
		operands = n.Arguments
	case *ast.MemberNode:
		root, members := flatten(n)
		names := len(constantPath(members))
		for i, m := range members {
			list, element := root.(*ast.ArrayNode)
			if element = element && i == 0; i < names && !element {
				continue
			}
			key, ok, err := constant(m)
			if !ok || err != nil {
				continue
			}
			if err = keyFault(key); err == nil && element {
				err = indexFault(key, len(list.Nodes))
			}
			if err != nil {
				return failsAlways(n, err)
			}
		}
		operands = append(members, root)
	default:
		return nil
	}
	if named(n) {
		return constantFaults(operands)
	}
	if _, _, err := constant(n); err != nil {
		return failsAlways(n, err)
	}
	return nil
}

func failsAlways(n ast.Node, err error) error {
	return &placedError{fmt.Errorf("%s fails for each order: %w", clipped(n.String(), 0), err), n.Location().From}
}

func constantFaults(nodes []ast.Node) error {
	for _, n := range nodes {
		if err := constantFault(n); err != nil {
			return err
		}
	}
	return nil
}

// decides tells whether an operator with this value on its left does not look at its right.
func decides(operator string, left any) bool {
	switch operator {
	case "and", "&&":
		return left != true
	case "or", "||":
		return left == true
	case "??":
		return left != nil
	}
	return false
}

// constant evaluates n. It is ok unless n has names in it, or does not compile by itself, though it is a part of what does.
func constant(n ast.Node) (value any, ok bool, err error) {
	if named(n) {
		return nil, false, nil
	}
	c, _, err := compileValue(n.String(), nil)
	if err != nil {
		return nil, false, nil
	}
	value, err = c.evaluate(scope{order: &Order{}, execution: &Execution{}, cache: new(cache)})
	return value, true, err
}

// named tells whether there is a name in n.
func named(n ast.Node) bool {
	return ast.Find(n, func(n ast.Node) bool { _, ok := n.(*ast.IdentifierNode); return ok }) != nil
}
