package recipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// Limits of a condition. An expression has no loops and no ranges, so with these it ends
// in microseconds, but for matches (see MaxPatternInstructions).
const (
	maxConditionBytes = 4096
	maxConditionNodes = 256
	conditionMemory   = 100_000 // of expr's own unit, elements
)

type conditionKind int

const (
	conditionAlways conditionKind = iota
	conditionNever
	conditionOtherwise
	conditionExpression
)

// condition is a compiled condition (spec A.5.4). It is immutable.
type condition struct {
	text    string
	kind    conditionKind
	program *vm.Program
	refs    []reference
	needs   []need // of the order, for it not to fail
	timed   bool   // looks at step.t, so it can become true without an event
	shape   shape
	fault   error // of a part without names: it fails whenever it is evaluated

	patterns *patterns // of matches; nil for a constant

	ahead *condition // for what is decided before the run; nil: nothing is
}

// reference is a value that a condition looks at: variable is its name in the program.
type reference struct {
	variable string
	text     string // as written, for messages
	root     string // "ok", "result", "parameters", "id", "t"
	action   string
	path     []any // members (string) and elements (int) below the root
}

// constants are the words that are no expression, in lower case.
var constants = map[string]conditionKind{
	"": conditionAlways, "always": conditionAlways, "true": conditionAlways,
	"never": conditionNever, "false": conditionNever,
	"otherwise": conditionOtherwise,
}

// compileCondition compiles text for a recipe with these action names. The error says in
// one line what is wrong (R026).
func compileCondition(text string, actions map[string]bool) (*condition, error) {
	text = strings.TrimSpace(text)
	if kind, ok := constants[strings.ToLower(text)]; ok {
		return &condition{text: text, kind: kind}, nil
	}
	b := &builder{actions: actions}
	written, err := b.compile(text, false)
	if err != nil {
		return nil, err
	}
	b.condition.fault = constantFault(written)
	switch soon := func(r reference) bool { return !r.later() || r.root == "ok" }; {
	case !b.condition.later():
		b.condition.ahead = b.condition
	case slices.ContainsFunc(b.condition.refs, soon):
		a := &builder{actions: actions, ahead: true}
		if _, err := a.compile(text, false); err == nil {
			b.condition.ahead = a.condition
		}
	}
	return b.condition, nil
}

// compileValue compiles an expression whose result is any value; written is the expression as it is written.
func compileValue(text string, actions map[string]bool) (c *condition, written ast.Node, err error) {
	b := &builder{actions: actions}
	written, err = b.compile(text, true)
	return b.condition, written, err
}

// compile makes the condition of an expression whose result is true or false, or with value any value. It returns the
// expression as it is written.
func (b *builder) compile(text string, value bool) (written ast.Node, err error) {
	if len(text) > maxConditionBytes {
		return nil, fmt.Errorf("it has %d bytes, and may have %d", len(text), maxConditionBytes)
	}
	tree, err := parseExpression(text)
	if err != nil {
		return nil, err
	}
	return tree.Node, b.build(text, tree, value)
}

// parseExpression reads an expression as it is written.
func parseExpression(text string) (tree *parser.Tree, err error) {
	defer asFinding(&err)
	numbers, err := literals(text)
	if err != nil {
		return nil, err
	}
	tree, err = parser.ParseWithConfig(text, language(new(patterns)))
	if err != nil {
		return nil, firstLine(err)
	}
	ast.Walk(&tree.Node, literal(numbers))
	return tree, nil
}

// language is what an expression may consist of, as far as the library asks for it; patterns are those of its matches.
func language(p *patterns) *conf.Config {
	config := conf.CreateNew()
	for _, option := range []expr.Option{
		expr.Env(map[string]any{}), expr.AllowUndefinedVariables(), // the builder checks names
		expr.MaxNodes(maxConditionNodes), expr.AsAny(),
		expr.Function(truthFunction, truth, new(func(any, string) bool)),
		expr.Function(memberFunction, dynamicMember, new(func(any, any, bool) any)),
		expr.Function(laterFunction, later, new(func() any), new(func(any) any)),
		expr.Function(matchFunction, p.match, new(func(any, string, string) bool)),
	} {
		option(config)
	}
	for _, option := range slices.Concat(arithmetic, comparisons) {
		option(config)
	}
	return config
}

