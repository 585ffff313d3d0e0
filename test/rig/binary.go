package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var binary struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Main runs the tests of a package and removes the binaries that they built.
func Main(m *testing.M) {
	code := m.Run()
	for _, dir := range []string{binary.dir, previous.dir} {
		if dir != "" {
			os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// Binary is the path of takt, built by the first test that asks.
func Binary(t testing.TB) string {
	t.Helper()
	binary.once.Do(build)
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return binary.path
}

func build() {
	if binary.dir, binary.err = os.MkdirTemp("", "takt-test-"); binary.err != nil {
		return
	}
	binary.path = filepath.Join(binary.dir, "takt")
	args := []string{"build", "-o", binary.path}
	if raceDetector {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, program)...).CombinedOutput(); err != nil {
		binary.err = fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		return
	}
	binary.err = openSources()
}

const program = "github.com/taktworks/takt/cmd/takt"

// openSources opens the folders of the binary's sources. go test keeps the result of a test for as long as the files that it opened are the same, and knows
// nothing of what the test lets others open.
func openSources() error {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.Dir}}\n{{.GoMod}}{{end}}{{end}}", program).Output()
	if err != nil {
		return fmt.Errorf("sources of %s: %w", program, err)
	}
	for _, path := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

// Root is the folder of the repository.
func Root(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
