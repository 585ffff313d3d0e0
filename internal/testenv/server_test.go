package testenv_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

// ServerVariable is the server of every test, single, in a cluster or under sentinels; what is no server is refused with the rule.
func TestServerVariable(t *testing.T) {
	if os.Getenv("TAKT_TEST_CHOICE") != "" { // in the process below
		srv := testenv.Redis(t)
		if info, err := srv.Client.Do(t.Context(), srv.Client.B().Info().Section("server").Build()).ToString(); err != nil || !strings.Contains(info, "executable:"+os.Getenv("TAKT_TEST_CHOICE")) {
			t.Errorf("%v, %s", err, info)
		}
		return
	}
	server, err := exec.LookPath("redis-server")
	testenv.Must(t, err)
	dir := t.TempDir()
	link, other, plain := filepath.Join(dir, "redis-server"), filepath.Join(dir, "server"), filepath.Join(dir, "x", "redis-server")
	for _, l := range []string{link, other} {
		testenv.Must(t, os.Symlink(server, l))
	}
	testenv.Must(t, os.Mkdir(filepath.Dir(plain), 0o700))
	testenv.Must(t, os.WriteFile(plain, nil, 0o600))
	for path, want := range map[string]string{
		link: "", other: "give the absolute path of a file called redis-server", "redis-server": "no program", filepath.Join(dir, "none"): "no program", plain: "no program",
	} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestServerVariable$")
		cmd.Env = append(os.Environ(), testenv.ServerVariable+"="+path, "TAKT_TEST_CHOICE="+link)
		out, err := cmd.CombinedOutput()
		if (err == nil) != (want == "") || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, want %q\n%s", path, err, want, out)
		}
	}
}
