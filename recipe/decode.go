package recipe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/taktworks/takt/internal/nearest"
)

// Decode reads a recipe strictly (spec A.2): PascalCase and snake_case names, PascalCase
// first; unknown members are ignored, for what is stored may be of another version (Check
// names them); nothing is coerced. The findings are those of the shape: R001, R002, R034. The recipe is nil when there is none to speak of (R001 and
// R034); with R002 alone it is there, so that other rules can be checked as well.
func Decode(data []byte) (*Recipe, []Finding) {
	r, d := decode(data, nil)
	return r, d.findings
}

// Resembles says whether data looks like a recipe of ours: an object that has Steps, Transitions and Actions, all of them lists.
func Resembles(data []byte) bool {
	var r struct{ Steps, Transitions, Actions []json.RawMessage }
	return json.Unmarshal(data, &r) == nil && r.Steps != nil && r.Transitions != nil && r.Actions != nil
}

// UnmarshalJSON decodes as Decode does; the error is an *InvalidError.
func (r *Recipe) UnmarshalJSON(data []byte) error {
	read, findings := Decode(data)
	if read == nil || HasErrors(findings) {
		return &InvalidError{Findings: findings}
	}
	*r = *read
	return nil
}

// decode reads a recipe that is stored, or, with o, one that is delivered.
func decode(data []byte, o *Options) (*Recipe, *decoder) {
	d := &decoder{source: &source{data: data}, delivery: o}
	if len(data) > MaxBytes {
		d.report("R034", 0, "", fmt.Sprintf("the recipe has %d bytes", len(data)), fmt.Sprintf("keep it at most %d bytes", MaxBytes))
		return nil, d
	}
	src, err := parse(data, maxDepth)
	if err != nil {
		code, fix := "R001", "write one JSON object in UTF-8"
		if err.deep {
			code, fix = "R034", fmt.Sprintf("nest at most %d levels", maxDepth)
		}
		d.report(code, err.offset, "", err.Error(), fix)
		return nil, d
	}
	d.source = &src
	r := d.recipe()
	if slices.ContainsFunc(d.findings, func(f Finding) bool { return f.Code != "R002" && f.Code != RuleUnknownMember }) {
		return nil, d
	}
	return r, d
}

// decoder turns a parsed text into a Recipe and notes what does not fit.
type decoder struct {
	*source
	delivery *Options // nil: the recipe is stored
	findings []Finding
}

func (d *decoder) report(code string, offset int, pointer, message, fix string) {
	d.findings = append(d.findings, Finding{Code: code, Severity: SeverityError, Pointer: pointer, Line: d.line(offset), Message: message, Fix: fix})
}

func (d *decoder) recipe() *Recipe {
	o, ok := d.object(&d.root, "")
	if !ok {
		return nil
	}
	defer o.rest()
	r := &Recipe{
		Version:       o.string("Version", false),
		Semantics:     oneOf(o, "Semantics", false, "", SemanticsCompat),
		AllowEndless:  o.boolean("AllowEndless"),
		MaxIterations: o.integer("MaxIterations", false, 1, 1_000_000),
	}
	o.each("Steps", true, MaxSteps, func(e object) {
		defer e.rest()
		r.Steps = append(r.Steps, Step{Name: e.string("Name", true), Initial: e.boolean("Initial")})
	})
	o.each("Transitions", true, MaxTransitions, func(e object) {
		defer e.rest()
		r.Transitions = append(r.Transitions, Transition{
			Source:    e.string("Source", true),
			Target:    e.string("Target", true),
			Condition: e.string("Condition", true),
			Priority:  e.integer("Priority", false, -1<<31, 1<<31-1),
		})
	})
	o.each("Actions", true, MaxActions, func(e object) {
		defer e.rest()
		r.Actions = append(r.Actions, Action{
			Name:           e.string("Name", true),
			Step:           e.string("Step", true),
			Qualifier:      oneOf(e, "Qualifier", true, QualifierN, QualifierP, QualifierP0, QualifierP1, QualifierS, QualifierR, QualifierL, QualifierD),
			Interaction:    oneOf(e, "Interaction", true, InteractionPush, InteractionPull),
			TypeID:         e.string("TypeId", true),
			TimeoutSeconds: e.timeout(),
			Parameters:     e.parameters("Parameters"),
			MaxAttempts:    e.integer("MaxAttempts", false, 1, 100),
			Cancel:         e.cancel(),
		})
	})
	o.each("Branches", false, MaxBranches, func(e object) {
		defer e.rest()
		r.Branches = append(r.Branches, Branch{
			Name:  e.string("Name", true),
			Type:  oneOf(e, "Type", true, SelectionBranch, SimultaneousBranch),
			Paths: e.paths("Branches"),
		})
	})
	// An absent list is written as [] again: the members are required.
	r.Steps, r.Transitions, r.Actions = notNil(r.Steps), notNil(r.Transitions), notNil(r.Actions)
	return r
}

