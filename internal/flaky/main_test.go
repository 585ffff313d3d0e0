package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

// Each case is a package whose tests gotestsum runs as the gate does.
func TestJudge(t *testing.T) {
	const once = `func once(t *testing.T, text string) {
		if _, err := os.Stat("ran"); err != nil {
			os.WriteFile("ran", nil, 0o600)
			t.Error(text)
		}
	}
	`
	cases := []struct {
		name, code string
		passes     bool     // with gotestsum alone
		flaky      []string // prefixes of lines
		faults     []string
	}{
		{"flaky", once + `func TestA(t *testing.T) { once(t, "too late") }`, true, []string{"FLAKY m TestA    m_test.go:14: too late"}, nil},
		{"subtest", once + `func TestA(t *testing.T) { t.Run("x y", func(t *testing.T) { once(t, "too late") }) }`, true, []string{"FLAKY m TestA/x_y    m_test.go:14: too late", "FLAKY m TestA"}, nil},
		{"broken", `func TestA(t *testing.T) { t.Error("wrong") }`, false, nil, []string{"FAILED m TestA    m_test.go:11: wrong"}},
		{"package", once + `func TestMain(m *testing.M) {
			if m.Run(); len(os.Args) < 2 || !strings.Contains(strings.Join(os.Args, " "), "test.run=") {
				os.Exit(1) // a goroutine is left
			}
		}
		func TestA(*testing.T) {}`, true, nil, []string{"FAILED m without a failed test: "}},
		{"child", once + `func TestA(t *testing.T) { once(t, "takt: process 7, exit status 2\n    err| panic: boom") }`, true, []string{"FLAKY m TestA    m_test.go:14: takt: process 7, exit status 2"}, []string{"CRASHED m TestA            err| panic: boom"}},
		{"skipped", `func TestA(t *testing.T) { t.Skip("no redis-server") }
		func TestB(t *testing.T) { t.Skip("not under -short: it waits") }
		func TestC(t *testing.T) { t.Skip("not with -race: it measures memory") }`, true, nil, []string{"SKIPPED m TestA    m_test.go:11: no redis-server"}},
	}
	gotestsum := filepath.Join(t.TempDir(), "gotestsum")
	if out, err := exec.Command("go", "build", "-modfile=../../tools.mod", "-o", gotestsum, "gotest.tools/gotestsum").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			code := "package m\n\nimport (\n\t\"os\"\n\t\"strings\"\n\t\"testing\"\n)\n\nvar _, _ = os.Args, strings.Join\n\n" + c.code + "\n"
			for name, text := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "m_test.go": code} {
				testenv.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			record := filepath.Join(dir, "record")
			cmd := exec.Command(gotestsum, "--jsonfile="+record, "--rerun-fails=2", "--rerun-fails-max-failures=10", "--rerun-fails-abort-on-data-race", "--packages=./...", "--", "-short", "-vet=off")
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.passes {
				t.Errorf("gotestsum: %v\n%s", err, out)
			}
			text, err := os.ReadFile(record)
			testenv.Must(t, err)
			flaky, faults := judge(bytes.NewReader(text))
			for what, pair := range map[string][2][]string{"flaky": {flaky, c.flaky}, "faults": {faults, c.faults}} {
				if !slices.EqualFunc(pair[0], pair[1], strings.HasPrefix) {
					t.Errorf("%s: %q, want %q", what, pair[0], pair[1])
				}
			}
		})
	}
}
