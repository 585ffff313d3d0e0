package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

// built is a binary that the first test that asks builds.
type built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// The race detector makes takt several times as slow. Where faults meet a lot of work it has none; the same code runs with it in the other tests.
var withRace, plain built

// Main runs the tests of a package and removes the binaries that they built.
func Main(m *testing.M) {
	code := m.Run()
	for _, dir := range []string{withRace.dir, plain.dir} {
		if dir != "" {
			os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// Binary is the path of takt, built by the first test that asks, with the race detector if the test has it.
func Binary(t testing.TB) string {
	t.Helper()
	return withRace.get(t, testenv.RaceDetector)
}

// PlainBinary is the path of takt as users have it.
func PlainBinary(t testing.TB) string {
	t.Helper()
	return plain.get(t, false)
}

func (b *built) get(t testing.TB, race bool) string {
	t.Helper()
	b.once.Do(func() { b.build(race) })
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

func (b *built) build(race bool) {
	if b.dir, b.err = os.MkdirTemp("", "takt-test-"); b.err != nil {
		return
	}
	b.path = filepath.Join(b.dir, "takt")
	args := []string{"build", "-o", b.path}
	if race {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, program)...).CombinedOutput(); err != nil {
		b.err = fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		return
	}
	b.err = openSources()
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
	testenv.Must(t, err)
	return strings.TrimSpace(string(out))
}
