//go:build interop

package testenv

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/internal/embedded"
)

func TestMain(m *testing.M) { os.Exit(WithShared(m).Run()) }

// A node beside the paths of the tests of a shared server fails the test that ends next.
func TestForeignNodeFailsTheTest(t *testing.T) {
	r := &recorder{TB: t}
	z := SharedZooKeeper(r)
	if a, b := z.Path(t), z.Path(t); a == b {
		t.Errorf("the same path twice: %s", a)
	}
	if _, err := z.Client.Create("/stray", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	r.end()
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "/stray") {
		t.Errorf("errors %q, want one about the stray node", r.errors)
	}
	if err := z.Client.Delete("/stray", -1); err != nil {
		t.Error(err)
	}
}

func TestZooKeeperIsMissing(t *testing.T) {
	empty := t.TempDir()
	for _, missing := range []struct{ java, jars, want string }{
		{"no-such-java", debianJars, "no no-such-java found on PATH or in /usr/sbin"},
		{"java", empty, "no zookeeper.jar found in " + empty},
	} {
		_, _, err := findZooKeeper(missing.java, missing.jars)
		var e *embedded.NotFoundError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), missing.want) || !strings.HasSuffix(err.Error(), "apt-get install default-jre-headless libzookeeper-java") {
			t.Errorf("%s and %s: %v", missing.java, missing.jars, err)
		}
	}
}
