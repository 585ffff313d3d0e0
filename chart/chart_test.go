package chart

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv/golden"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// pictures are the charts of the documentation and what each shows.
var pictures = []struct{ name, file string }{
	{"gearbox-cover", "../examples/gearbox-cover/recipe.json"},
	{"both-branches", "testdata/both-branches.json"},
	{"rework", "testdata/rework.json"},
	{"jumps", "testdata/jumps.json"},
	{"hundred", "testdata/hundred.json"},
}

func read(t *testing.T, file string) *recipe.Recipe {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	program, err := recipe.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return program.Recipe()
}

// Each picture is complete, has nothing on anything else, and is what the documentation shows; so is its text.
func TestPictures(t *testing.T) {
	for _, p := range pictures {
		r := read(t, p.file)
		for name, m := range map[string]metrics{"pixels": pixels, "cells": cells} {
			d := draw(r, newGraph(r), m, nil)
			for _, fault := range append(faults(d), missing(r, d)...) {
				t.Errorf("%s in %s: %s", p.name, name, fault)
			}
		}
		c := New(r)
		golden.Check(t, "../docs/pictures/"+p.name+".svg", string(c.SVG(Options{Title: p.name})))
		golden.Check(t, "testdata/"+p.name+".txt", c.Text(Options{}))
		golden.Check(t, "testdata/"+p.name+"-80.txt", c.Text(Options{Width: 80}))
	}
}

// A file brings its style sheet and a fragment does not; neither has style attributes, scripts or links, and both are XML.
func TestPicturesAreSelfContained(t *testing.T) {
	hostile := &recipe.Recipe{
		Steps:       []recipe.Step{{Name: `<script>alert("&")</script>`, Initial: true}},
		Transitions: []recipe.Transition{{Source: `<script>alert("&")</script>`, Target: "nowhere", Condition: "job.id == '</svg><script style=\"x\">' \x1b[31m\x00\xff"}},
		Actions:     []recipe.Action{{Name: "a\nb", Step: `<script>alert("&")</script>`, Qualifier: "\"", TypeID: "]]>", Parameters: json.RawMessage(`{"style=": "<"}`)}},
	}
	charts := map[string]*Chart{"hostile": New(hostile), "empty": New(&recipe.Recipe{})}
	for _, p := range pictures {
		charts[p.name] = New(read(t, p.file))
	}
	attribute := regexp.MustCompile(`<[^<>]* (style|on\w+|href)=`)
	for name, c := range charts {
		for kind, svg := range map[string][]byte{"file": c.SVG(Options{}), "fragment": c.Fragment(Options{})} {
			want := 0
			if kind == "file" {
				want = 1
			}
			if n := bytes.Count(svg, []byte("<style>")); n != want {
				t.Errorf("%s of %s has %d style elements", kind, name, n)
			}
			if attribute.Match(svg) || bytes.Contains(svg, []byte("<script")) {
				t.Errorf("%s of %s has an attribute or element that it must not have", kind, name)
			}
			for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
				_, err := d.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("%s of %s: %v", kind, name, err)
				}
			}
		}
		if text := c.Text(Options{Width: 60}); strings.ContainsAny(text, "\x1b\x00") {
			t.Errorf("the text of %s has control characters", name)
		}
	}
}

// Every class that a picture uses is in the style sheet, in light and in dark where it has a color.
func TestStyleHasEveryClass(t *testing.T) {
	c := New(read(t, "testdata/jumps.json"))
	class := regexp.MustCompile(`class="([^"]+)"`)
	svg := string(c.SVG(Options{})) + string(GanttSVG(bars, "")) + string(New(read(t, pictures[0].file)).SVG(Options{Live: live()}))
	for _, m := range class.FindAllStringSubmatch(svg, -1) {
		for _, name := range strings.Fields(m[1]) {
			if name != "takt-chart" && name != "always" && !strings.Contains(Style, "."+name+" ") && !strings.Contains(Style, "."+name+",") {
				t.Errorf("class %s is not in the style sheet", name)
			}
		}
	}
	if light, dark, ok := strings.Cut(Style, "@media (prefers-color-scheme: dark)"); !ok || strings.Count(light, "{") != strings.Count(light, "}") || strings.Count(dark, "{") != strings.Count(dark, "}") {
		t.Error("the style sheet does not close what it opens")
	}
}

