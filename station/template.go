package station

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/taktworks/takt/internal/jsonscalar"
	"github.com/taktworks/takt/internal/jsonscan"
)

// template is a JSON value with holes. A text of the file may hold references:
//
//	${order} ${scope} ${action} ${attempt}   of the command
//	${n}                                     how manieth event of its source this is, from 1
//	${parameters.a.b}                        a member of the command's Parameters, null when it has none
//	${result.a.b}                            a member of the result sent in answer; in events only
//	${84.1..85.9}                            a number drawn evenly, with as many decimals as written
//
// A text that is one reference and nothing else becomes the value itself, number or object; otherwise the text of it is
// put in. "$${" stands for "${".
type template struct{ pieces []piece }

// piece is JSON text, and a hole behind it: a text with references, nil = none.
type piece struct {
	json []byte
	hole []part
}

// last is the piece that more can be written to.
func (t *template) last() *piece {
	if n := len(t.pieces); n == 0 || t.pieces[n-1].hole != nil {
		t.pieces = append(t.pieces, piece{})
	}
	return &t.pieces[len(t.pieces)-1]
}

func (t *template) add(json string) {
	p := t.last()
	p.json = append(p.json, json...)
}

// part is a piece of text or a reference.
type part struct {
	text string
	name string   // order, scope, action, attempt, n, parameters, result, random
	path []string // below parameters and result
	low, high, decimals,
	steps int64 // of random: low and high in units of the last decimal
}

// scene is what references may name where a template is filled in.
type scene struct {
	order, scope, action string
	attempt              int
	n                    int64
	parameters, result   json.RawMessage
	dice                 *rand.Rand
}

// template reads any value, plain scalars as JSON does; absent is nil. may lists the references allowed here.
func (f field) template(may ...string) *template {
	if f.node == nil {
		return nil
	}
	t := &template{}
	f.into(t, may)
	return t
}

// into adds the value to t. With a fault, t is of no use.
func (f field) into(t *template, may []string) {
	if s, plain := f.plain(); plain {
		_, infinite := f.node.(*ast.InfinityNode)
		_, nan := f.node.(*ast.NanNode)
		switch {
		case s == "null" || s == "~" || s == "":
			t.add("null")
		case s == "true" || s == "false" || jsonscalar.IsNumber(s):
			t.add(s)
		case jsonscalar.HasLeadingZero(s):
			f.fault("must not begin with a zero: quote it if it is text, else leave the zero out")
		case infinite || nan:
			f.fault("must be a number that JSON has, or be quoted")
		default:
			f.textInto(t, s, may)
		}
		return
	}
	switch f.node.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		f.textInto(t, f.scalar(), may)
	case *ast.SequenceNode:
		t.add("[")
		for i, e := range f.list() {
			if i > 0 {
				t.add(",")
			}
			e.into(t, may)
		}
		t.add("]")
	default:
		t.add("{")
		for i, pair := range f.pairs() {
			if i > 0 {
				t.add(",")
			}
			name := keyText(pair.Key)
			t.add(string(quote(name)) + ":")
			f.at(f.join(name), pair.Value).into(t, may)
		}
		t.add("}")
	}
}

// textInto takes a text apart at its references.
func (f field) textInto(t *template, s string, may []string) {
	var parts []part
	plain := ""
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			break
		}
		if i > 0 && s[i-1] == '$' {
			plain += s[:i-1] + "${"
			s = s[i+2:]
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			f.fault("must close the reference that ${ opens with }")
			break
		}
		if plain += s[:i]; plain != "" {
			parts = append(parts, part{text: plain})
			plain = ""
		}
		parts = append(parts, f.reference(strings.TrimSpace(s[i+2:i+end]), may))
		s = s[i+end+1:]
	}
	plain += s
	switch {
	case parts == nil:
		t.add(string(quote(plain)))
		return
	case plain != "":
		parts = append(parts, part{text: plain})
	}
	t.last().hole = parts
}

