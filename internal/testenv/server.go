package testenv

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// ServerVariable names another server to run tests on: the path of a file called redis-server, which may be a link. It is started instead of the one on PATH, also by the programs that
// a test starts after its first server.
const ServerVariable = "TAKT_TEST_REDIS_SERVER"

// chosen puts the folder of the server that ServerVariable names first on PATH, once: everything that starts a server looks for redis-server there.
var chosen = sync.OnceValue(func() (problem string) {
	path := os.Getenv(ServerVariable)
	if path == "" {
		return ""
	}
	if info, err := os.Stat(path); err != nil || info.Mode()&0o111 == 0 {
		return ServerVariable + "=" + path + ": it is no program that can be started"
	}
	if filepath.Base(path) != "redis-server" || !filepath.IsAbs(path) {
		return ServerVariable + "=" + path + ": give the absolute path of a file called redis-server; a link will do"
	}
	if err := os.Setenv("PATH", filepath.Dir(path)+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
		return err.Error()
	}
	return ""
})

// choose fails the test if ServerVariable names no server.
func choose(t testing.TB) {
	t.Helper()
	if problem := chosen(); problem != "" {
		t.Fatal("testenv: " + problem)
	}
}
