package embedded

import (
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// find looks for the programs on PATH and where Debian keeps servers, in the order given.
func find(programs ...string) (path, name string, ok bool) {
	if runtime.GOOS == "windows" {
		return "", "", false // no signals, no locks that a child inherits: store and broker run inside the process
	}
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path, name, true
		}
		for _, dir := range []string{"/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/sbin", "/opt/homebrew/bin"} {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path, name, true
			}
		}
	}
	return "", "", false
}

// HasRedis reports whether StartRedis would find a server, and which.
func HasRedis() (kind string, ok bool) {
	_, kind, ok = find("redis-server", "valkey-server")
	return kind, ok
}

// HasMosquitto reports whether StartMosquitto would find one.
func HasMosquitto() bool {
	_, _, ok := find("mosquitto")
	return ok
}

func inUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || strings.Contains(strings.ToLower(err.Error()), "in use")
}
