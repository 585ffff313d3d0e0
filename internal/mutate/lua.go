package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Kinds of guards, by what they compare.
const (
	kindToken       = "token"
	kindEntry       = "entry"
	kindExpectation = "expectation"
	kindType        = "type"
)

// lex is a word, number, string or sign of a Lua script, without comments.
type lex struct {
	text     string
	from, to int // place in the script, bytes
}

var lexeme = regexp.MustCompile(`^(?:--[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\d[\w.]*|\.\.\.|\.\.|[=~<>]=|\s+|.)`)

func scan(script string) []lex {
	var all []lex
	for at := 0; at < len(script); {
		text := lexeme.FindString(script[at:])
		if text == "" { // a byte that is no UTF-8
			text = script[at : at+1]
		}
		if strings.TrimSpace(text) != "" && !strings.HasPrefix(text, "--") {
			all = append(all, lex{text, at, at + len(text)})
		}
		at += len(text)
	}
	return all
}

// guards returns the mutants of a Lua script: one for each term of each condition that refuses. Three forms are found:
//
//	if A or B then return {'lost'} end          A and B are removed, one at a time
//	if A then word = 'not_found' else ... end   A is removed
//	if A and B then redis.call(...) end         A or B becomes true, if it asks whether an entry or a value is still there
func guards(file, script string) []Mutant {
	words := scan(script)
	var all []Mutant
	for i, w := range words {
		if w.text != "if" && w.text != "elseif" {
			continue
		}
		then := i + 1
		for words[then].text != "then" {
			then++
		}
		condition, body := words[i+1:then], block(words[then+1:])
		text := func(ws []lex) string { return script[ws[0].from:ws[len(ws)-1].to] }
		whole := text(condition)
		m := Mutant{File: file, Guard: flat(script[w.from:words[then].to])}
		if kind, ok := refusal(body, whole); ok {
			m.Kind, m.refusesIf = kind, true
			terms := split(condition, "or")
			for n, term := range terms {
				t := m
				if len(terms) == 1 {
					t.edit(script, condition[0].from, condition[len(condition)-1].to, "false")
				} else {
					t.Term = flat(text(term))
					from, to := term[0].from, term[len(term)-1].to
					if n < len(terms)-1 {
						to = terms[n+1][0].from
					} else {
						from = last(terms[n-1]).to
					}
					t.edit(script, from, to, "")
				}
				t.condition = [2]int{condition[0].from, last(condition).to}
				all = append(all, t)
			}
			continue
		}
		if len(split(condition, "or")) > 1 {
			if asks.MatchString(whole) {
				m.Kind = positive(whole)
				m.edit(script, condition[0].from, last(condition).to, "true")
				m.condition = [2]int{condition[0].from, last(condition).to}
				all = append(all, m)
			}
			continue
		}
		terms := split(condition, "and")
		for _, term := range terms {
			if !asks.MatchString(text(term)) {
				continue
			}
			t := m
			t.Kind = positive(text(term))
			if len(terms) > 1 {
				t.Term = flat(text(term))
			}
			t.edit(script, term[0].from, last(term).to, "true")
			t.condition = [2]int{term[0].from, last(term).to}
			all = append(all, t)
		}
	}
	number(all)
	return all
}

func last(ws []lex) lex { return ws[len(ws)-1] }

// number tells apart those of one script that have the same text.
func number(all []Mutant) {
	seen := make(map[string]int)
	for i := range all {
		seen[all[i].id()]++
		all[i].Occurrence = seen[all[i].id()]
	}
}

func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// block returns the words up to the end, else or elseif of the block that begins with them.
func block(words []lex) []lex {
	depth := 0
	for i, w := range words {
		switch w.text {
		case "if", "do", "function", "repeat":
			depth++
		case "end", "until", "else", "elseif":
			if depth == 0 {
				return words[:i]
			}
			if w.text == "end" || w.text == "until" {
				depth--
			}
		}
	}
	return words
}

// split cuts a condition at an operator that is in no parentheses.
func split(words []lex, operator string) [][]lex {
	var parts [][]lex
	depth, from := 0, 0
	for i, w := range words {
		switch w.text {
		case "(", "{", "[":
			depth++
		case ")", "}", "]":
			depth--
		case operator:
			if depth == 0 {
				parts = append(parts, words[from:i])
				from = i + 1
			}
		}
	}
	return append(parts, words[from:])
}

