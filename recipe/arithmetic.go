package recipe

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
)

// The expression library calculates as Go does: a sum that is too large for an int comes out negative, and a division by
// zero is infinite, which is more than any limit. Here each of them is an error. Their names cannot be written in an expression.
const (
	addFunction      = "$add"
	subtractFunction = "$subtract"
	multiplyFunction = "$multiply"
	divideFunction   = "$divide"
	powerFunction    = "$power"
	negateFunction   = "$negate"
	wholeFunction    = "$whole"
)

// calculations are the functions that stand for operators of two operands. % is the library's: what it gives is never
// larger than its operands.
var calculations = map[string]string{
	"+": addFunction, "-": subtractFunction, "*": multiplyFunction, "/": divideFunction, "**": powerFunction, "^": powerFunction,
}

// arithmetic are the options that give an expression these functions.
var arithmetic = []expr.Option{
	calculation(addFunction, "+", func(a, b int) (int, bool) { c := a + b; return c, (c > a) == (b > 0) }, func(a, b float64) float64 { return a + b }),
	calculation(subtractFunction, "-", func(a, b int) (int, bool) { c := a - b; return c, (c < a) == (b > 0) }, func(a, b float64) float64 { return a - b }),
	calculation(multiplyFunction, "*", multiplied, func(a, b float64) float64 { return a * b }),
	calculation(divideFunction, "/", nil, func(a, b float64) float64 { return a / b }),
	calculation(powerFunction, "**", nil, math.Pow),
	expr.Function(negateFunction, negate, new(func(any) any)),
	expr.Function(wholeFunction, whole, new(func(string, any) any)),
}

// lenientArithmetic is for executions that are not Strict: the library calculates, but for the concatenation of strings and
// arrays.
var lenientArithmetic = []expr.Option{expr.Function(addFunction, lenientAdd, new(func(any, any) any))}

func lenientAdd(args ...any) (any, error) {
	a, aInt := args[0].(int)
	b, bInt := args[1].(int)
	if aInt && bInt {
		return a + b, nil
	}
	x, okX := number(args[0])
	y, okY := number(args[1])
	if !okX || !okY {
		return nil, fmt.Errorf("cannot add %s and %s", describeValue(args[0]), describeValue(args[1]))
	}
	return x + y, nil
}

func multiplied(a, b int) (int, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	c := a * b
	return c, c/b == a && (a != -1 || b != math.MinInt) && (b != -1 || a != math.MinInt)
}

// calculation makes the function of an operator. whole is what it does with two ints, and whether the result is one; nil:
// the same as with other numbers.
func calculation(name, operator string, whole func(a, b int) (int, bool), fractional func(a, b float64) float64) expr.Option {
	var result any = new(func(any, any) float64)
	if whole != nil {
		result = new(func(any, any) any)
	}
	return expr.Function(name, func(args ...any) (any, error) {
		a, aInt := args[0].(int)
		b, bInt := args[1].(int)
		if aInt && bInt && whole != nil {
			c, ok := whole(a, b)
			if !ok {
				return nil, fmt.Errorf("%d %s %d is out of the range of whole numbers", a, operator, b)
			}
			return c, nil
		}
		x, okX := number(args[0])
		y, okY := number(args[1])
		switch {
		case (!okX || !okY) && operator == "+": // not the concatenation of strings and arrays, which could use much memory
			return nil, fmt.Errorf("cannot add %s and %s", describeValue(args[0]), describeValue(args[1]))
		case !okX || !okY:
			return nil, fmt.Errorf("invalid operation: %T %s %T", args[0], operator, args[1]) // plainWords knows these
		case operator == "/" && y == 0:
			return nil, fmt.Errorf("%v / %v is a division by zero", args[0], args[1])
		}
		z := fractional(x, y)
		if math.IsInf(z, 0) || math.IsNaN(z) {
			return nil, fmt.Errorf("%v %s %v is out of the range of numbers", args[0], operator, args[1])
		}
		return z, nil
	}, result)
}

func negate(args ...any) (any, error) {
	switch v := args[0].(type) {
	case int:
		if v == math.MinInt {
			return nil, fmt.Errorf("-(%d) is out of the range of whole numbers", v)
		}
		return -v, nil
	case float64:
		return -v, nil
	}
	return nil, fmt.Errorf("invalid operation: - %T", args[0])
}

// whole is its second argument, the one of int or abs, unless that has no int for it.
func whole(args ...any) (any, error) {
	i, isInt := args[1].(int)
	f, isFloat := args[1].(float64)
	if args[0] == "abs" && isInt && i == math.MinInt || args[0] == "int" && isFloat && (f < math.MinInt || f >= -math.MinInt) {
		return nil, fmt.Errorf("%s(%v) is out of the range of whole numbers", args...)
	}
	return args[1], nil
}

// tooLarge is a number of JSON that is larger than a float64, as it is written. It can be passed on, and neither compared
// by size nor calculated with.
type tooLarge struct{ text string }

func (n tooLarge) String() string { return n.text }

// MarshalJSON gives the number as it came.
func (n tooLarge) MarshalJSON() ([]byte, error) { return []byte(n.text), nil }

// infinite is v with infinity for numbers that are too large, as executions that are not Strict have it.
func infinite(v any) any {
	if n, ok := v.(tooLarge); ok {
		f, _ := json.Number(n.text).Float64()
		return f
	}
	return inside(v, infinite)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
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
		_, operands = flatten(n)
		return constantFaults(operands)
	default:
		return nil
	}
	if named(n) {
		return constantFaults(operands)
	}
	if _, _, err := constant(n); err != nil {
		return fmt.Errorf("%s fails for each order: %w", n, err)
	}
	return nil
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
	v := &nameVisitor{}
	ast.Walk(&n, v)
	return v.found
}

type nameVisitor struct{ found bool }

func (v *nameVisitor) Visit(n *ast.Node) {
	if _, ok := (*n).(*ast.IdentifierNode); ok {
		v.found = true
	}
}
