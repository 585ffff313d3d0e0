package chart

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/recipe"
)

// faults lists what a reader would stumble over: boxes and texts on each other, lines through boxes and texts, lines that cross.
func faults(d drawing) []string {
	var found []string
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for i, a := range d.boxes {
		for _, b := range d.boxes[i+1:] {
			if a.overlaps(b.rect) {
				report("boxes overlap: %+v and %+v", a, b)
			}
		}
		for _, l := range d.lines {
			if a.overlaps(l.extent()) {
				report("a line crosses a box: %+v and %+v", l, a)
			}
		}
	}
	inside := func(t text) bool {
		return t.box == 0 || slices.ContainsFunc(d.boxes, func(b box) bool {
			return b.id == t.box && b.x <= t.x && b.y <= t.y && t.x+t.w <= b.x+b.w && t.y+t.h <= b.y+b.h
		})
	}
	for i, t := range d.texts {
		if !inside(t) {
			report("a text leaves its box: %+v", t)
		}
		for _, o := range d.texts[i+1:] {
			if t.overlaps(o.rect) {
				report("texts overlap: %+v and %+v", t, o)
			}
		}
		for _, b := range d.boxes {
			if t.overlaps(b.rect) && t.box != b.id {
				report("a text is in a box that is not its own: %+v and %+v", t, b)
			}
			for _, x := range b.cuts {
				if t.overlaps(rect{x, b.y, 1, b.h}) {
					report("a text crosses the border of a cell: %+v at %d", t, x)
				}
			}
		}
		for _, l := range d.lines {
			if t.overlaps(l.extent()) {
				report("a line crosses a text: %+v and %+v", l, t)
			}
		}
	}
	for _, a := range d.lines {
		for _, b := range d.lines {
			if crosses(a, b) {
				report("lines cross: %+v and %+v", a, b)
			}
		}
	}
	return found
}

// crosses tells whether a link passes a horizontal line from above to below, or one of two links runs on the other.
func crosses(link, b line) bool {
	if link.kind != lineLink && link.kind != lineJump {
		return false
	}
	switch b.kind {
	case lineSingle, lineDouble:
		return b.x1 <= link.x1 && link.x1 <= b.x2 && link.y1 < b.y1 && link.y2 > max(b.y2, b.y1+1)
	case lineConnect, lineLanding:
		return b.x1 <= link.x1 && link.x1 < b.x2 && link.y1 < b.y1 && link.y2 > b.y1
	case lineLink, lineJump:
		return link != b && link.x1 == b.x1 && link.y1 < b.y2 && b.y1 < link.y2 && link.y1 < link.y2 && b.y1 < b.y2
	}
	return false
}

// missing lists what of r is not in d: steps, actions, transitions.
func missing(r *recipe.Recipe, d drawing) []string {
	var missing []string
	steps, actions, bars := 0, 0, 0
	for _, b := range d.boxes {
		switch b.kind {
		case boxStep, boxInitial:
			steps++
		case boxAction:
			actions++
		}
	}
	for _, l := range d.lines {
		if l.kind == lineBar && l.title == "" {
			bars++
		}
	}
	want := len(r.Transitions)
	for _, b := range r.Branches {
		first := map[string]bool{}
		for _, path := range b.Paths {
			first[path[0]] = true
		}
		entries := 0
		for _, t := range r.Transitions {
			if t.Source == b.Name && first[t.Target] {
				entries++
			}
		}
		switch {
		case b.Type == recipe.SimultaneousBranch:
			want -= entries // all paths start at once, without a bar
		case entries == 0:
			want += len(b.Paths) // bars say which path is taken
		}
	}
	for _, n := range []struct {
		of         string
		have, want int
	}{{"steps", steps, len(r.Steps)}, {"actions", actions, len(r.Actions)}, {"transitions", bars, want}} {
		if n.have != n.want {
			missing = append(missing, fmt.Sprintf("%d %s are drawn, the recipe has %d", n.have, n.of, n.want))
		}
	}
	return missing
}

// Whatever a recipe is, in both media nothing stands on anything else, and nothing is left out.
func TestDrawingsAreClean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := randomRecipe(t)
		folded := newGraph(r)
		folded.fold()
		for _, c := range []struct {
			name string
			metrics
			*graph
		}{{"pixels", pixels, newGraph(r)}, {"cells", cells, newGraph(r)}, {"folded", cells, folded}} {
			d := draw(r, c.graph, c.metrics, nil)
			if found := append(faults(d), missing(r, d)...); len(found) > 0 {
				text, _ := json.Marshal(r)
				t.Fatalf("%s: %v\n%s\n%s", c.name, found, New(r).Text(Options{}), text)
			}
		}
	})
}