func notNil[E any](list []E) []E {
	if list == nil {
		return []E{}
	}
	return list
}

// object is a JSON object of the recipe and where it stands.
type object struct {
	d     *decoder
	n     *node
	at    string
	known *[]string // members that were asked for
}

func (d *decoder) object(n *node, at string) (object, bool) {
	if n.kind != '{' {
		d.report("R001", n.start, at, "this must be an object, and is "+n.describe(), "write { … }")
		return object{}, false
	}
	return object{d: d, n: n, at: at, known: new([]string)}, true
}

// rest reports the members that nothing asked for (R036): in a recipe that is delivered they
// are spelling mistakes. Free are names that begin with _ or x-.
func (o object) rest() {
	if o.d.delivery == nil {
		return
	}
	severity := SeverityError
	if o.d.delivery.AllowUnknown {
		severity = SeverityWarning
	}
	for _, kid := range o.n.kids {
		key := kid.key
		if strings.HasPrefix(key, "_") || strings.HasPrefix(key, "x-") ||
			slices.ContainsFunc(*o.known, func(name string) bool { return key == name || key == snakeCase(name) }) {
			continue
		}
		fix := "remove it, or begin its name with x-"
		if name := nearest.Name(key, *o.known); name != "" {
			fix = "write " + name
		}
		o.d.findings = append(o.d.findings, Finding{
			Code: RuleUnknownMember, Severity: severity, Pointer: o.at + "/" + key, Line: o.d.line(kid.start),
			Message: fmt.Sprintf("the member %q is not known", key) + nearest.Ask(key, *o.known), Fix: fix,
		})
	}
}

// member returns the value called name, and its pointer; nil when it is absent, or null
// where null means absent. Required and absent is a finding.
func (o object) member(name string, required bool) (*node, string) {
	*o.known = append(*o.known, name)
	key := o.n.spelling(name)
	if key == "" {
		if required {
			o.d.report("R001", o.n.start, o.at, "the member "+name+" is missing", "add "+name)
		}
		return nil, o.at
	}
	at := o.at + "/" + key
	n := o.n.member(key)
	if snake := snakeCase(name); o.d.delivery != nil && snake != key && o.n.has(snake) { // of what is stored, name counts
		o.d.report("R001", o.n.member(snake).start, o.at+"/"+snake, "the member "+key+" is there twice, as "+key+" and as "+snake, "remove one of the two")
	}
	if first := &o.n.kids[o.n.index(key)]; first != n {
		o.d.report("R001", n.start, at, "the member "+key+" is there twice", "remove one of the two")
	}
	if n.kind == 'n' && !required {
		return nil, at
	}
	return n, at
}

func (o object) wrong(n *node, at, want string) {
	o.d.report("R001", n.start, at, "this must be "+want+", and is "+n.describe(), "write "+want)
}

// of is member, of one of these kinds: nil, with a finding, when it is another one.
func (o object) of(name string, required bool, kinds, want string) (n *node, at string) {
	n, at = o.member(name, required)
	if n != nil && strings.IndexByte(kinds, n.kind) < 0 {
		o.wrong(n, at, want)
		return nil, at
	}
	return n, at
}

func (o object) string(name string, required bool) string {
	n, _ := o.of(name, required, `"`, "a string")
	if n == nil {
		return ""
	}
	return n.text
}

