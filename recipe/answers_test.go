package recipe

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Answers that are taken together lead where they lead one after the other, with the commands that are still needed then.
func TestAnswersTogether(t *testing.T) {
	program := compile(t, string(text("step A*\nstep P\nstep Q\nstep R\nstep Z\nA > B\nB > Z\nsim B: P Q | R\n"+
		"do a @ A time 60\ndo p @ P time 60 attempts 2\ndo q @ Q time 60\ndo r @ R time 60\ndo z @ Z time 60")))
	now := time.UnixMilli(1_800_000_000_000)
	rapid.Check(t, func(t *rapid.T) {
		order := Order{ID: "J", Scope: "S"}
		docs := program.Start(order, "WM", "start", nil, now).Docs
		docs = program.Answer(order, docs, Answer{CommandID: docs.Execution.Action("a").CommandID}, now).Docs
		var answers []Answer
		one := docs
		var commands []Command
		for range rapid.IntRange(1, 6).Draw(t, "answers") {
			action := one.Execution.Action(rapid.SampledFrom([]string{"p", "q", "r", "z"}).Draw(t, "action"))
			a := Answer{CommandID: action.CommandID, Result: []byte(`{"n":1}`)}
			if rapid.IntRange(0, 3).Draw(t, "refused") == 0 {
				a = Answer{CommandID: action.CommandID, Error: &ActionError{Kind: "X", Message: "no"}}
			}
			answers = append(answers, a)
			next := program.Answer(order, one, a, now)
			if !next.Stale {
				one, commands = next.Docs, append(commands, next.Commands...)
			}
		}
		out, each := program.Answers(order, docs, answers, now)
		if diff := cmp.Diff(string(one.Execution.Encode()), string(out.Docs.Execution.Encode())); diff != "" {
			t.Fatalf("together they lead elsewhere:\n%s", diff)
		}
		if len(each) != len(answers) || !out.Due.Equal(one.Execution.Due()) && !out.Stale || out.Phase != one.Execution.Phase() && !out.Stale {
			t.Fatalf("%d outcomes of %d answers, due %v, phase %s", len(each), len(answers), out.Due, out.Phase)
		}
		want := map[string]bool{}
		for _, c := range commands {
			if one.Execution.Awaits(c) {
				want[c.ID] = true
			}
		}
		got := map[string]bool{}
		for _, c := range out.Commands {
			got[c.ID] = true
		}
		if !cmp.Equal(want, got) {
			t.Fatalf("commands %v, want %v", fmt.Sprint(got), fmt.Sprint(want))
		}
	})
}