// reference reads what stands between ${ and }.
func (f field) reference(s string, may []string) part {
	if low, high, ok := strings.Cut(s, ".."); ok {
		return f.random(strings.TrimSpace(low), strings.TrimSpace(high))
	}
	name, rest, hasPath := strings.Cut(s, ".")
	takesPath := name == "parameters" || name == "result"
	for _, known := range may {
		if name == known && (takesPath || !hasPath) && !(hasPath && rest == "") {
			p := part{name: name}
			if hasPath {
				p.path = strings.Split(rest, ".")
			}
			return p
		}
	}
	f.fault("must refer to %s or a range such as 84.1..85.9 between ${ and }", strings.Join(may, ", "))
	return part{text: s}
}

// random reads the bounds of a number to draw.
func (f field) random(low, high string) part {
	bad := func() part {
		f.fault("must have two numbers of at most 9 decimals around .., the smaller first")
		return part{text: low + ".." + high}
	}
	decimals := 0
	for _, s := range [...]string{low, high} {
		if !jsonscalar.IsNumber(s) || strings.ContainsAny(s, "eE") {
			return bad()
		}
		if _, after, ok := strings.Cut(s, "."); ok {
			decimals = max(decimals, len(after))
		}
	}
	from, err1 := strconv.ParseFloat(low, 64)
	to, err2 := strconv.ParseFloat(high, 64)
	unit := math.Pow10(decimals)
	if err1 != nil || err2 != nil || decimals > 9 || from > to || math.Abs(from*unit) > 1<<52 || math.Abs(to*unit) > 1<<52 {
		return bad()
	}
	p := part{name: "random", decimals: int64(decimals), low: int64(math.Round(from * unit)), high: int64(math.Round(to * unit))}
	p.steps = p.high - p.low + 1
	return p
}

// fill makes the JSON of t, nil for no template.
func (t *template) fill(s *scene) json.RawMessage {
	if t == nil {
		return nil
	}
	out := json.RawMessage{}
	for _, p := range t.pieces {
		out = append(out, p.json...)
		if len(p.hole) == 1 && p.hole[0].name != "" {
			out = append(out, p.hole[0].json(s)...)
		} else if p.hole != nil {
			text := ""
			for _, part := range p.hole {
				text += part.plain(s)
			}
			out = append(out, quote(text)...)
		}
	}
	return out
}

// json is the value a reference stands for.
func (p part) json(s *scene) json.RawMessage {
	switch p.name {
	case "order":
		return quote(s.order)
	case "scope":
		return quote(s.scope)
	case "action":
		return quote(s.action)
	case "attempt":
		return json.RawMessage(strconv.Itoa(s.attempt))
	case "n":
		return json.RawMessage(strconv.FormatInt(s.n, 10))
	case "parameters":
		return lookUp(s.parameters, p.path)
	case "result":
		return lookUp(s.result, p.path)
	case "random":
		n := p.low + s.dice.Int64N(p.steps)
		return json.RawMessage(strconv.FormatFloat(float64(n)/math.Pow10(int(p.decimals)), 'f', int(p.decimals), 64))
	}
	return quote(p.text)
}

// plain is the text of a part inside other text: strings without quotes, null as nothing.
func (p part) plain(s *scene) string {
	if p.name == "" {
		return p.text
	}
	value := p.json(s)
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text // also null, which leaves it empty
	}
	return string(value)
}

// lookUp finds a member by its path; null when there is none.
func lookUp(value json.RawMessage, path []string) json.RawMessage {
	for _, name := range path {
		var object map[string]json.RawMessage
		if json.Unmarshal(value, &object) != nil {
			return json.RawMessage("null")
		}
		value = object[name]
	}
	var compact bytes.Buffer
	if len(value) == 0 || json.Compact(&compact, value) != nil {
		return json.RawMessage("null")
	}
	return compact.Bytes()
}

// quote writes text as JSON, non-ASCII and HTML characters as they are.
func quote(s string) json.RawMessage { return jsonscan.AppendString(nil, s) }