// build makes the condition of an expression, or of a part of one, that was read; it leaves tree as it is.
func (b *builder) build(text string, tree *parser.Tree, value bool) (err error) {
	defer asFinding(&err)
	b.condition = &condition{text: text, kind: conditionExpression, patterns: new(patterns)}
	config := language(b.condition.patterns)
	b.condition.shape, b.condition.needs = shapeOf(tree.Node), needsOf(tree.Node, value)
	built := &parser.Tree{Source: tree.Source}
	if value {
		built.Node = b.node(tree.Node)
	} else {
		built.Node = b.truth(tree.Node)
	}
	if b.err != nil {
		return b.err
	}
	if _, err := checker.Check(built, config); err != nil {
		return firstLine(err)
	}
	ast.Walk(&built.Node, exactly{})
	if _, err := checker.Check(built, config); err != nil {
		return firstLine(err)
	}
	if b.condition.program, err = compiler.Compile(built, config); err != nil {
		return firstLine(err)
	}
	return nil
}

// asFinding makes an error of a panic: one of the compiler of a foreign library over a foreign text is a finding.
func asFinding(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("it cannot be compiled: %v", r)
	}
}

// scope is what a condition is evaluated over. It must not change meanwhile.
type scope struct {
	order     *Order
	execution *Execution
	elapsed   float64 // step.t, in seconds
	cache     *cache  // of the decision
}

// holds evaluates a condition.
func (c *condition) holds(s scope) (bool, error) {
	v, err := c.evaluate(s)
	if err != nil {
		return false, err
	}
	return v.(bool), nil // the builder put truthFunction at the root
}

// foresee evaluates a condition before the run, from left to right. The actions of s are those that are completed when it is
// evaluated. known is false if it comes to what only the run tells: a result, another action, or the time. Then err is nil.
func (c *condition) foresee(s scope) (holds, known bool, err error) {
	if c.ahead == nil {
		return false, false, nil
	}
	holds, err = c.ahead.holds(s)
	if errors.Is(err, errLater) {
		return false, false, nil
	}
	return holds, true, err
}

// evaluate gives the value of an expression. An error is one of the author, the order or the
// equipment (a comparison of a string with a number, of something missing with a number).
func (c *condition) evaluate(s scope) (any, error) {
	env := make(map[string]any, len(c.refs))
	for _, r := range c.refs {
		env[r.variable] = r.value(s)
	}
	machine := vm.VM{MemoryBudget: conditionMemory}
	v, err := machine.Run(c.program, env)
	if err == nil {
		return v, nil
	}
	if errors.Is(err, errLater) {
		return nil, errLater
	}
	if part := (*partError)(nil); errors.As(err, &part) {
		return nil, part
	}
	if far := (*rangeError)(nil); errors.As(err, &far) {
		for _, r := range c.refs {
			if r.value(s) == far.number {
				return nil, fmt.Errorf("%s is %s, which is out of the range of %s", r.text, far.number, far.kind)
			}
		}
		return nil, far
	}
	err = firstLine(err)
	if lacks := c.lacks(s); lacks != "" {
		if ofNothing.MatchString(err.Error()) {
			return nil, errors.New(strings.TrimPrefix(lacks, ": "))
		}
		return nil, fmt.Errorf("%w (%s)", plainWords(err), strings.TrimPrefix(lacks, ": "))
	}
	return nil, plainWords(err)
}

// later tells whether c looks at what is not known before the run: results of actions, or the time.
func (c *condition) later() bool { return slices.ContainsFunc(c.refs, reference.later) }

func (r reference) later() bool { return r.root == "result" || r.root == "ok" || r.root == "t" }

// errLater is the value of what is not known before the run.
var errLater = errors.New("only the run tells")

