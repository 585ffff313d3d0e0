package recipe

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// Limits of matches. A pattern costs its instructions for each byte of the text, so that with both together a condition
// ends within about a tenth of a second, whatever equipment and orders send.
const (
	// MaxPatternInstructions is how many instructions the compiled patterns of one condition may have (R040).
	MaxPatternInstructions = 1000
	// maxPatternSteps is how many instructions times bytes a condition may take.
	maxPatternSteps = 8 << 20
)

// patterns are those of one condition, by their text.
type patterns struct {
	compiled     map[string]*regexp.Regexp
	instructions int
}

func (p *patterns) add(text string) error {
	if p.compiled[text] != nil {
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return err
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return err
	}
	if p.compiled == nil {
		p.compiled = map[string]*regexp.Regexp{}
	}
	p.compiled[text] = re
	p.instructions += len(prog.Inst)
	return nil
}

// match is the function of an expression for matches: what is missing matches nothing.
func (p *patterns) match(args ...any) (any, error) {
	switch subject := args[0].(type) {
	case nil:
		return false, nil
	case string:
		if most := maxPatternSteps / max(p.instructions, 1); len(subject) > most {
			return nil, &partError{fmt.Sprintf("%v has %d bytes, and may have %d for patterns of %d instructions", args[2], len(subject), most, p.instructions)}
		}
		return p.compiled[args[1].(string)].MatchString(subject), nil
	default:
		return nil, &partError{fmt.Sprintf("%v is %s, not a string", args[2], describeValue(subject))}
	}
}
