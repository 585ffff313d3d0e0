package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv/golden"
)

// The trace, the Gantt chart and the end of an order whose press is refused once and whose camera is late, for people and for programs.
func TestRecipeSimulate(t *testing.T) {
	args := []string{
		"recipe", "simulate", "../../examples/gearbox-cover/recipe.json", "--equipment", "../../examples/gearbox-cover/equipment.yaml", "--order", "testdata/simulated-order.json",
		"--refuse", "press_bearings:1", "--late", "camera_check=2s",
	}
	code, out, errOut := takt(args...)
	if code != 0 || errOut != "" {
		t.Errorf("exit status %d: %s", code, errOut)
	}
	golden.Check(t, "testdata/simulated.txt", out)

	picture := filepath.Join(t.TempDir(), "gantt.svg")
	code, out, errOut = takt(append(args, "--json", "-o", picture)...)
	if code != 0 || errOut != "" {
		t.Errorf("--json: exit status %d: %s", code, errOut)
	}
	golden.Check(t, "testdata/simulated.jsonl", out)
	for l := range strings.Lines(out) {
		if !json.Valid([]byte(l)) {
			t.Errorf("%q is no JSON", l)
		}
	}
	if svg, err := os.ReadFile(picture); err != nil || !strings.HasPrefix(string(svg), "<svg") || !strings.Contains(string(svg), "press_bearings") {
		t.Errorf("%v: %.100s", err, svg)
	}
}

// What cannot be simulated is said with the field and the rule; an order that does not complete gives the exit status 1.
func TestRecipeSimulateFails(t *testing.T) {
	const cell, order = "../../examples/gearbox-cover/", "--order testdata/simulated-order.json"
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"", exitUsage, "parameter torque_min_nm is missing; give an order that has them with --order FILE"},
		{order + " --no-answer camera_check", exitFailed, "1 of 1 orders did not complete: JO-1 Aborted"},
		{order + " --no-answer presss", exitUsage, `--no-answer presss: the recipe has no action "presss"; it has await_pallet, place_cover`},
		{order + " --refuse camera_check", exitUsage, "--refuse camera_check: action camera_check waits for an event"},
		{order + " --late press_bearings", exitUsage, "--late press_bearings: must be an action"},
		{order + " --late press_bearings=soon", exitUsage, "such as press:2=90s"},
		{order + " --seed 3", exitUsage, "--seed is of the draws in --equipment FILE"},
		{"--order testdata/broken.json", exitUsage, "testdata/broken.json:"},
		{order + " --equipment " + cell + "station.yaml", exitUsage, "max_job_orders is not known here"},
	} {
		code, _, errOut := takt(append([]string{"recipe", "simulate", cell + "recipe.json"}, strings.Fields(test.args)...)...)
		if code != test.code || !strings.Contains(errOut, test.want) {
			t.Errorf("%s: exit status %d, %q, want %d with %q", test.args, code, errOut, test.code, test.want)
		}
	}
	if code, _, errOut := takt("recipe", "simulate", "testdata/broken.json"); code != exitUsage || !strings.Contains(errOut, "see takt recipe check") {
		t.Errorf("exit status %d, %q", code, errOut)
	}
}
