package recipe

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser/lexer"
	"github.com/expr-lang/expr/vm/runtime"
)

// A number in an expression is an int if it is whole and fits, however it is written (3, 3.0, 3e0). A float64 stands for the
// shortest number that is read as it. Everything else is a long. So two numbers are equal only if they are written with the
// same value, except fractions of at most 17 digits: those come from programs that calculate in float64, as we do.

// long is a number of JSON that neither an int nor a float64 stands for, as it is written. It can be passed on and compared.
type long struct{ text string }

func (n long) String() string { return n.text }

// MarshalJSON gives the number as it came.
func (n long) MarshalJSON() ([]byte, error) { return []byte(n.text), nil }

// rangeError says that a number cannot be calculated with, or compared by size.
type rangeError struct {
	number long
	kind   string // "numbers" or "whole numbers"
}

func (e *rangeError) Error() string {
	return fmt.Sprintf("%s is out of the range of %s", e.number, e.kind)
}

// float is the float64 to calculate with.
func (n long) float() (float64, error) {
	if tooLarge(n) {
		return 0, &rangeError{n, "numbers"}
	}
	if d, _ := decimalOf(n.text); d.whole() {
		return 0, &rangeError{n, "whole numbers"}
	}
	return strconv.ParseFloat(n.text, 64)
}

// tooLarge tells whether v is a number that is larger than any float64.
func tooLarge(v any) bool {
	n, ok := v.(long)
	if !ok {
		return false
	}
	_, err := strconv.ParseFloat(n.text, 64)
	return err != nil
}

// numberOf is the number that text, a number of JSON or of an expression, says.
func numberOf(text string) any {
	if i, err := strconv.Atoi(text); err == nil {
		return i
	}
	f, err := strconv.ParseFloat(text, 64)
	if len(text) <= 16 && !strings.ContainsAny(text, "eE") && strings.Contains(text, ".") && !strings.HasSuffix(text, "0") && !strings.HasSuffix(text, ".") {
		return f // a fraction of at most 15 digits, as most are
	}
	d, ok := decimalOf(text)
	if !ok {
		return long{text}
	}
	if i, ok := d.int(); ok {
		return i
	}
	shortest, _ := decimalOf(strconv.FormatFloat(f, 'e', -1, 64))
	const normal, whole = 0x1p-1022, 1 << 53
	if err == nil && (d == shortest || len(d.digits) <= 17 && f != math.Trunc(f) && math.Abs(f) >= normal && math.Abs(f) < whole) {
		return f
	}
	return long{text}
}

// wholeOr is the int that f is equal to, or f.
func wholeOr(f float64) any {
	if f == math.Trunc(f) && f >= math.MinInt && f < -float64(math.MinInt) {
		return int(f)
	}
	return f
}

// number is v as a float64 to calculate with. It is not ok if v is no number.
func number(v any) (f float64, ok bool, err error) {
	switch v := v.(type) {
	case int:
		return float64(v), true, nil
	case float64:
		return v, true, nil
	case long:
		f, err = v.float()
		return f, true, err
	}
	return 0, false, nil
}

// decimal is a number: 0.digits times ten to the power of exponent.
type decimal struct {
	negative bool
	digits   string // without zeros at either end, so "" is 0
	exponent int
}

// decimalOf is not ok if the exponent is beyond every use.
func decimalOf(text string) (d decimal, ok bool) {
	text, d.negative = strings.CutPrefix(text, "-")
	ok = true
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		var err error
		d.exponent, err = strconv.Atoi(text[i+1:])
		text, ok = text[:i], err == nil && d.exponent > math.MinInt/2 && d.exponent < math.MaxInt/2
	}
	whole, fraction, _ := strings.Cut(text, ".")
	all := whole + fraction
	d.digits = strings.TrimLeft(all, "0")
	d.exponent += len(whole) - (len(all) - len(d.digits))
	d.digits = strings.TrimRight(d.digits, "0")
	if d.digits == "" {
		return decimal{}, true
	}
	return d, ok
}

func (d decimal) whole() bool { return d.exponent >= len(d.digits) }

