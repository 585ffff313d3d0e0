package recipe

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever text comes: no panic, Check and Compile agree, every finding can be shown, and
// what decodes is written and read the same.
func FuzzDecode(f *testing.F) {
	f.Add(testdata(f, "gearbox.json"))
	f.Add([]byte(minimal))
	for _, c := range ruleCases {
		if data := recipeOf(c.recipe); len(data) < 5000 {
			f.Add(data)
		}
	}
	for _, cond := range []string{"actions.a.result.x[0].y > 5 and not job.parameters.z", "step.t >= 2 ? true : false", "(((", "a | b"} {
		f.Add(text("step A*\nstep B\nA > B: " + cond + "\ndo a @ A"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		findings := Check(data, Options{})
		lines := strings.Count(string(data), "\n") + 1
		for _, fi := range findings {
			if fi.Line < 1 || fi.Line > lines || fi.Code == "" || fi.Message == "" || fi.Fix == "" || fi.Severity != SeverityError && fi.Severity != SeverityWarning {
				t.Errorf("%+v", fi)
			}
		}
		p, err := Compile(data)
		delivery := func(f Finding) bool {
			return slices.ContainsFunc(Rules(), func(r Rule) bool { return r.Code == f.Code && r.Delivery })
		}
		if (err != nil) != HasErrors(slices.DeleteFunc(slices.Clone(findings), delivery)) {
			t.Fatalf("Compile: %v, Check: %v", err, findings)
		}
		if r, _ := Decode(data); r != nil {
			written, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			again, findings := Decode(written)
			if again == nil || !HasErrors(findings) && !cmp.Equal(r, again) {
				t.Fatalf("written and read: %v\n%s\n%s", findings, written, cmp.Diff(r, again))
			}
		}
		if err != nil {
			return
		}
		if p.Mermaid() == "" {
			t.Error("no drawing")
		}
	})
}

// fuzzRecipes are the recipes that FuzzDecide starts from.
var fuzzRecipes = []string{
	"step A*\nstep B\nA > B\ndo a @ A attempts 2\non e @ A type t\ndo b @ B",
	"step A*\nstep B\nstep C\nA > B: step.t > 2\nA > A: actions.a.result.n == 3 ! 1\nB > C: actions.b.result.n > 2\nB > A: otherwise ! 1\ndo a @ A\ndo b @ B time 30",
	"step A*\nstep P\nstep Q\nstep R\nstep Z\nA > X\nX > Z: actions.p.ok\nX > X: otherwise ! 1\nsim X: P Q | R\ndo p @ P\non q @ Q type t\non r @ R type t with {\"asset_id\":\"as1\"}",
	"step A*\nstep P\nstep Q\nstep Z\nA > X\nX > P: job.parameters.p == 1\nX > Q: step.t > 2 ! 1\nX > Z\nsel X: P | Q\ndo p @ P\non q @ Q type t",
}

// Whatever recipe compiles and whatever happens: world.check holds.
func FuzzDecide(f *testing.F) {
	f.Add(testdata(f, "gearbox.json"), []byte("\x00\x07\x00\x01\x02\x0a\x20\x0d\x0e"))
	for i, r := range fuzzRecipes {
		for _, events := range []string{"", "\x01\x02\x00\x00\x07\x00\x00\x00\x0a\xff\x04\x00\x0d\x0c\x0e\x05\x01\x00\x00", strings.Repeat("\x00\x01\x07\x00\x0a\x30", 20)} {
			f.Add(text(r), []byte(events+string(rune('a'+i))))
		}
	}
	f.Fuzz(func(t *testing.T, recipe, events []byte) {
		if len(recipe) > 8000 {
			return
		}
		p, err := Compile(recipe)
		if err != nil {
			return
		}
		c := &byteChooser{events}
		w := newWorld(t, c, p)
		for n := 0; n < 100 && len(c.data) > 0; n++ {
			w.event()
		}
	})
}

// Documents of any kind: no panic, and what is read is written and read the same.
func FuzzDocuments(f *testing.F) {
	f.Add(testdata(f, "execution.json"), []byte("J"))
	p := compile(f, string(text(fuzzRecipes[2])))
	out := p.Start(Order{ID: "J", Scope: "s"}, "w", "k", nil, epoch)
	f.Add(out.Docs.Execution.Encode(), []byte(out.Commands[0].ID))
	f.Add(out.Docs.Mailboxes["t"].Encode(), []byte("x"))
	f.Fuzz(func(t *testing.T, data, id []byte) {
		if m, err := DecodeMailbox(data); err == nil {
			if _, err := DecodeMailbox(m.Encode()); err != nil {
				t.Fatal(err)
			}
		}
		x, err := DecodeExecution(data)
		if err != nil {
			return
		}
		again, err := DecodeExecution(x.Encode())
		if err != nil || !cmp.Equal(x, again) {
			t.Fatalf("%v %s", err, cmp.Diff(x, again))
		}
		x.Recipe = ""
		o := Order{ID: x.JobID, Scope: x.Scope}
		for _, y := range []*Execution{x, x.Pause(epoch), x.Resume(epoch)} {
			d := Docs{Execution: y}
			for _, out := range []Outcome{
				p.Answer(o, d, Answer{CommandID: string(id)}, epoch), p.Pulled(o, d, "q", PullEvent{}, epoch),
				p.Tick(o, d, epoch), p.Evaluate(o, d, epoch),
			} {
				if _, err := DecodeExecution(out.Docs.Execution.Encode()); err != nil {
					t.Fatal(err)
				}
				if due := out.Due; !out.Stale && !due.IsZero() && !due.After(epoch) && out.Phase == PhaseRunning && len(out.Commands) == 0 {
					if next := p.Tick(o, out.Docs, epoch); !next.Due.IsZero() && !next.Due.After(epoch) {
						t.Fatalf("due for ever: %s", next.Docs.Execution.Encode())
					}
				}
			}
		}
	})
}
