package recipe

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser/lexer"
)

// A number in an expression is an int if it is whole and fits, however it is written (3, 3.0, 3e0). A float64 stands for the
// shortest number that is read as it. Everything else is a long. So two numbers are equal only if they are written with the
// same value, except fractions of at most 17 digits: those come from programs that calculate in float64, as we do.

// long is a number of JSON that neither an int nor a float64 stands for, as it is written. It can be passed on and compared.
type long struct{ text string }

func (n long) String() string { return n.text }

// MarshalJSON gives the number as it came.
func (n long) MarshalJSON() ([]byte, error) { return []byte(n.text), nil }

// rangeError says that a number cannot be calculated with, or compared.
type rangeError struct {
	number long
	kind   string // "numbers" or "whole numbers"
}

func (e *rangeError) Error() string {
	return fmt.Sprintf("%s is out of the range of %s", clipped(e.number.text, 0), e.kind)
}

// numberOf is the number that text, a number of JSON or of an expression, says.
func numberOf(text string) any {
	if i, err := strconv.Atoi(text); err == nil {
		return i
	}
	f, err := strconv.ParseFloat(text, 64)
	if f != math.Trunc(f) {
		const normal = 0x1p-1022 // those below have fewer digits
		mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
		digits := strings.Trim(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")
		if len(digits) <= 17 && math.Abs(f) >= normal {
			return f
		}
		return long{text}
	}
	if n, ok := exact(long{text}); ok && n.IsInt() && err == nil {
		if i, err := strconv.Atoi(n.Num().String()); err == nil {
			return i
		}
		if shortest, ok := exact(f); ok && n.Cmp(shortest) == 0 {
			return f
		}
	}
	return long{text}
}

// exact is the value of v, which is a number. It is not ok if v has so many digits, or so large an exponent, that it costs time.
func exact(v any) (*big.Rat, bool) {
	const most = 1000
	switch v := v.(type) {
	case int:
		return new(big.Rat).SetInt64(int64(v)), true
	case float64:
		return new(big.Rat).SetString(strconv.FormatFloat(v, 'e', -1, 64))
	case long:
		_, after, _ := strings.Cut(strings.ToLower(v.text), "e")
		if exponent, _ := strconv.Atoi(after); len(v.text) <= most && exponent >= -most && exponent <= most {
			return new(big.Rat).SetString(v.text)
		}
	}
	return nil, false
}

// nearestFloat is the float64 nearest to v, which is a number; infinite if v is larger than any.
func nearestFloat(v any) (f float64) {
	switch v := v.(type) {
	case int:
		f = float64(v)
	case float64:
		f = v
	case long:
		f, _ = strconv.ParseFloat(v.text, 64)
	}
	return f
}

// number is v as a float64 to calculate with. It is not ok if v is no number.
func number(v any) (f float64, ok bool, err error) {
	if n, ok := v.(long); ok {
		switch value, ok := exact(n); {
		case !ok || tooLarge(n):
			err = &rangeError{n, "numbers"}
		case value.IsInt():
			err = &rangeError{n, "whole numbers"}
		}
	}
	return nearestFloat(v), isNumber(v), err
}

// wholeOr is the int that f is equal to, or f.
func wholeOr(f float64) any {
	if f == math.Trunc(f) && f >= math.MinInt && f < -float64(math.MinInt) {
		return int(f)
	}
	return f
}

func isInt(v any) bool  { _, ok := v.(int); return ok }
func isLong(v any) bool { _, ok := v.(long); return ok }

func isNumber(v any) bool {
	_, float := v.(float64)
	return float || isInt(v) || isLong(v)
}

// tooLarge tells whether v is a number that is larger than any float64.
func tooLarge(v any) bool { return isLong(v) && math.IsInf(nearestFloat(v), 0) }

// compareNumbers is below 0 if a is less than b, and above 0 if it is more. Both are numbers.
func compareNumbers(a, b any) (int, error) {
	if c := cmp.Compare(nearestFloat(a), nearestFloat(b)); c != 0 || a == b {
		return c, nil // for a larger number is never nearest to a smaller float64
	}
	x, okX := exact(a)
	y, okY := exact(b)
	switch {
	case !okX:
		return 0, &rangeError{a.(long), "numbers"}
	case !okY:
		return 0, &rangeError{b.(long), "numbers"}
	}
	return x.Cmp(y), nil
}

// literals are the whole numbers that an expression writes with a point or an exponent, by where they begin: 3.0 is 3. The error
// names a number that is not what it looks like.
func literals(text string) (map[int]int, error) {
	tokens, err := lexer.Lex(file.NewSource(text))
	if err != nil {
		return nil, nil // the parser says the same
	}
	found := map[int]int{}
	for _, t := range tokens {
		written := strings.ToLower(strings.ReplaceAll(t.Value, "_", ""))
		if t.Kind != lexer.Number || strings.ContainsAny(written, "xbo") {
			continue
		}
		v := numberOf(written)
		switch i, ok := v.(int); {
		case len(written) > 1 && written[0] == '0' && written[1] >= '0' && written[1] <= '9':
			err = fmt.Errorf("%s is a number with a leading zero: write it without, or in quotes if it is text", clipped(t.Value, 0))
		case tooLarge(v):
			err = fmt.Errorf("the number %s is out of the range of numbers", clipped(t.Value, 0))
		case isLong(v) || !ok && !strings.ContainsAny(written, ".e"):
			err = fmt.Errorf("the number %s has more digits than an expression keeps: compare with a parameter of the order instead", clipped(t.Value, 0))
		case ok:
			found[t.From] = i
		}
		if err != nil {
			return nil, &placedError{err, t.From}
		}
	}
	return found, nil
}

// literal puts whole numbers in the place of the fractions that the library read.
type literal map[int]int

func (w literal) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.FloatNode); ok {
		if i, ok := w[n.Location().From]; ok {
			*node = placed(&ast.IntegerNode{Value: i}, n)
		}
	}
}
