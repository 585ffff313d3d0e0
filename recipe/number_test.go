package recipe

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

func holdsFor(t *testing.T, text string, parameters ...string) (bool, error) {
	t.Helper()
	c, err := compileCondition(text, nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	o := Order{Parameters: map[string]any{}}
	for i, p := range parameters {
		o.Parameters[string(rune('a'+i))] = json.RawMessage(p)
	}
	return c.holds(scope{order: &o, execution: &Execution{}, cache: new(cache)})
}

// numberTexts are numbers of JSON in which comparisons by float64 or by text go wrong, each in several spellings.
func numberTexts() []string {
	r := rand.New(rand.NewPCG(3, 5))
	texts := []string{
		"0", "-0", "0.0", "0e5", "1", "-1", "1.0", "1e0", "10e-1", "0.1", "0.10", "1e-1", "1e3", "1000", "1E+3", "-1e3",
		"9007199254740991", "9007199254740992", "9007199254740993", "9007199254740992.0", "9007199254740993.0", "9007199254740992.5", "9.007199254740993e15",
		"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "9223372036854775807.5", "9.223372036854775807e18",
		"18446744073709551616", "18446744073709551617", "89490200001234567890", "89490200001234567891", "1e23", "100000000000000000000000", "99999999999999991611392",
		"1e308", "1e309", "10e308", "-1e309", "1e-308", "1e-323", "1e-324", "1e-400", "2e-400", "-1e-400", "5e-324", "4.9406564584124654e-324",
		"0.123456789012345678", "0.123456789012345679", "0.1000000000000000055511151231257827", "123456789.123456789", "1234567890.1234567",
	}
	for range 40 {
		digits := fmt.Sprint(r.Int64N(1<<62) + 1)
		digits = digits[:1+r.IntN(len(digits))]
		texts = append(texts, digits, digits+".0", "-"+digits+"e2", digits+"00", digits+"1e-1", "0."+digits+"7")
	}
	return texts
}

// Two numbers compare as their values do, however they are written: in all operators, in arrays and objects, in max and min.
// One exception is documented: fractions of at most 17 digits that are the same float64 are the same.
func TestNumbersCompareExactly(t *testing.T) {
	texts := numberTexts()
	value := func(s string) *big.Rat {
		v, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatal(s)
		}
		return v
	}
	same := func(a, b string) bool {
		x, y := json.Number(a), json.Number(b)
		f, _ := x.Float64()
		g, _ := y.Float64()
		short := func(s string) bool {
			mantissa, _, _ := strings.Cut(s, "e")
			return len(strings.Trim(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")) <= 17 && !value(s).IsInt()
		}
		return value(a).Cmp(value(b)) == 0 || f == g && f != 0 && short(a) && short(b) && max(f, -f) < 1<<53 && max(f, -f) >= 0x1p-1022
	}
	for _, a := range texts {
		for _, b := range texts {
			x, y := numberOf(a), numberOf(b)
			got, err := equal(x, y)
			if err != nil || got != same(a, b) {
				t.Fatalf("%s == %s: %v, %v", a, b, got, err)
			}
			c, err := compareNumbers(x, y)
			if want := value(a).Cmp(value(b)); err != nil || !got && c*want <= 0 {
				t.Fatalf("%s < %s: %d, %v; want %d", a, b, c, err, want)
			}
		}
	}
	r := rand.New(rand.NewPCG(7, 9))
	for range 500 {
		a, b := texts[r.IntN(len(texts))], texts[r.IntN(len(texts))]
		if r.IntN(2) == 0 { // of neighboring values
			b = a + "1"
			if !json.Valid([]byte(b)) || len(b) > 40 || strings.Contains(b, "e") {
				b = a
			}
		}
		for text, want := range map[string]bool{
			"A == B": same(a, b), "A != B": !same(a, b), "A in [B]": same(a, b), "[A] == [B]": same(a, b), "[[A]] != [[B]]": !same(a, b),
		} {
			text = strings.NewReplacer("A", "job.parameters.a", "B", "job.parameters.b").Replace(text)
			if got, err := holdsFor(t, text, a, b); err != nil || got != want {
				t.Fatalf("%s with %s, %s: %v, %v; want %v", text, a, b, got, err, want)
			}
		}
	}
}

// One number, however it is written, is the same number everywhere.
func TestOneTypeOfNumbers(t *testing.T) {
	three := []string{"3", "3.0", "3e0", "0.3e1", "30e-1", "3.000"}
	for text, want := range map[string]string{
		`{"list":[0,1,2,"x"],"s":SPELLED}`: "job.parameters.a.list[job.parameters.a.s] == 'x'",
		`{"n":7,"s":SPELLED}`:              "job.parameters.a.n % job.parameters.a.s == 1 and job.parameters.a.s % 2 == 1",
		`SPELLED`:                          "job.parameters.a == 3 and 3.0 == job.parameters.a and job.parameters.a in [1, 3] and string(job.parameters.a) == '3'",
		`{"s":[SPELLED]}`:                  "job.parameters.a.s == [3] and job.parameters.a == job.parameters.a",
	} {
		for _, s := range three {
			if got, err := holdsFor(t, want, strings.ReplaceAll(text, "SPELLED", s)); err != nil || !got {
				t.Errorf("%s with %s: %v, %v", want, s, got, err)
			}
		}
	}
	for _, text := range []string{
		"[1, 2, 3][2.0] == 3", "[1, 2, 3][6 / 3] == 3", "[1, 2, 3][round(1.6)] == 3", "[1, 2, 3][floor(2.9)] == 3", "[1, 2, 3][ceil(1.1)] == 3", "[1, 2, 3][float('2')] == 3",
		"[1, 2, 3][0.5 + 1.5] == 3", "[1, 2, 3][2 ** 1] == 3", "[1, 2, 3][abs(-2.0)] == 3", "[1, 2, 3][max(0, 2.0)] == 3", "(6 / 2) % 2 == 1", "7.0 % 4 == 3",
		"9007199254740993 != 9007199254740992.0", "float('9007199254740993') == 9007199254740993", "round(9007199254740993) == 9007199254740993",
		"max(9007199254740993, 9007199254740992.0) == 9007199254740993", "min([9007199254740993, 9007199254740992.0]) == 9007199254740992", "9007199254740993 > 9007199254740992.0",
		"9007199254740993 / 1 == 9007199254740993", "3 ** 39 == 4052555153018976267", "3 ** 41 > 3e19", "(-1) ** 1000000001 == -1", "0 ** 0 == 1", "0 ** 5 == 0", "2 ** -1 == 0.5",
		"0x10 == 16", "1_000.5 == 1000.5", ".5 == 0.5", "1e3 == 1000",
	} {
		if got, err := holdsFor(t, text+" and job.parameters.a", "true"); err != nil || !got {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// What cannot be calculated exactly fails with words of the recipe.
func TestLongNumbersCannotBeCalculatedWith(t *testing.T) {
	for text, want := range map[string]string{
		"job.parameters.a + 1 > 2":                               "job.parameters.a is 89490200001234567890, which is out of the range of whole numbers",
		"job.parameters.a - job.parameters.a == 0":               "job.parameters.a is 89490200001234567890, which is out of the range of whole numbers",
		"job.parameters.a % 2 == 0":                              "job.parameters.a is 89490200001234567890, which is out of the range of whole numbers",
		"-job.parameters.a < 0":                                  "job.parameters.a is 89490200001234567890, which is out of the range of whole numbers",
		"round(job.parameters.a) > 0":                            "job.parameters.a is 89490200001234567890, which is out of the range of whole numbers",
		"job.parameters.b % 2 == 0":                              "the operands of % must be whole numbers, and are 1.5 and 2",
		"float('inf') > 1":                                       "float(inf) is no number",
		"job.parameters.c < 1":                                   "job.parameters.c is 1e99999999999999999999, which is out of the range of numbers",
		"job.parameters.c == job.parameters.c * 1":               "job.parameters.c is 1e99999999999999999999, which is out of the range of numbers",
		"job.parameters.c in [job.parameters.f]":                 "job.parameters.c is 1e99999999999999999999, which is out of the range of numbers",
		"job.parameters.a > 89490200001234567 and 1 % 0 == 1":    "the right operand of % is 0",
		"[job.parameters.a][0] + 1 == 1":                         "job.parameters.a is 89490200001234567890, which is out of the range of whole numbers",
		"job.parameters.d[job.parameters.e] + 1 == 1":            "89490200001234567890 is out of the range of whole numbers",
		"job.parameters.a > 'x'":                                 "invalid operation: a number > a string",
		"max(job.parameters.a, job.parameters.c) > 1":            "job.parameters.c is 1e99999999999999999999, which is out of the range of numbers",
		"job.parameters.a > 1 and job.parameters.b + 'x' == 'y'": "cannot add a number and a string",
	} {
		got, err := holdsFor(t, text, "89490200001234567890", "1.5", "1e99999999999999999999", "[89490200001234567890]", "0", "1e999999999")
		if err == nil || got || err.Error() != want {
			t.Errorf("%s: %v, %v; want %q", text, got, err, want)
		}
	}
	// Another number is not equal to them, and costs no time.
	for _, text := range []string{"job.parameters.a != 1", "job.parameters.a == job.parameters.a", "[1, job.parameters.a] != [1, 2]", "job.parameters.a not in [1, 2.5, 'x']"} {
		for _, number := range []string{"1e999999999", "-1e999999999", "1e-999999999", strings.Repeat("7", 1_000_000), "0." + strings.Repeat("7", 1_000_000)} {
			if got, err := holdsFor(t, text, number); err != nil || !got {
				t.Errorf("%s with %.20s: %v, %v", text, number, got, err)
			}
		}
	}
	// A fraction of many digits is calculated with as a float64.
	for _, text := range []string{"job.parameters.a * 2 >= 0.2 and abs(job.parameters.a) < 0.2 and round(job.parameters.a * 10) == 1", "job.parameters.a > 0.1", "-job.parameters.a < 0"} {
		if got, err := holdsFor(t, text, "0.1000000000000000055511151231257827"); err != nil || !got {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// A number passes through $value and $expr as it is written, or as one that is equal to it.
func TestNumbersInParameters(t *testing.T) {
	for _, text := range numberTexts() {
		p := withParameters(t, `{"v":{"$value":"job.parameters.n"},"e":{"$expr":"job.parameters.n"}}`)
		o := referenceOrder
		o.Parameters = map[string]any{"n": json.RawMessage(text)}
		out := runTo(p, o, `{}`)
		if len(out.Commands) != 1 {
			t.Fatalf("%s: %+v", text, out.Docs.Execution.Error)
		}
		var sent struct{ V, E json.RawMessage }
		if err := json.Unmarshal(out.Commands[0].Parameters, &sent); err != nil {
			t.Fatal(err)
		}
		if same, err := equal(numberOf(string(sent.E)), numberOf(text)); string(sent.V) != text || err != nil || !same {
			t.Errorf("%s: sent %s and %s", text, sent.V, sent.E)
		}
	}
}

// FuzzNumbers: reading a number keeps its value, and comparing never panics.
func FuzzNumbers(f *testing.F) {
	f.Add("1", "1.0")
	f.Add("9007199254740993", "9007199254740992.0")
	f.Add("1e999", "-0e-999")
	f.Fuzz(func(t *testing.T, a, b string) {
		if !json.Valid([]byte(a)) || !json.Valid([]byte(b)) || len(a) > 50 || len(b) > 50 {
			return
		}
		x, y := plain(json.RawMessage(a)), plain(json.RawMessage(b))
		if !isNumber(x) || !isNumber(y) {
			return
		}
		for _, text := range []string{a, b} {
			if i := strings.IndexAny(text, "eE"); i >= 0 && len(text)-i > 4 { // compared if they are not as large
				return
			}
		}
		v, _ := new(big.Rat).SetString(strings.TrimSpace(a))
		w, _ := new(big.Rat).SetString(strings.TrimSpace(b))
		c, err := compareNumbers(x, y)
		if err != nil || c*v.Cmp(w) < 0 || c != 0 && v.Cmp(w) == 0 {
			t.Errorf("%s < %s: %d, %v", a, b, c, err)
		}
	})
}