// lacks says which of the values that c looks at are missing: ": a, b are missing", or "".
func (c *condition) lacks(s scope) string {
	var missing []string
	for _, r := range c.refs {
		if r.value(s) == nil {
			missing = append(missing, r.text)
		}
	}
	switch len(missing) {
	case 0:
		return ""
	case 1:
		return ": " + missing[0] + " is missing"
	}
	return ": " + strings.Join(missing, ", ") + " are missing"
}

// value finds what r refers to, nil if there is no such thing. Results and parameters are
// decoded once per decision.
func (r *reference) value(s scope) any {
	switch r.root {
	case "id":
		return s.order.ID
	case "t":
		return s.elapsed
	case "parameters":
		if len(r.path) == 0 {
			return s.cache.allParameters(s.order)
		}
		return s.cache.below(s.order, r.path)
	}
	a := s.execution.Action(r.action)
	if r.root == "ok" {
		return a != nil && a.State == ActionCompleted
	}
	if a == nil {
		return nil
	}
	return follow(s.cache.result(r.action, a.Result), r.path)
}

// follow goes down a path of members and elements; what is missing is nil.
func follow(v any, path []any) any {
	for _, p := range path {
		v = member(v, p)
	}
	return v
}

func member(v, key any) any {
	switch v := v.(type) {
	case map[string]any:
		if key, ok := key.(string); ok {
			return v[key]
		}
	case []any:
		if i, ok := key.(int); ok {
			if i < 0 {
				i += len(v)
			}
			if i >= 0 && i < len(v) {
				return v[i]
			}
		}
	}
	return nil
}

// plain turns a decoded or raw JSON value into what expressions work on: nil, bool, int,
// float64, long, string, []any, map[string]any.
func plain(v any) any {
	switch v := v.(type) {
	case json.RawMessage:
		decoder := json.NewDecoder(bytes.NewReader(v))
		decoder.UseNumber()
		var decoded any
		if decoder.Decode(&decoded) != nil {
			return nil
		}
		return plain(decoded)
	case json.Number:
		return numberOf(string(v))
	case float64:
		return wholeOr(v)
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, e := range v {
			m[key] = plain(e)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = plain(e)
		}
		return l
	}
	return v
}

// The functions that the builder puts into a program. Their names cannot be written in
// an expression.
const (
	truthFunction  = "$truth"
	memberFunction = "$member"
	matchFunction  = "$match"
	laterFunction  = "$later"
)

// truth is its first argument as a truth value: what is missing is not true. The second
// is the text of the first.
func truth(args ...any) (any, error) {
	switch v := args[0].(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	default:
		return nil, &partError{fmt.Sprintf("%v is %s, not true or false", args[1], describeValue(v))}
	}
}

// partError says what is wrong with a part of an expression, as written, that has a value. What is missing is not the cause,
// and the words are the author's.
type partError struct{ text string }

func (e *partError) Error() string { return e.text }

// later is errLater, but for an action that is completed.
func later(args ...any) (any, error) {
	if len(args) == 1 && args[0] == true {
		return true, nil
	}
	return nil, errLater
}

// dynamicMember is a member of a value that is no name followed by constants alone. What is missing is nil, but for an element of
// a list that stands in the expression: then the index is wrong. The third argument says that the first is such a list.
func dynamicMember(args ...any) (any, error) {
	v, key := args[0], args[1]
	if err := keyFault(key); err != nil {
		return nil, err
	}
	if list, ok := v.([]any); ok && args[2] == true {
		if err := indexFault(key, len(list)); err != nil {
			return nil, err
		}
	}
	return member(v, key), nil
}

// keyFault says that key finds no member, whatever is looked in.
func keyFault(key any) error {
	switch key.(type) {
	case nil, string, int:
		return nil
	case float64, long:
		return &partError{fmt.Sprintf("an index must be a whole number or a name, and is %v", key)}
	}
	return &partError{"an index must be a whole number or a name, and is " + describeValue(key)}
}

// indexFault says that key is no index of a list of so many elements.
func indexFault(key any, length int) error {
	switch i, ok := key.(int); {
	case key == nil:
		return errors.New("the index is missing")
	case !ok:
		return &partError{"the index of a list must be a whole number, and is " + describeValue(key)}
	case i < -length || i >= length:
		return &partError{fmt.Sprintf("the list has no element %d: its elements are 0 to %d", i, length-1)}
	}
	return nil
}