func (d decimal) int() (int, bool) {
	if d.digits == "" {
		return 0, true
	}
	if !d.whole() || d.exponent > 19 {
		return 0, false
	}
	text := d.digits + strings.Repeat("0", d.exponent-len(d.digits))
	if d.negative {
		text = "-" + text
	}
	i, err := strconv.Atoi(text)
	return i, err == nil
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// compare is below 0 if d is less than e, and above 0 if it is more.
func (d decimal) compare(e decimal) int {
	switch {
	case d.sign() != e.sign():
		return d.sign() - e.sign()
	case d.exponent != e.exponent && d.exponent < e.exponent:
		return -d.sign()
	case d.exponent != e.exponent:
		return d.sign()
	}
	return d.sign() * strings.Compare(d.digits, e.digits)
}

// decimalFrom is v, which is a number.
func decimalFrom(v any) (d decimal, err error) {
	switch v := v.(type) {
	case int:
		d, _ = decimalOf(strconv.Itoa(v))
	case float64:
		d, _ = decimalOf(strconv.FormatFloat(v, 'e', -1, 64))
	case long:
		var ok bool
		if d, ok = decimalOf(v.text); !ok {
			return d, &rangeError{v, "numbers"}
		}
	}
	return d, nil
}

func isNumber(v any) bool {
	switch v.(type) {
	case int, float64, long:
		return true
	}
	return false
}

// compareNumbers is below 0 if a is less than b, and above 0 if it is more. Both are numbers.
func compareNumbers(a, b any) (int, error) {
	if a, ok := a.(int); ok {
		if b, ok := b.(int); ok {
			return cmp.Compare(a, b), nil
		}
	}
	if a, ok := a.(float64); ok {
		if b, ok := b.(float64); ok {
			return cmp.Compare(a, b), nil
		}
	}
	x, err := decimalFrom(a)
	if err != nil {
		return 0, err
	}
	y, err := decimalFrom(b)
	if err != nil {
		return 0, err
	}
	return x.compare(y), nil
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
func equal(a, b any) (bool, error) {
	if isNumber(a) && isNumber(b) {
		c, err := compareNumbers(a, b)
		return c == 0, err
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false, nil
		}
		for i := range a {
			if same, err := equal(a[i], b[i]); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false, nil
		}
		for key := range a {
			value, ok := b[key]
			if !ok {
				return false, nil
			}
			if same, err := equal(a[key], value); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	return runtime.Equal(a, b), nil
}

const (
	compareFunction = "$compare"
	numericFunction = "$numeric"
)

// The functions that stand for comparisons, and for functions of numbers.
var exact = []expr.Option{
	expr.Function(compareFunction, compareOperation, new(func(string, any, any) bool)),
	expr.Function(numericFunction, numeric, new(func(string, ...any) any)),
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
		switch n.Name {
		case "abs", "ceil", "float", "floor", "int", "max", "min", "round":
			*node = call(n, numericFunction, append([]ast.Node{placed(&ast.StringNode{Value: n.Name}, n)}, n.Arguments...)...)
		}
	}
}

// compareOperation is an operator that compares its two operands.
func compareOperation(args ...any) (any, error) {
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
	if !isNumber(a) || !isNumber(b) {
		switch operator { // strings, or the error of the library
		case "<":
			return runtime.Less(a, b), nil
		case "<=":
			return runtime.LessOrEqual(a, b), nil
		case ">":
			return runtime.More(a, b), nil
		}
		return runtime.MoreOrEqual(a, b), nil
	}
	c, err := compareBySize(a, b)
	if err != nil {
		return nil, err
	}
	switch operator {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	}
	return c >= 0, nil
}

// numeric is a function of numbers. What is no number goes to that of the library, for its errors.
func numeric(args ...any) (any, error) {
	name := args[0].(string)
	args = args[1:]
	if name == "max" || name == "min" {
		return extreme(name, args)
	}
	v := args[0]
	if n, ok := v.(long); ok {
		f, err := n.float()
		if err != nil {
			return nil, err
		}
		v = f
	}
	switch x := v.(type) {
	case string:
		if name != "float" {
			break
		}
		if src, err := parse([]byte(x), 1); err == nil && src.root.kind == '0' {
			return numberOf(x), nil
		}
		f, _ := builtin.Float(x).(float64)
		if math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, fmt.Errorf("float(%s) is no number", x)
		}
		return wholeOr(f), nil
	case int:
		if name != "abs" || x >= 0 {
			return x, nil
		}
		if x == math.MinInt {
			return nil, fmt.Errorf("abs(%v) is out of the range of whole numbers", x)
		}
		return -x, nil
	case float64:
		switch name {
		case "abs":
			return math.Abs(x), nil
		case "float":
			return x, nil
		case "ceil":
			return wholeOr(math.Ceil(x)), nil
		case "floor":
			return wholeOr(math.Floor(x)), nil
		case "round":
			return wholeOr(math.Round(x)), nil
		}
		if i, ok := wholeOr(math.Trunc(x)).(int); ok {
			return i, nil
		}
		return nil, fmt.Errorf("int(%v) is out of the range of whole numbers", x)
	}
	return builtin.Builtins[builtin.Index[name]].Fast(v), nil
}

// extreme is the largest or the smallest of some numbers, and of those in arrays.
func extreme(name string, args []any) (best any, err error) {
	for _, v := range args {
		if list, ok := v.([]any); ok {
			if v, err = extreme(name, list); err != nil || v == nil {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		switch {
		case v == nil:
			return nil, fmt.Errorf("invalid argument for %s (type invalid)", name)
		case !isNumber(v):
			return nil, fmt.Errorf("invalid argument for %s (type %T)", name, v)
		case best == nil:
			best = v
		}
		c, err := compareBySize(v, best)
		if err != nil {
			return nil, err
		}
		if c < 0 && name == "min" || c > 0 && name == "max" {
			best = v
		}
	}
	return best, nil
}

// literals are the numbers with a point or an exponent in an expression, by where they begin. The error names one that cannot be kept.
func literals(text string) (map[int]any, error) {
	tokens, err := lexer.Lex(file.NewSource(text))
	if err != nil {
		return nil, nil // the parser says the same
	}
	found := map[int]any{}
	for _, t := range tokens {
		written := strings.ToLower(strings.ReplaceAll(t.Value, "_", ""))
		if t.Kind != lexer.Number || strings.HasPrefix(written, "0x") || strings.HasPrefix(written, "0b") || strings.HasPrefix(written, "0o") {
			continue
		}
		v := numberOf(written)
		switch {
		case tooLarge(v):
			return nil, fmt.Errorf("the number %s is out of the range of numbers", t.Value)
		case isLong(v) || !isInt(v) && !strings.ContainsAny(written, ".e"):
			return nil, fmt.Errorf("the number %s has more digits than an expression keeps: compare with a parameter of the order instead", t.Value)
		}
		found[t.From] = v
	}
	return found, nil
}

func isLong(v any) bool { _, ok := v.(long); return ok }
func isInt(v any) bool  { _, ok := v.(int); return ok }

// literal puts numbers in the place of those that the library read.
type literal map[int]any

func (w literal) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.FloatNode)
	if !ok {
		return
	}
	if i, ok := w[n.Location().From].(int); ok {
		*node = placed(&ast.IntegerNode{Value: i}, n)
	}
}