// No line of a text is wider than asked.
func TestTextWidth(t *testing.T) {
	for _, p := range pictures {
		c := New(read(t, p.file))
		for _, width := range []int{20, 60, 80, 120, 200} {
			for line := range strings.Lines(c.Text(Options{Width: width})) {
				if n := cellWidth(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%s has a line of %d cells, %d were asked for: %s", p.name, n, width, line)
				}
			}
		}
	}
}

// live is the gearbox cover in its second iteration of the loop: a time-out was missed, and a transition waits.
func live() *Live {
	at := time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)
	ms := func(s float64) int64 { return at.UnixMilli() + int64(s*1000) }
	return &Live{
		Now: at.Add(75500 * time.Millisecond),
		Execution: &recipe.Execution{
			JobID: "JO-7", CurrentStep: "InspectTorque", StartedAt: ms(0), ActiveSteps: []string{"InspectTorque"},
			Steps: []recipe.StepEntry{
				{Name: "AwaitPallet", Since: ms(0), Iteration: 1}, {Name: "PrepareParallel", Since: ms(30), Iteration: 1}, {Name: "PlaceCover", Since: ms(12), Iteration: 1},
				{Name: "PressBearings", Since: ms(20), Iteration: 1}, {Name: "CameraCheck", Since: ms(12), Iteration: 1},
				{Name: "Tighten", Since: ms(52), Iteration: 2}, {Name: "InspectTorque", Since: ms(71), Iteration: 2},
			},
			Actions: []recipe.ActionEntry{
				{Name: "await_pallet", State: recipe.ActionCompleted, Result: json.RawMessage(`{"pallet": "P-12"}`), Iteration: 1},
				{Name: "place_cover", State: recipe.ActionCompleted, Attempt: 1, FirstAttempt: 1, Iteration: 1},
				{Name: "press_bearings", State: recipe.ActionCompleted, Attempt: 2, FirstAttempt: 1, Result: json.RawMessage(`{"force_kn": 12.48, "depth_mm": 14.19, "duration_ms": 8121}`), Iteration: 1},
				{Name: "camera_check", State: recipe.ActionCompleted, Result: json.RawMessage(`{"ok": true}`), Iteration: 1},
				{Name: "tighten_cover", State: recipe.ActionCompleted, Attempt: 2, FirstAttempt: 2, Iteration: 2},
				{Name: "inspect_torque", State: recipe.ActionWaiting, Deadline: ms(131), DispatchedAt: ms(71), Iteration: 2},
				{Name: "laser_mark", State: recipe.ActionPending}, {Name: "print_label", State: recipe.ActionPending}, {Name: "release_pallet", State: recipe.ActionPending},
			},
		},
		Waits: map[int]string{3: "actions.inspect_torque.result.torque_nm is not there yet"},
	}
}

