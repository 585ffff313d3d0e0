package embedded

import (
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Find looks for the programs on PATH and where servers are kept, in the order given. If there is none, the error is a *NotFoundError that names
// the Debian packages to install.
func Find(packages string, programs ...string) (path, name string, err error) {
	missing := &NotFoundError{Programs: strings.Join(programs, " or "), Package: packages}
	if runtime.GOOS == "windows" {
		return "", "", missing // no signals, no locks that a child inherits: store and broker run inside the process
	}
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path, name, nil
		}
		for _, dir := range []string{"/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/sbin", "/opt/homebrew/bin"} {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path, name, nil
			}
		}
	}
	return "", "", missing
}

func inUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || strings.Contains(strings.ToLower(err.Error()), "in use")
}