func (o object) boolean(name string) bool {
	n, _ := o.of(name, false, "tf", "true or false")
	return n != nil && n.kind == 't'
}

// integer returns 0 for an absent member; the range is for those that are there.
func (o object) integer(name string, required bool, least, most int64) int {
	n, at := o.member(name, required)
	if n == nil {
		return 0
	}
	i, ok := n.integer(o.d.data)
	if !ok || i < least || i > most {
		o.wrong(n, at, fmt.Sprintf("an integer from %d to %d", least, most))
		return 0
	}
	return int(i)
}

// timeout reads TimeoutSeconds. What is an integer outside its range is for R027 to say.
func (o object) timeout() int {
	if n, _ := o.member("TimeoutSeconds", false); n != nil {
		if i, ok := n.integer(o.d.data); ok && i >= -1<<31 && i < 1<<31 {
			return int(i)
		}
	}
	return o.integer("TimeoutSeconds", true, 1, MaxTimeoutSeconds)
}

func (o object) cancel() *Cancel {
	n, at := o.member("Cancel", false)
	if n == nil {
		return nil
	}
	e, ok := o.d.object(n, at)
	if !ok {
		return nil
	}
	defer e.rest()
	return &Cancel{TypeID: e.string("TypeId", true), TimeoutSeconds: e.timeout()}
}

func (o object) parameters(name string) json.RawMessage {
	n, at := o.of(name, false, "{", "an object")
	if n == nil {
		return nil
	}
	if path, kid := n.doubled(); kid != nil && o.d.delivery != nil { // of what is stored, the last counts
		o.d.report("R001", kid.start, at+path, "the member "+path[strings.LastIndexByte(path, '/')+1:]+" is there twice", "remove one of the two")
	}
	return o.d.raw(n)
}

// oneOf reads a string that must be one of words (R002). Not a method, for that cannot
// have type parameters.
func oneOf[S ~string](o object, name string, required bool, words ...S) S {
	n, at := o.of(name, required, `"`, "a string")
	if n == nil {
		return ""
	}
	word := S(n.text)
	if !slices.Contains(words, word) {
		o.d.report("R002", n.start, at, fmt.Sprintf("%s %q is not known", name, n.text), "write "+anyOf(words))
	}
	return word
}

// anyOf is words as people write them: a, b or c. An empty word is one that may be
// left out; qualifiers that are not carried out are not proposed.
func anyOf[S ~string](words []S) string {
	var b strings.Builder
	words = slices.DeleteFunc(slices.Clone(words), func(w S) bool { return w == "" || notCarriedOut(Qualifier(w)) })
	for i, w := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}

// each calls do for every element of an array of objects, of which there may be limit.
func (o object) each(name string, required bool, limit int, do func(object)) {
	n, at := o.of(name, required, "[", "an array")
	if n == nil {
		return
	}
	if len(n.kids) > limit {
		o.d.report("R034", n.start, at, fmt.Sprintf("there are %d %s", len(n.kids), name), fmt.Sprintf("keep it at most %d", limit))
		return
	}
	for i := range n.kids {
		if e, ok := o.d.object(&n.kids[i], fmt.Sprintf("%s/%d", at, i)); ok {
			do(e)
		}
	}
}

// paths reads an array of arrays of step names.
func (o object) paths(name string) [][]string {
	n, at := o.of(name, true, "[", "an array of arrays")
	if n == nil {
		return nil
	}
	paths := make([][]string, 0, len(n.kids))
	for i := range n.kids {
		kid := &n.kids[i]
		at := fmt.Sprintf("%s/%d", at, i)
		if kid.kind != '[' {
			o.wrong(kid, at, "an array of step names")
			continue
		}
		path := make([]string, 0, len(kid.kids))
		for j := range kid.kids {
			step := &kid.kids[j]
			if step.kind != '"' {
				o.wrong(step, fmt.Sprintf("%s/%d", at, j), "a step name")
			}
			path = append(path, step.text)
		}
		paths = append(paths, path)
	}
	return paths
}

// describe names what n is, for a message.
func (n *node) describe() string {
	switch n.kind {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	}
	return "true or false"
}
