package zones

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

func TestFind(t *testing.T) {
	place := func(files map[string]string) string {
		dir := t.TempDir()
		for name, text := range files {
			path := filepath.Join(dir, name)
			testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			testenv.Must(t, os.WriteFile(path, []byte(text), 0o644))
		}
		return dir
	}
	debian := place(map[string]string{"Europe/Berlin": "TZif", "tzdata.zi": "# version 2025b\n# This zic input file"})
	mac := place(map[string]string{"Etc/UTC": "TZif", "+VERSION": "2026a\n"})
	bare := place(map[string]string{"Asia/Tokyo": "TZif", "tzdata.zi": "# redo\n"})
	empty := place(map[string]string{"tzdata.zi": "# version 2030a\n"})
	archive := filepath.Join(place(map[string]string{"zoneinfo.zip": "PK"}), "zoneinfo.zip")
	for _, c := range []struct {
		places []string
		want   Source
		older  bool
	}{
		{nil, Source{Release: Embedded}, false},
		{[]string{filepath.Join(empty, "none"), empty}, Source{Release: Embedded}, false},
		{[]string{empty, debian, mac}, Source{debian, "2025b"}, true},
		{[]string{mac, debian}, Source{mac, "2026a"}, false},
		{[]string{bare, mac}, Source{bare, ""}, false},
		{[]string{archive, mac}, Source{archive, ""}, false},
	} {
		if got := find(c.places); got != c.want || got.Older() != c.older {
			t.Errorf("%v: %+v, older %v; want %+v, %v", c.places, got, got.Older(), c.want, c.older)
		}
	}
}

// The release is that of the toolchain, which the next one may have changed.
func TestEmbeddedIsThatOfTheToolchain(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	testenv.Must(t, err)
	script, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "update.bash"))
	if err != nil || runtime.Version() != "go1.26.8" {
		t.Logf("%s is not the toolchain that Embedded is of, or does not name its release: %v", runtime.Version(), err)
		return
	}
	if !strings.Contains(string(script), "\nCODE="+Embedded+"\n") {
		t.Errorf("Embedded is %s, update.bash of the toolchain names another release", Embedded)
	}
}

// Every program of packages that load zones by name has the files of the time zone database in it.
func TestZonesAreInThePrograms(t *testing.T) {
	for _, path := range []string{"schedule", "internal/msgpack/oslo", "cmd/takt"} {
		out, err := exec.Command("go", "list", "-deps", "github.com/taktworks/takt/"+path).Output()
		testenv.Must(t, err)
		if !slices.Contains(strings.Fields(string(out)), "time/tzdata") {
			t.Errorf("%s does without time/tzdata", path)
		}
	}
}

func TestLoad(t *testing.T) {
	for name, good := range map[string]bool{"Europe/Berlin": true, "UTC": true, "": false, "Local": false, "Mars/Olympus": false, "../etc/passwd": false} {
		if loc, err := Load(name); (err == nil) != good || good && loc.String() != name {
			t.Errorf("%q: %v %v", name, loc, err)
		}
	}
}
