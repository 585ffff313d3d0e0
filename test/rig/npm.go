package rig

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

// NPM is a folder with the packages of a package.json and its lock file, which are in a folder of the repository. It is made once for each lock file, in bin.
func NPM(t testing.TB, root, folder string) string {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join(root, folder, "package-lock.json"))
	testenv.Must(t, err)
	list, err := os.ReadFile(filepath.Join(root, folder, "package.json"))
	testenv.Must(t, err)
	dir := filepath.Join(root, "bin", fmt.Sprintf("npm-%x", sha256.Sum256(lock))[:16])
	if _, err := os.Stat(filepath.Join(dir, "node_modules/.package-lock.json")); err != nil { // npm writes it last
		testenv.Must(t, os.MkdirAll(dir, 0o755))
		testenv.Must(t, os.WriteFile(filepath.Join(dir, "package.json"), list, 0o644))
		testenv.Must(t, os.WriteFile(filepath.Join(dir, "package-lock.json"), lock, 0o644))
		cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("npm ci: %v\n%s", err, out)
		}
	}
	return dir
}
