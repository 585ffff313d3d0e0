package station

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func parse(t testing.TB, text string) *Equipment {
	t.Helper()
	e, err := ParseEquipment("e.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestTemplates: what references become.
func TestTemplates(t *testing.T) {
	c := &command{
		ID: "c-1", Type: "a", Scope: "cell-07", Order: `JO "7"`, Action: "press", Attempt: 3,
		Parameters: json.RawMessage(`{"force_kn": 12.50, "o": {"p": [1, {"q": "ä<"}]}, "n": null, "big": 12345678901234567890}`),
	}
	for yaml, want := range map[string]string{
		`x`:                                      `"x"`,
		`''`:                                     `""`,
		`12`:                                     `12`,
		`12.50`:                                  `12.50`,
		`0x1f`:                                   `"0x1f"`,
		`1e3`:                                    `1e3`,
		`1_000`:                                  `"1_000"`,
		`+5`:                                     `"+5"`,
		`.5`:                                     `".5"`,
		`5.`:                                     `"5."`,
		`0o17`:                                   `"0o17"`,
		`89490200001234567890`:                   `89490200001234567890`,
		`-0.0`:                                   `-0.0`,
		`"014"`:                                  `"014"`,
		`'1e3'`:                                  `"1e3"`,
		`'true'`:                                 `"true"`,
		`True`:                                   `"True"`,
		`NULL`:                                   `"NULL"`,
		`yes`:                                    `"yes"`,
		`00:15`:                                  `"00:15"`,
		`2026-01-02`:                             `"2026-01-02"`,
		`true`:                                   `true`,
		`~`:                                      `null`,
		`[]`:                                     `[]`,
		`{}`:                                     `{}`,
		`[1, {b: 2, a: "x"}, [~]]`:               `[1,{"b":2,"a":"x"},[null]]`,
		`"${order}"`:                             `"JO \"7\""`,
		`"${scope}/${action}"`:                   `"cell-07/press"`,
		`"${attempt}"`:                           `3`,
		`"attempt ${attempt}"`:                   `"attempt 3"`,
		`"${parameters.force_kn}"`:               `12.50`,
		`"${parameters.big}"`:                    `12345678901234567890`,
		`"${parameters.force_kn} kN"`:            `"12.50 kN"`,
		`"${parameters.o}"`:                      `{"p":[1,{"q":"ä<"}]}`,
		`"${parameters.o.p}"`:                    `[1,{"q":"ä<"}]`,
		`"${parameters.o.p.q}"`:                  `null`,
		`"${parameters.none}"`:                   `null`,
		`"x${parameters.n}y"`:                    `"xy"`,
		`"${parameters}"`:                        `{"force_kn":12.50,"o":{"p":[1,{"q":"ä<"}]},"n":null,"big":12345678901234567890}`,
		`"${ order }"`:                           `"JO \"7\""`,
		`"$${order} costs 5 $"`:                  `"${order} costs 5 $"`,
		`"${7..7}"`:                              `7`,
		`"${-1.50..-1.5}"`:                       `-1.50`,
		`"about ${2.0..2.0}"`:                    `"about 2.0"`,
		"|\n      two ${attempt}\n      lines\n": `"two 3\nlines\n"`,
	} {
		t.Run(yaml, func(t *testing.T) {
			e := parse(t, "scope: cell-07\ncommands:\n  - type: a\n    result: "+yaml)
			if got := string(e.decide(c).result); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// A plain scalar is what JSON writes so, digits with a leading zero are refused, and every other scalar is text.
func TestPlainScalars(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 8))
	const alphabet = "00112789eE+-.._xobnultrfa"
	zeros := regexp.MustCompile(`^[+-]?0[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?$`)
	for range 20_000 {
		s := ""
		for range 1 + r.IntN(6) {
			s += string(alphabet[r.IntN(len(alphabet))])
		}
		e, err := ParseEquipment("e.yaml", []byte("scope: a\ncommands:\n  - type: a\n    result: "+s))
		if zeros.MatchString(s) {
			if err == nil || !strings.Contains(err.Error(), "quote it") {
				t.Fatalf("%s: %v", s, err)
			}
			continue
		}
		if s == "-" || strings.EqualFold(s, ".inf") || strings.EqualFold(s, ".nan") {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		want := strconv.Quote(s)
		if json.Valid([]byte(s)) {
			want = s
		}
		if got := string(e.decide(&command{ID: "c", Type: "a", Scope: "a"}).result); got != want {
			t.Fatalf("%s: got %s, want %s", s, got, want)
		}
	}
}

// TestCases: the first case that fits replaces what it says.
func TestCases(t *testing.T) {
	e := parse(t, `
scope: cell-07
commands:
  - type: tighten
    takes: 10ms
    result: {torque: 85}
    events: [{type: torque, body: {ok: true, torque: "${result.torque}"}}, {type: second}]
    cases:
      - {orders: [JO-1, JO-9*], attempts: 1..2, events: [{type: torque, body: {ok: false}}]}
      - {orders: [JO-2], refuse: {kind: TIMEOUT, message: stuck}, takes: 20ms}
      - {orders: [JO-3], refuse: {message: stuck}, events: [{type: alarm}]}
      - {orders: [JO-4], attempts: 3.., result: {torque: 1}, unanswered: 2}
      - {orders: [JO-5], attempts: 2, events: []}
  - type: broken
    refuse: {message: always}
    events: [{type: alarm}]
    cases: [{attempts: 2, result: 1}]
`)
	for _, row := range []struct {
		typeID, order string
		attempt       int
		want          string
	}{
		{"tighten", "JO-0", 1, `10ms {"torque":85} 0 [torque {"ok":true,"torque":85}] [second ]`},
		{"tighten", "JO-1", 1, `10ms {"torque":85} 0 [torque {"ok":false}]`},
		{"tighten", "JO-1", 2, `10ms {"torque":85} 0 [torque {"ok":false}]`},
		{"tighten", "JO-1", 3, `10ms {"torque":85} 0 [torque {"ok":true,"torque":85}] [second ]`},
		{"tighten", "JO-99", 2, `10ms {"torque":85} 0 [torque {"ok":false}]`},
		{"tighten", "JO-10", 1, `10ms {"torque":85} 0 [torque {"ok":true,"torque":85}] [second ]`},
		{"tighten", "JO-2", 1, `20ms TIMEOUT: stuck 0`},
		{"tighten", "JO-3", 1, `10ms UNKNOWN_ERROR: stuck 0 [alarm ]`},
		{"tighten", "JO-4", 2, `10ms {"torque":85} 0 [torque {"ok":true,"torque":85}] [second ]`},
		{"tighten", "JO-4", 7, `10ms {"torque":1} 2 [torque {"ok":true,"torque":1}] [second ]`},
		{"tighten", "JO-5", 2, `10ms {"torque":85} 0`},
		{"broken", "JO-1", 1, `0s UNKNOWN_ERROR: always 0 [alarm ]`},
		{"broken", "JO-1", 2, `0s 1 0 [alarm ]`},
	} {
		w := e.decide(&command{ID: "c-1", Type: row.typeID, Scope: "cell-07", Order: row.order, Action: "x", Attempt: row.attempt})
		got := w.takes.String() + " "
		if w.refused != nil {
			got += w.refused.Error()
		} else {
			got += string(w.result)
		}
		got += fmt.Sprintf(" %d", w.unanswered)
		for _, ev := range w.events {
			got += fmt.Sprintf(" [%s %s]", ev.typeID, ev.body)
		}
		if got != row.want {
			t.Errorf("%s %s %d: got %s, want %s", row.typeID, row.order, row.attempt, got, row.want)
		}
	}
}

const drawn = `
scope: cell-07
seed: %d
commands:
  - type: a
    takes: 100ms..200ms
    result: {x: "${84.10..85.95}", n: "${1..3}"}
    events: [{type: b, after: 1s..2s, body: "${0..1000000}"}]
    cases: [{chance: 0.25, refuse: {message: no}}]
`

// TestDrawnWithinBounds: durations, numbers and chances are what the file says, and the same for the same seed, order,
// action and attempt, whatever the command's id.
func TestDrawnWithinBounds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seed := rapid.Int32().Draw(r, "seed")
		e := parse(t, fmt.Sprintf(drawn, seed))
		c := command{ID: "c-1", Type: "a", Scope: "cell-07", Order: rapid.StringN(1, 10, 40).Draw(r, "order"), Action: "x", Attempt: rapid.IntRange(1, 5).Draw(r, "attempt")}
		w := e.decide(&c)
		c.ID = "c-2"
		again := e.decide(&c)
		if w.takes != again.takes || string(w.result) != string(again.result) || (w.refused == nil) != (again.refused == nil) {
			r.Fatalf("%+v and %+v", w, again)
		}
		if w.takes < 100*time.Millisecond || w.takes > 200*time.Millisecond {
			r.Fatal(w.takes)
		}
		if w.refused != nil {
			return
		}
		if w.events[0].id == again.events[0].id {
			r.Fatal("two commands, one event id")
		}
		var result struct{ X, N json.Number }
		if err := json.Unmarshal(w.result, &result); err != nil {
			r.Fatal(err)
		}
		x, _ := result.X.Float64()
		n, _ := result.N.Int64()
		if _, decimals, _ := strings.Cut(string(result.X), "."); x < 84.10 || x > 85.95 || len(decimals) != 2 || n < 1 || n > 3 {
			r.Fatal(string(w.result))
		}
		if after := w.events[0].after; after < time.Second || after > 2*time.Second {
			r.Fatal(after)
		}
	})
}

// TestChance: about as often as the file says.
func TestChance(t *testing.T) {
	e := parse(t, fmt.Sprintf(drawn, 7))
	refused := 0
	for i := range 4000 {
		if e.decide(&command{Type: "a", Order: fmt.Sprint(i), Attempt: 1}).refused != nil {
			refused++
		}
	}
	if refused < 900 || refused > 1100 {
		t.Errorf("%d of 4000 with a chance of 0.25", refused)
	}
}