var (
	// What a guard answers. {0, ...}, false and nil refuse too; {'ok', ...}, true and what was read do not.
	refuses = regexp.MustCompile(`^return (?:\{ ?(?:'ok', 0\}|'(?:lost|taken|alive|gone|none|holds|conflict|type|changed|duplicate|other|gap|later|broken|skipped|claimed|not_found|active|ended|known|dup|queue|full)'|0\b|letter and|holder =|line =)|` +
		`'(?:lost|exists|not_found|gone|later|same|used)'|0(?: |$)|false(?: |$)|nil(?: |$)|redis\.error_reply|(?:wrong|refuse|refused|broken)\(|[^;]*\bshorten\(|(?:no|problem|wrong|bad|failure|known)(?: |$)|\(active ==|had\b)`)
	assigns = regexp.MustCompile(`^(?:\w+(?:, \w+)?|\w+\[[^\]]*\]) = (?:'(?:not_found|unowned|not_owner|active|kept|none|gone|again|uncounted|broken)'|\{'claimed')`)
	asks    = regexp.MustCompile(`'XPENDING'|'XRANGE'|\bours\(|sha1hex|'HEXISTS'|'HGET',[^=]*==|'GET',[^=]*==|'ZSCORE'|^r\[1\] == x|r\[2\] == entry`)

	ofToken       = regexp.MustCompile(`'lost'|'taken'|'alive'|'unowned'|holder|owner|'GET', KEYS\[\d+\]\) ~= ARGV`)
	ofExpectation = regexp.MustCompile(`'conflict'|'changed'|'other'|'claimed'|sha1hex`)
	ofType        = regexp.MustCompile(`WRONGTYPE|refuse\(|broken\(|wrong\b|'type'|'broken'|\bno\b|problem|\bbad\b`)
)

// refusal reports whether a block begins with a refusal, and of what kind.
func refusal(body []lex, condition string) (string, bool) {
	if len(body) == 0 {
		return "", false
	}
	if i := ending(body); i > 0 {
		body = body[i:]
	}
	var b strings.Builder
	for i, w := range body {
		if i > 0 && spaced(body[i-1].text, w.text) {
			b.WriteByte(' ')
		}
		b.WriteString(w.text)
	}
	text := b.String()
	if !refuses.MatchString(text) && !assigns.MatchString(text) {
		return "", false
	}
	if strings.HasPrefix(text, "return known") && strings.Contains(condition, "known") {
		return kindEntry, true
	}
	switch {
	case ofType.MatchString(text):
		return kindType, true
	case ofExpectation.MatchString(text), ofExpectation.MatchString(condition):
		return kindExpectation, true
	case ofToken.MatchString(text), ofToken.MatchString(condition):
		return kindToken, true
	}
	return kindEntry, true
}

// ending is where the return stands that ends a block, -1 if none does.
func ending(body []lex) int {
	depth := 0
	for i, w := range body {
		switch w.text {
		case "if", "do", "function", "repeat":
			depth++
		case "end", "until":
			depth--
		case "return":
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}

func positive(condition string) string {
	switch {
	case ofExpectation.MatchString(condition), strings.Contains(condition, "'HGET'"):
		return kindExpectation
	case strings.Contains(condition, "'GET'"):
		return kindToken
	}
	return kindEntry
}

// spaced reports whether there is a space between two words as this repository writes Lua.
func spaced(a, b string) bool {
	return !strings.Contains("({[.:", a) && !strings.Contains(")}],.:([", b) || a == "return" || a == ","
}

// edit makes the mutated script.
func (m *Mutant) edit(script string, from, to int, by string) {
	m.original, m.mutated = script, script[:from]+by+script[to:]
}

// probed returns the script with a call of reached__ around the conditions of its mutants: those of all with these numbers.
func probed(script string, all []Mutant, numbers []int) string {
	type edit struct {
		at   int
		text string
	}
	var edits []edit
	done := make(map[[2]int]bool)
	for _, n := range numbers {
		m := all[n]
		if done[m.condition] || m.condition[1] == 0 {
			continue
		}
		done[m.condition] = true
		edits = append(edits, edit{m.condition[0], fmt.Sprintf("reached__(%d, %t, ", n, m.refusesIf)}, edit{m.condition[1], ")"})
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return b.at - a.at })
	for _, e := range edits {
		script = script[:e.at] + e.text + script[e.at:]
	}
	return script
}
