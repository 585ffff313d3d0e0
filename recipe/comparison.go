package recipe

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"
)

const (
	compareFunction = "$compare"
	numericFunction = "$numeric"
)

// The functions that stand for comparisons, and for functions of numbers.
var comparisons = []expr.Option{
	expr.Function(compareFunction, compareOperation, new(func(string, any, any) bool)),
	expr.Function(numericFunction, numeric, new(func(string, ...any) any)),
}

// fractional are the functions of one number, for those that are not whole.
var fractional = map[string]func(float64) float64{
	"abs": math.Abs, "ceil": math.Ceil, "float": func(f float64) float64 { return f }, "floor": math.Floor, "int": math.Trunc, "round": math.Round,
}

// exactly replaces the operators and functions of the library that convert numbers to float64. It visits a tree that the library has checked.
type exactly struct{}

func (exactly) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		switch n.Operator {
		case "==", "!=", "<", "<=", ">", ">=", "in":
			*node = call(n, compareFunction, placed(&ast.StringNode{Value: n.Operator}, n), n.Left, n.Right)
		}
	case *ast.BuiltinNode:
		if fractional[n.Name] != nil || n.Name == "max" || n.Name == "min" {
			*node = call(n, numericFunction, append([]ast.Node{placed(&ast.StringNode{Value: n.Name}, n)}, n.Arguments...)...)
		}
	}
}

// compareBySize is compareNumbers, but for numbers that are larger than any float64, as faults of sensors are.
func compareBySize(a, b any) (int, error) {
	for _, v := range []any{a, b} {
		if tooLarge(v) {
			return 0, &rangeError{v.(long), "numbers"}
		}
	}
	return compareNumbers(a, b)
}

// equal compares values of JSON.
func equal(a, b any) (same bool, err error) {
	each := func(a, b any) bool {
		same, wrong := equal(a, b)
		err = cmp.Or(err, wrong)
		return same
	}
	listA, isListA := a.([]any)
	listB, isListB := b.([]any)
	objectA, isObjectA := a.(map[string]any)
	objectB, isObjectB := b.(map[string]any)
	switch {
	case isNumber(a) && isNumber(b):
		c, err := compareNumbers(a, b)
		return c == 0 && err == nil, err
	case isListA && isListB:
		same = slices.EqualFunc(listA, listB, each)
	case isObjectA && isObjectB:
		same = maps.EqualFunc(objectA, objectB, each)
	default:
		same = runtime.Equal(a, b)
	}
	return same, err
}

// compareOperation is an operator that compares its two operands.
func compareOperation(args ...any) (_ any, err error) {
	operator, a, b := args[0].(string), args[1], args[2]
	switch operator {
	case "==", "!=":
		same, err := equal(a, b)
		return same == (operator == "=="), err
	case "in":
		list, ok := b.([]any)
		if !ok {
			return runtime.In(a, b), nil
		}
		for _, e := range list {
			if same, err := equal(a, e); same || err != nil {
				return same, err
			}
		}
		return false, nil
	}
	var c int
	textA, isTextA := a.(string)
	textB, isTextB := b.(string)
	switch {
	case isNumber(a) && isNumber(b):
		c, err = compareBySize(a, b)
	case isTextA && isTextB:
		c = cmp.Compare(textA, textB)
	default:
		err = fmt.Errorf("invalid operation: %T %s %T", a, operator, b) // plainWords knows these
	}
	switch operator {
	case "<":
		return c < 0, err
	case "<=":
		return c <= 0, err
	case ">":
		return c > 0, err
	}
	return c >= 0, err
}

// numeric is a function of numbers. What is no number goes to that of the library, for its errors.
func numeric(args ...any) (any, error) {
	name, args := args[0].(string), args[1:]
	if name == "max" || name == "min" {
		return extreme(name, args)
	}
	if i, ok := args[0].(int); ok {
		switch {
		case name != "abs" || i >= 0:
			return i, nil
		case i == math.MinInt:
			return nil, fmt.Errorf("abs(%d) is out of the range of whole numbers", i)
		}
		return -i, nil
	}
	if text, ok := args[0].(string); ok && name == "float" {
		if src, err := parse([]byte(text), 1); err != nil || src.root.kind != '0' {
			return nil, fmt.Errorf("float(%s) is no number", clipped(text, 0))
		}
		return numberOf(text), nil
	}
	f, ok, err := number(args[0])
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return builtin.Builtins[builtin.Index[name]].Fast(args[0]), nil
	}
	v := wholeOr(fractional[name](f))
	if name == "int" && !isInt(v) {
		return nil, fmt.Errorf("int(%v) is out of the range of whole numbers", f)
	}
	return v, nil
}

// extreme is the largest or the smallest of some numbers, and of those in arrays.
func extreme(name string, args []any) (best any, err error) {
	for _, v := range args {
		if list, ok := v.([]any); ok {
			if v, err = extreme(name, list); err != nil {
				return nil, err
			}
			if v == nil {
				continue
			}
		}
		if !isNumber(v) {
			return nil, fmt.Errorf("invalid argument for %s (type %T)", name, v) // plainWords knows these
		}
		c, err := compareBySize(v, cmp.Or(best, v))
		if err != nil {
			return nil, err
		}
		if best == nil || c < 0 && name == "min" || c > 0 && name == "max" {
			best = v
		}
	}
	return best, nil
}
