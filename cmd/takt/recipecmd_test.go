package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files")

// golden compares text with a file below testdata.
func golden(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s: -want +got:\n%s\nwith -update it is written anew", file, diff)
	}
}

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
	golden(t, "findings.txt", out)
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
	golden(t, "findings.jsonl", out)
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

func TestRecipeDraw(t *testing.T) {
	code, out, errOut := takt("recipe", "draw", "../../test/rig/cell/recipe.json")
	if code != 0 || !strings.HasPrefix(out, "flowchart ") || !strings.Contains(out, "InspectTorque") {
		t.Errorf("exit status %d:\n%s%s", code, out, errOut)
	}
	if code, out, errOut := takt("recipe", "draw", "testdata/broken.json"); code != exitFailed || out != "" || !strings.Contains(errOut, "R009") {
		t.Errorf("exit status %d:\n%s%s", code, out, errOut)
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
