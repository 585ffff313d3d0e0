package recipe

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// waitLine is a Wait in one line: kind, step, and what there is beside.
func waitLine(w Wait) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %gs", w.Kind, w.Step, w.Age)
	say := func(name string, seconds *float64) {
		if seconds != nil {
			fmt.Fprintf(&b, " %s %gs", name, *seconds)
		}
	}
	if w.Action != "" {
		fmt.Fprintf(&b, " %s %s %s %d/%d", w.Action, w.TypeID, w.Asset, w.Attempt, w.Attempts)
	}
	if w.Transition != nil {
		fmt.Fprintf(&b, " #%d to %s (%s)", *w.Transition, w.Target, w.Condition)
	}
	for _, flag := range []struct {
		word string
		on   bool
	}{{"chooses", w.Choosing}, {"holds", w.Holds}} {
		if flag.on {
			b.WriteString(" " + flag.word)
		}
	}
	say("left", w.Left)
	say("again", w.Again)
	if w.Error != "" {
		b.WriteString(" error: " + w.Error)
	}
	for _, c := range w.Causes {
		fmt.Fprintf(&b, " | %s is %v", c.Text, c.Holds)
		for _, o := range c.Operands {
			fmt.Fprintf(&b, "; %s = %s", o.Text, o.Value)
		}
	}
	return b.String()
}