// A run shows where it is, since when, what each action does and why a transition waits, and stays as clean as the recipe.
func TestLive(t *testing.T) {
	r := read(t, pictures[0].file)
	failed := live()
	failed.Execution.Failed, failed.Execution.Error, failed.Execution.EndedAt = true, "inspect_torque: no event within 60 s", failed.Now.UnixMilli()
	failed.Execution.Actions[5].State, failed.Execution.Actions[5].Error = recipe.ActionFailed, "TIMEOUT: no event within 60 s"
	busy := live()
	busy.Execution.CurrentStep, busy.Execution.ActiveSteps = "PrepareParallel", []string{"PressBearings", "CameraCheck"}
	busy.Execution.Actions[2] = recipe.ActionEntry{Name: "press_bearings", State: recipe.ActionDispatched, Attempt: 2, FirstAttempt: 1, Deadline: busy.Now.UnixMilli() + 12300, Error: "BUSY: try again"}
	busy.Execution.Actions[3].State = recipe.ActionWaiting
	paused := live()
	paused.Execution = paused.Execution.Pause(paused.Now)
	paused.Now = paused.Now.Add(time.Hour)
	for name, live := range map[string]*Live{"waits": live(), "failed": failed, "busy": busy, "paused": paused} {
		for medium, m := range map[string]metrics{"pixels": pixels, "cells": cells} {
			for _, fault := range faults(draw(r, newGraph(r), m, newState(live))) {
				t.Errorf("%s in %s: %s", name, medium, fault)
			}
		}
		c := New(r)
		golden.Check(t, "testdata/live-"+name+".txt", c.Text(Options{Live: live}))
		golden.Check(t, "testdata/live-"+name+".svg", string(c.SVG(Options{Live: live})))
	}
	large := live() // which takes minutes if a text is cut one character at a time
	large.Execution.Actions[0].Result = []byte(`{"scan":"` + strings.Repeat("z", 60_000) + `"}`)
	if text := New(r).Text(Options{Live: large}); !strings.Contains(text, `✓ {"scan":"zzz`) || len(text) > 20_000 {
		t.Errorf("%d bytes for a large result", len(text))
	}
	// However narrow the terminal, the actions of an active or failed step stay.
	for want, live := range map[string]*Live{"← inspec": live(), "✗ TIME": failed} {
		if text := New(r).Text(Options{Live: live, Width: 80}); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	golden.Check(t, "testdata/live-color.txt", New(r).Text(Options{Live: live(), Color: true, Width: 80}))
}

var bars = []Bar{
	{Lane: "AwaitPallet", Name: "await_pallet", State: "done", To: 12 * time.Second},
	{Lane: "PlaceCover", Name: "place_cover", State: "done", From: 12 * time.Second, To: 20 * time.Second},
	{Lane: "PressBearings", Name: "press_bearings", State: "failed", From: 20 * time.Second, To: 24 * time.Second},
	{Lane: "PressBearings", Name: "press_bearings", State: "done", From: 24 * time.Second, To: 30 * time.Second},
	{Lane: "CameraCheck", Name: "camera_check", State: "done", From: 12 * time.Second, To: 12*time.Second + 300*time.Millisecond},
	{Lane: "CameraCheck", Name: "and at the same time <light>", From: 12 * time.Second, To: 15 * time.Second},
	{Lane: "Tighten", Name: "tighten_cover", State: "active", From: 30 * time.Second, To: 65 * time.Second},
}

func TestGantt(t *testing.T) {
	golden.Check(t, "testdata/gantt.svg", string(GanttSVG(bars, "JO-7")))
	golden.Check(t, "testdata/gantt.txt", GanttText(bars, 80))
	for _, some := range [][]Bar{nil, {{}}, {{From: 5, To: 3}}, {{Lane: "x", To: 10000 * time.Hour}}} {
		if svg := GanttSVG(some, ""); xml.Unmarshal(svg, new(struct{})) != nil {
			t.Errorf("%v: %s", some, svg)
		}
		_ = GanttText(some, 0)
	}
	if svg := string(GanttFragment([]Bar{{Lane: "x", Name: `"<b`, To: time.Second, Href: `/a?b="&c`}}, "")); !strings.Contains(svg, `<a href="/a?b=&#34;&amp;c" aria-label="x: &#34;&lt;b">`) || strings.Contains(svg, `role="img"`) || xml.Unmarshal([]byte(svg), new(struct{})) != nil {
		t.Errorf("a bar that leads somewhere: %s", svg)
	}
	if svg := string(GanttFragment([]Bar{{Lane: "x", To: 3 * time.Minute}}, "")); !strings.Contains(svg, ">1m30s<") || !strings.Contains(svg, ">2m<") || strings.Contains(svg, "<style>") {
		t.Errorf("times of the axis, and no style of its own:\n%s", svg)
	}
}

// The picture of the state machine has every transition of the machine, and no other.
func TestMachineIsWhole(t *testing.T) {
	type way struct{ from, to, method string }
	var want, got []way
	for _, tr := range isa95.Transitions() {
		if w := (way{tr.From.Top, tr.To.Top, string(tr.Method)}); w.from != w.to && !slices.Contains(want, w) {
			want = append(want, w)
		}
	}
	for _, e := range edges {
		for _, m := range strings.Split(e.methods, ", ") {
			got = append(got, way{e.from, e.to, m})
		}
	}
	sorted := func(a, b way) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
	slices.SortFunc(want, sorted)
	slices.SortFunc(got, sorted)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(way{})); diff != "" {
		t.Error(diff)
	}
	for _, s := range isa95.States() {
		if text := string(MachineFragment(s)); s.Top != "" && !strings.Contains(text, `<g class="active">`) {
			t.Errorf("the picture does not show %s", s)
		}
	}
}
