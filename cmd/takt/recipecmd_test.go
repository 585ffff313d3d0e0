package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv/golden"
)

// Findings are for people and for editors: FILE:LINE: CODE SEVERITY: MESSAGE.
func TestRecipeCheck(t *testing.T) {
	t.Chdir("testdata")
	code, out, errOut := takt("recipe", "check", "broken.json", "warned.json")
	if code != exitFailed || errOut != "" {
		t.Errorf("exit status %d, said %q", code, errOut)
	}
	if !strings.Contains(out, "broken.json:8: R009 error: ") {
		t.Errorf("no line 8:\n%s", out)
	}
	golden.Check(t, "findings.txt", out)
	line := regexp.MustCompile(`^[a-z]+\.json(:\d+)?: [RW]\d{3} (error|warning): .|^    .`)
	for _, l := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		if !line.MatchString(l) {
			t.Errorf("%q", l)
		}
	}

	code, out, errOut = takt("recipe", "check", "--json", "broken.json", "warned.json")
	if code != exitFailed || errOut != "" {
		t.Errorf("--json: exit status %d, said %q", code, errOut)
	}
	golden.Check(t, "findings.jsonl", out)
	for _, l := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		var f fileFinding
		if err := json.Unmarshal([]byte(l), &f); err != nil || f.File == "" || f.Code == "" || f.Severity == "" || f.Message == "" {
			t.Errorf("%s: %v", l, err)
		}
	}
}

// A warning is no failure.
func TestRecipeCheckPasses(t *testing.T) {
	if code, out, _ := takt("recipe", "check", "testdata/warned.json"); code != 0 || !strings.Contains(out, "warning") {
		t.Errorf("exit status %d:\n%s", code, out)
	}
	if code, out, errOut := takt("recipe", "check", "../../examples/gearbox-cover/recipe.json", "../../test/rig/cell/recipe.json"); code != 0 || strings.Contains(out, " error: ") || errOut != "" {
		t.Errorf("exit status %d:\n%s%s", code, out, errOut)
	}
}

func TestRecipeFromStandardInput(t *testing.T) {
	text, err := os.ReadFile("testdata/broken.json")
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	if code := run([]string{"recipe", "check", "-"}, bytes.NewReader(text), &out, &errOut); code != exitFailed || !strings.HasPrefix(out.String(), "<stdin>:8: R009 error: ") {
		t.Errorf("exit status %d:\n%s%s", code, out.String(), errOut.String())
	}
	if code, _, errOut := takt("recipe", "check", "nowhere.json"); code != exitUsage || !strings.Contains(errOut, "nowhere.json") {
		t.Errorf("exit status %d: %s", code, errOut)
	}
}

// The format is that of --format, else of the extension of the output file, else text.
func TestRecipeDraw(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	file := filepath.Join(dir, "../../test/rig/cell/recipe.json")
	for _, tc := range []struct{ args, output, begin, has string }{
		{"", "", " ", "║"},
		{"--format text", "", " ", "║"},
		{"--format svg", "", "<svg ", "<style>"},
		{"--format mermaid", "", "flowchart ", "s5"},
		{"-o a.svg", "a.svg", "<svg ", "<style>"},
		{"-o a.SVG", "a.SVG", "<svg ", "<style>"},
		{"-o a.txt", "a.txt", " ", "║"},
		{"-o a.mmd", "a.mmd", "flowchart ", "s5"},
		{"-o a.md", "a.md", "```mermaid\nflowchart ", "```\n"},
		{"-o picture --format svg", "picture", "<svg ", "<style>"},
	} {
		code, out, errOut := takt(append([]string{"recipe", "draw", file}, strings.Fields(tc.args)...)...)
		if tc.output != "" {
			text, err := os.ReadFile(tc.output)
			if err != nil || out != "" {
				t.Errorf("%s: %v, printed %q", tc.args, err, out)
			}
			out = string(text)
		}
		if code != exitOK || errOut != "" || !strings.HasPrefix(out, tc.begin) || !strings.Contains(out, tc.has) || !strings.Contains(out, "InspectTorque") {
			t.Errorf("%s: exit status %d: %s\n%s", tc.args, code, errOut, out)
		}
	}
	code, out, _ := takt("recipe", "draw", file, "-o", "b.svg", "--json")
	var d drawn
	if err := json.Unmarshal([]byte(out), &d); code != exitOK || err != nil || d != (drawn{File: file, Format: "svg", Output: "b.svg"}) {
		t.Errorf("exit status %d, %v: %s", code, err, out)
	}
	for _, args := range []string{"--format png", "-o a.png", "-o chart"} {
		code, out, errOut := takt(append([]string{"recipe", "draw", file}, strings.Fields(args)...)...)
		if code != exitUsage || out != "" || !strings.Contains(errOut, "svg") {
			t.Errorf("%s: exit status %d: %s%s", args, code, out, errOut)
		}
	}
	if code, out, errOut := takt("recipe", "draw", filepath.Join(dir, "testdata/broken.json"), "-o", "c.svg"); code != exitFailed || out != "" || !strings.Contains(errOut, "R009") {
		t.Errorf("exit status %d:\n%s%s", code, out, errOut)
	}
	if _, err := os.Stat("c.svg"); err == nil {
		t.Error("a recipe with errors was drawn")
	}
}

func TestVersion(t *testing.T) {
	code, out, _ := takt("version", "--json")
	var b build
	if err := json.Unmarshal([]byte(out), &b); code != 0 || err != nil || b.Version == "" || !strings.HasPrefix(b.Go, "go1.") || !strings.Contains(b.Platform, "/") {
		t.Errorf("exit status %d: %s", code, out)
	}
	if code, out, _ := takt("version"); code != 0 || !strings.HasPrefix(out, "takt ") || !strings.Contains(out, b.Go) {
		t.Errorf("exit status %d: %s", code, out)
	}
}