func describeValue(v any) string {
	switch v.(type) {
	case nil:
		return "missing"
	case bool:
		return "true or false"
	case string:
		return "a string"
	case int, float64, long:
		return "a number"
	case []any:
		return "an array"
	}
	return "an object"
}

// firstLine drops the drawing of the place from an error of the expression library, and its
// words for tokens.
func firstLine(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	at := 0
	if placed := (*file.Error)(nil); errors.As(err, &placed) {
		text, at = placed.Message, placed.From
	}
	text = strings.ReplaceAll(text, "%!s(<nil>)", "nil")
	text = strings.ReplaceAll(text, "unexpected token EOF", "unexpected end")
	text = token.ReplaceAllString(text, `unexpected $1`)
	if strings.HasSuffix(text, `unexpected "="`) {
		text += ", write == to compare"
	}
	return &placedError{errors.New(text), at}
}

// placedError is a fault with its place in the text of an expression, in characters.
type placedError struct {
	error
	at int
}

func (e *placedError) Unwrap() error { return e.error }

// placeOf is where err is, 0 if that is not known.
func placeOf(err error) int {
	if placed := (*placedError)(nil); errors.As(err, &placed) {
		return placed.at
	}
	return 0
}

// clipped is text, or, of a long one, what is around character at.
func clipped(text string, at int) string {
	const most = 60
	all := []rune(text)
	if len(all) <= most {
		return text
	}
	from := max(0, min(at-most/2, len(all)-most))
	text = string(all[from : from+most])
	if from > 0 {
		text = "…" + text
	}
	if from+most < len(all) {
		text += "…"
	}
	return text
}

// The errors of the expression library at run time name types of Go: "invalid operation: float64 >= <nil>",
// "interface conversion: interface {} is int, not string".
var (
	ofNothing  = regexp.MustCompile(`<nil>|on zero Value$|^cannot add (?:missing|.* and missing)|\(type invalid|interface \{\} is nil\b`)
	ofLibrary  = regexp.MustCompile(`^(?:invalid (?:operation|argument)|interface conversion|operator |cannot (?:fetch|get|use|slice)|reflect\.)`)
	goTypes    = regexp.MustCompile(`map\[string\]interface \{\}|\[\]interface \{\}|<nil>|recipe\.long|\b(?:float64|int|string|bool)\b`)
	conversion = regexp.MustCompile(`interface conversion: interface \{\} is (.+), not (.+)`)
	noKey      = regexp.MustCompile(`^reflect\.Value\.MapIndex: value of type (.+) is not assignable to type string`)
	typeWords  = map[string]string{
		"map[string]interface {}": "an object", "[]interface {}": "an array", "<nil>": "nothing",
		"recipe.long": "a number", "float64": "a number", "int": "a number", "string": "a string", "bool": "true or false",
	}
)

// plainWords says the same in words of JSON. A name before a bracket is a function.
func plainWords(err error) error {
	switch {
	case strings.HasSuffix(err.Error(), "on zero Value"):
		return errors.New("an argument of a function is nothing")
	case !ofLibrary.MatchString(err.Error()):
		return err
	}
	text := conversion.ReplaceAllString(err.Error(), "it is $1, not $2")
	text = noKey.ReplaceAllString(text, "what is looked for in an object must be string, and is $1") // typeWords makes it a string
	var b strings.Builder
	done := 0
	for _, at := range goTypes.FindAllStringIndex(text, -1) {
		if at[1] < len(text) && text[at[1]] == '(' {
			continue
		}
		b.WriteString(text[done:at[0]])
		b.WriteString(typeWords[text[at[0]:at[1]]])
		done = at[1]
	}
	return errors.New(b.String() + text[done:])
}

// token is how the expression library names what it did not expect: Operator("=").
var token = regexp.MustCompile(`unexpected token \w+\(("(?:[^"\\]|\\.)*")\)`)
