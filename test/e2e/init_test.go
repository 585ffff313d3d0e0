package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
)

// A new project passes its tests and runs, with the names that its user gave, on a machine that has Go and no server.
func TestInit(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "press")
	r := rig.Run(t, "init", dir, "--module", "example.com/press", "--scope", "line: 4", "--work-master", "WM-COVER-2", "--action", "press_cover,eject", "--type-prefix", "com.acme", "--replace", rig.Root(t))
	if r.Code != ok || !strings.Contains(r.Stdout, "go mod tidy\n  go test ./...\n  go run .\n") {
		t.Fatalf("exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if r := rig.Run(t, "recipe", "check", filepath.Join(dir, "recipe.json")); r.Code != ok {
		t.Errorf("recipe check: %s%s", r.Stdout, r.Stderr)
	}
	if r := rig.Run(t, "init", dir); r.Code != usage || !strings.Contains(r.Stderr, "is there already") {
		t.Errorf("a second time: exit status %d, %s", r.Code, r.Stderr)
	}
	bin := t.TempDir() // a PATH with nothing but go
	goCommand, err := exec.LookPath("go")
	testenv.Must(t, err)
	testenv.Must(t, os.Symlink(goCommand, filepath.Join(bin, "go")))
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), goCommand, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+bin, "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("mod", "tidy")
	run("test", "./...")
	if out := run("run", "."); !strings.Contains(out, `ordered   {"JobOrder":"LOT-A1","Lots":1}`) || !strings.Contains(out, "result    LOT-A1 is Ended_Completed") {
		t.Errorf("go run . printed\n%s", out)
	}
}

// takt dev ends with the command that it runs beside itself, and has its exit status; the command finds the servers by its environment.
func TestDevExec(t *testing.T) {
	t.Parallel()
	r := rig.Run(t, "dev", "--mqtt-listen", "127.0.0.1:0", "--exec", `echo "$TAKT_REDIS $TAKT_MQTT $TAKT_TOPIC_PREFIX"; exit 7`)
	if r.Code != 7 || !strings.Contains(r.Stdout, " mqtt://127.0.0.1:") || !strings.HasSuffix(strings.TrimSpace(r.Stdout), " takt") || !strings.Contains(r.Stderr, "exit status 7") {
		t.Errorf("exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// Names that cannot stand in files, topics or keys are refused, and nothing is written. A takt that is no release says what the project lacks.
func TestInitRefuses(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`--module is "a b"`:               {"press", "--module", "a b"},
		`--scope: Scope "a/b" must not`:   {"press", "--scope", "a/b"},
		`--action "1st"`:                  {"press", "--action", "1st,second"},
		`--action "load"`:                 {"press", "--action", "load,load"},
		`--action names 1`:                {"press", "--action", "load"},
		`--action "loadA"`:                {"press", "--action", "load_a,loadA"},
		`no package of Go's own`:          {"fmt"},
		`--module is "a/../b"`:            {"press", "--module", "a/../b"},
		`--type-prefix is "a b"`:          {"press", "--type-prefix", "a b"},
		`the folder is called "my press"`: {"my press"},
		`--replace is /`:                  {"press", "--replace", "/"},
	} {
		dir := t.TempDir()
		args[0] = filepath.Join(dir, args[0])
		if r := rig.Run(t, append([]string{"init"}, args...)...); r.Code != usage || !strings.Contains(r.Stderr, want) {
			t.Errorf("%q: exit status %d, %s, want %s", args, r.Code, r.Stderr, want)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%q left %v, %v", args, entries, err)
		}
	}
	r := rig.Run(t, "init", filepath.Join(t.TempDir(), "press"))
	if r.Code != ok || !strings.Contains(r.Stdout, "go mod edit -replace github.com/taktworks/takt=FOLDER") {
		t.Errorf("exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}