// What a run waits for, after each of its turns.
func TestWaits(t *testing.T) {
	const linear = "step A*\nstep B\nA > B: step.t >= 2.5\ndo a @ A time 30 attempts 3\ndo b @ B"
	const inspect = "step A*\nstep B\nstep C\nA > B: actions.a.result.ok and actions.a.result.mm <= job.parameters.most\nA > C: not actions.a.result.ok and job.parameters.again ! 1\ndo a @ A\ndo b @ B\ndo c @ C"
	for name, c := range map[string]struct {
		recipe string
		turn   func(r *run)
		want   []string
	}{
		"a command, its repetition and its time-out": {linear, func(r *run) { r.wait(4 * time.Second) },
			[]string{"command A 4s a do.a  1/3 left 26s again 6s"}},
		"the next attempt, after a refusal": {linear, func(r *run) { r.wait(4*time.Second).refuse("a", "BUSY", "") },
			[]string{"command A 0s a do.a  2/3 left 30s again 10s"}},
		"a condition over step.t": {linear, func(r *run) { r.answer("a", "").wait(300 * time.Millisecond) },
			[]string{"transition A 0.3s #0 to B (step.t >= 2.5) again 0.7s | step.t >= 2.5 is false; step.t = 0.3"}},
		"a condition that became true and was not looked at": {linear, func(r *run) { r.answer("a", ""); r.now = r.now.Add(3 * time.Second) },
			[]string{"transition A 3s #0 to B (step.t >= 2.5) holds again -2s"}},
		"all commands and events of a step": {"step A*\ndo a @ A\non b @ A with {\"asset_id\":\"scale\"}\ndo c @ A", func(r *run) { r.answer("c", "") },
			[]string{"command A 0s a do.a  1/1 left 10s again 3.333s", "event A 0s b on.b scale 0/0 left 10s"}},
		"the operands that are false": {inspect, func(r *run) { r.answer("a", `{"ok":true,"mm":12.5}`) },
			[]string{
				"transition A 0s #0 to B (actions.a.result.ok and actions.a.result.mm <= job.parameters.most) | actions.a.result.mm <= job.parameters.most is false; actions.a.result.mm = 12.5; job.parameters.most = 10",
				"transition A 0s #1 to C (not actions.a.result.ok and job.parameters.again) | actions.a.result.ok is true; actions.a.result.ok = true | job.parameters.again is false; job.parameters.again = null"}},
		"both sides of a conjunction, and what is missing": {inspect, func(r *run) { r.answer("a", `{"ok":false,"mm":99}`) },
			[]string{
				"transition A 0s #0 to B (actions.a.result.ok and actions.a.result.mm <= job.parameters.most) | actions.a.result.ok is false; actions.a.result.ok = false | actions.a.result.mm <= job.parameters.most is false; actions.a.result.mm = 99; job.parameters.most = 10",
				"transition A 0s #1 to C (not actions.a.result.ok and job.parameters.again) | job.parameters.again is false; job.parameters.again = null"}},
		"a transition that only a method leads around": {"step A*\nstep B\nA > B: never\nset {\"AllowEndless\": true}\ndo a @ A", func(r *run) { r.answer("a", "") },
			[]string{"transition A 0s #0 to B (never)"}},
		"a pause: the time-out and step.t stand still": {linear, func(r *run) {
			r.wait(time.Second).hold(r.x().Pause(r.now))
			r.now = r.now.Add(time.Minute)
		}, []string{"paused A 60s", "command A 1s a do.a  1/3 left 29s"}},
		"a pause in which a condition is true": {linear, func(r *run) {
			r.answer("a", "").wait(900 * time.Millisecond)
			r.now = r.now.Add(2 * time.Second)
			r.hold(r.x().Pause(r.now))
		}, []string{"paused A 0s", "transition A 2.9s #0 to B (step.t >= 2.5) holds"}},
		"a refusal in a pause": {linear, func(r *run) { r.hold(r.x().Pause(r.now)).refuse("a", "BUSY", "door open") },
			[]string{"paused A 0s", "command A 0s a do.a  1/3 error: action a was refused: BUSY: door open"}},
		"the paths of a simultaneous branch": {"step A*\nstep B1\nstep B2\nstep B3\nstep C\nsim B: B1 B2 | B3\nA > B\nB > C: job.id == 'x'\ndo b1 @ B1\ndo b2 @ B2\ndo b3 @ B3", func(r *run) { r.answer("b1", "") },
			[]string{"command B2 0s b2 do.b2  1/1 left 10s again 3.333s", "command B3 0s b3 do.b3  1/1 left 10s again 3.333s"}},
		"a branch that is done": {"step A*\nstep B1\nstep B2\nstep C\nsim B: B1 | B2\nA > B\nB > C: job.id == 'x'\ndo b1 @ B1\ndo b2 @ B2", func(r *run) { r.answer("b1", "").answer("b2", "") },
			[]string{`transition B 0s #1 to C (job.id == 'x') | job.id == "x" is false; job.id = "JO-1"`}},
		"a branch that chooses": {"step A*\nstep B1\nstep B2\nstep C\nsel B: B1 | B2\nA > B\nB > B1: job.parameters.mark == 'laser'\nB > B2: job.parameters.mark in ['ink', 'label'] ! 1\nB > C\ndo b1 @ B1\ndo b2 @ B2", func(*run) {},
			[]string{
				`transition B 0s #1 to B1 (job.parameters.mark == 'laser') chooses | job.parameters.mark == "laser" is false; job.parameters.mark = "none"`,
				`transition B 0s #2 to B2 (job.parameters.mark in ['ink', 'label']) chooses | job.parameters.mark in ["ink", "label"] is false; job.parameters.mark = "none"`}},
		"a run that is over": {linear, func(r *run) { r.hold(r.x().Stop(r.now)) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := begin(t, c.recipe, map[string]any{"most": 10, "mark": "none"})
			c.turn(r)
			var got []string
			for _, w := range r.p.Waits(r.o, r.x(), r.now) {
				got = append(got, waitLine(w))
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("waits for\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// The parts of a condition that make it false, with the values of their operands.
func TestCauses(t *testing.T) {
	p := compile(t, string(text("step A*\ndo weld @ A\ndo scan-2 @ A\ndo idle @ A")))
	for condition, want := range map[string]string{
		"job.parameters.off":                                                          "job.parameters.off is false; job.parameters.off = false",
		"not job.parameters.on":                                                       "job.parameters.on is true; job.parameters.on = true",
		"not (not job.parameters.off)":                                                "job.parameters.off is false; job.parameters.off = false",
		"job.parameters.on && actions.idle.ok":                                        "actions.idle.ok is false; actions.idle.ok = false",
		"actions.idle.ok or job.parameters.off":                                       "actions.idle.ok is false; actions.idle.ok = false | job.parameters.off is false; job.parameters.off = false",
		"not (actions.weld.ok or actions.idle.ok)":                                    "actions.weld.ok is true; actions.weld.ok = true",
		"not (actions.weld.ok and job.parameters.on)":                                 "actions.weld.ok is true; actions.weld.ok = true | job.parameters.on is true; job.parameters.on = true",
		"actions.weld.result.seams[1].mm > job.parameters.count * 10":                 "actions.weld.result.seams[1].mm > job.parameters.count * 10 is false; actions.weld.result.seams[1].mm = 15.5; job.parameters.count * 10 = 30; job.parameters.count = 3",
		"actions.weld.result.id < 9007199254740993":                                   "actions.weld.result.id < 9007199254740993 is false; actions.weld.result.id = 9007199254740993",
		"job.parameters.mark != nil and job.parameters.none.x > 3 or step.t > 1e3":    "",
		"job.parameters.none != nil and job.parameters.none > 3":                      "job.parameters.none != nil is false; job.parameters.none = null",
		"(actions.weld.result.none ?? false) or job.parameters.mark matches '^[0-9]'": `actions.weld.result.none ?? false is false; actions.weld.result.none = null | job.parameters.mark matches "^[0-9]" is false; job.parameters.mark = "laser"`,
		"job.parameters.on ? actions.idle.ok : true":                                  "job.parameters.on ? actions.idle.ok : true is false; job.parameters.on = true; actions.idle.ok = false",
		"step.t > 2.5 or len(job.parameters.list) > 2":                                "step.t > 2.5 is false; step.t = 2.5 | len(job.parameters.list) > 2 is false; len(job.parameters.list) = 2; job.parameters.list = [1,\"b\"]",
	} {
		c, err := compileCondition(condition, conditionActions)
		if err != nil {
			t.Errorf("%s: %v", condition, err)
			continue
		}
		s := conditionScope()
		if holds, err := c.holds(s); holds || (err == nil) != (want != "") {
			t.Errorf("%s: %v, %v", condition, holds, err)
		}
		if want == "" {
			continue
		}
		line := waitLine(Wait{Causes: p.causes(c, s)})
		if got := strings.TrimPrefix(line, "  0s | "); got != want {
			t.Errorf("%s: %s\nwant %s", condition, got, want)
		}
	}
}
