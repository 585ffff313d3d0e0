package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

const readme = "../../README.md"

// TestReadme: the README shows this program, byte for byte, and it is short.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(program), "\n"); n >= 30 {
		t.Errorf("main.go has %d lines, want less than 30", n)
	}
	_, after, found := strings.Cut(string(text), "<!-- first program: examples/first/main.go -->\n```go\n")
	block, _, closed := strings.Cut(after, "```\n")
	if !found || !closed {
		t.Fatalf("%s has no block of the first program", readme)
	}
	if block != string(program) {
		t.Errorf("%s shows\n%s\nbut main.go is\n%s", readme, block, program)
	}
}

// TestRun: it prints what the README says, on a server of the test.
func TestRun(t *testing.T) {
	long.Test(t, "compiles a program")
	srv := testenv.Redis(t)
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	here := strings.Replace(string(program), "redis://127.0.0.1:6379", srv.URL, 1)
	if here == string(program) {
		t.Fatal("main.go does not name the server that is replaced here")
	}
	dir := t.TempDir()
	moved, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	original, err := filepath.Abs("main.go")
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: moved}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{moved: here, overlay: string(replace)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "-overlay", overlay, ".")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if want := "sent to ada@example.org\n"; err != nil || string(out) != want {
		t.Errorf("%v: it printed %q, want %q", err, out, want)
	}
	if err := srv.Client.Do(t.Context(), srv.Client.B().Flushall().Build()).Error(); err != nil { // it has the prefix that a user has
		t.Error(err)
	}
}