// randomRecipe makes a recipe that could be checked without an error: a row of steps and branches, each with a way to the
// next one, and ways to anywhere.
func randomRecipe(t *rapid.T) *recipe.Recipe {
	r := &recipe.Recipe{AllowEndless: true}
	n := func(least, most int, label string) int { return rapid.IntRange(least, most).Draw(t, label) }
	name := func() string {
		return fmt.Sprint("S", len(r.Steps), rapid.SampledFrom([]string{"", "", "_press", "_a_name_of_many_characters_that_no_box_has_room_for_in_full", "検査工程"}).Draw(t, "name"))
	}
	step := func() string {
		s := name()
		r.Steps = append(r.Steps, recipe.Step{Name: s, Initial: len(r.Steps) == 0})
		for range max(0, n(-1, 3, "actions")) {
			r.Actions = append(r.Actions, recipe.Action{
				Name: fmt.Sprint("a", len(r.Actions), rapid.StringMatching(`[a-z_]{0,20}`).Draw(t, "action")), Step: s, Qualifier: "N",
				Interaction: rapid.SampledFrom([]recipe.Interaction{recipe.InteractionPush, recipe.InteractionPull}).Draw(t, "interaction"),
				TypeID:      "com.acme." + rapid.StringMatching(`[a-z.]{0,60}`).Draw(t, "type"), TimeoutSeconds: n(1, 86400, "time"), MaxAttempts: n(0, 4, "attempts"),
			})
		}
		return s
	}
	condition := func() string {
		return rapid.SampledFrom([]string{"", "always", "otherwise", "job.parameters.mode == 'auto'",
			"actions.inspect_torque.result.torque_nm >= job.parameters.torque_min_nm and actions.inspect_torque.result.angle_deg < 720 or job.parameters.override",
			"averylongwordwithoutanyspaceinitthatgoesonandonandonandonandonandonandon == 1 and x or y and z and 1 == 1 or 2 == 2 or 3 == 3 or 4 == 4 or 5 == 5"}).Draw(t, "condition")
	}
	var places []string
	for range n(1, 14, "places") {
		if len(places) == 0 || n(0, 3, "place") > 0 {
			places = append(places, step())
			continue
		}
		b := recipe.Branch{Name: fmt.Sprint("B", len(r.Branches)), Type: rapid.SampledFrom([]recipe.BranchType{recipe.SelectionBranch, recipe.SimultaneousBranch}).Draw(t, "branch")}
		entries := rapid.Bool().Draw(t, "entries")
		for range n(1, 4, "paths") {
			var path []string
			for range n(1, 3, "steps") {
				path = append(path, step())
			}
			b.Paths = append(b.Paths, path)
			if entries {
				r.Transitions = append(r.Transitions, recipe.Transition{Source: b.Name, Target: path[0], Condition: condition(), Priority: len(b.Paths)})
			}
		}
		r.Branches = append(r.Branches, b)
		places = append(places, b.Name)
	}
	for i, from := range places {
		for k := range max(0, n(-2, 3, "ways")) {
			r.Transitions = append(r.Transitions, recipe.Transition{Source: from, Target: rapid.SampledFrom(places).Draw(t, "target"), Condition: condition(), Priority: k})
		}
		if i+1 < len(places) { // from one of the places before, so that charts become trees, too
			from = places[max(0, i-max(0, n(-3, 3, "back")))]
			r.Transitions = append(r.Transitions, recipe.Transition{Source: from, Target: places[i+1], Condition: condition(), Priority: 9})
		}
	}
	return r
}

// A recipe whose steps lead everywhere has more knots than are looked for one by one; it is drawn as a tree with jumps, as clean as any.
func TestTangleIsDrawnWithJumps(t *testing.T) {
	const steps = 150
	r := &recipe.Recipe{}
	for i := range steps {
		name := fmt.Sprint("S", i)
		r.Steps = append(r.Steps, recipe.Step{Name: name, Initial: i == 0})
		r.Actions = append(r.Actions, recipe.Action{Name: "do_" + name, Step: name, Qualifier: "N", Interaction: recipe.InteractionPush, TimeoutSeconds: 1})
		for k, distance := range []int{1, 2, 5, 13, 34} {
			r.Transitions = append(r.Transitions, recipe.Transition{Source: name, Target: fmt.Sprint("S", (i*k+i+distance)%steps), Priority: k})
		}
	}
	for name, m := range map[string]metrics{"pixels": pixels, "cells": cells} {
		d := draw(r, newGraph(r), m, nil)
		if found := append(faults(d), missing(r, d)...); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}
