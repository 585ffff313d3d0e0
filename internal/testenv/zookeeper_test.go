//go:build interop

package testenv

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/internal/embedded"
)

func TestMain(m *testing.M) { os.Exit(WithShared(m).Run()) }

func createNode(t *testing.T, c *zk.Conn, path, data string, flags int32) {
	t.Helper()
	if _, err := c.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func TestExpireSession(t *testing.T) {
	z := SharedZooKeeper(t)
	path := z.Path(t)
	victim, bystander := z.Connect(t, longSession), z.Connect(t, longSession)
	id := victim.SessionID()
	createNode(t, victim, path+"/owned", "", zk.FlagEphemeral)
	createNode(t, bystander, path+"/other", "", zk.FlagEphemeral)
	name := fmt.Sprintf("%#x:", id)
	if text := z.Word(t, "dump"); !strings.Contains(text, name) {
		t.Errorf("no %s in %s", name, text)
	}
	z.ExpireSession(t, id)
	if text := z.Word(t, "dump"); strings.Contains(text, name) {
		t.Errorf("still %s in %s", name, text)
	}
	if names, _, err := z.Client.Children(path); err != nil || !slices.Equal(names, []string{"other"}) {
		t.Errorf("ephemeral nodes left: %q, %v", names, err)
	}
	if _, _, err := victim.Get(path); err == nil {
		t.Error("the ended session still reads")
	}
	Eventually(t, "the owner has a new session", func() bool {
		return victim.State() == zk.StateHasSession && victim.SessionID() != id
	})
	if bystander.State() != zk.StateHasSession {
		t.Errorf("another client is %v", bystander.State())
	}
}

// A node beside the paths of the tests of a shared server fails the test that ends next.
func TestForeignNodeFailsTheTest(t *testing.T) {
	r := &recorder{TB: t}
	z := SharedZooKeeper(r)
	if a, b := z.Path(t), z.Path(t); a == b {
		t.Errorf("the same path twice: %s", a)
	}
	createNode(t, z.Client, "/stray", "", 0)
	r.end()
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "/stray") {
		t.Errorf("errors %q, want one about the stray node", r.errors)
	}
	if err := z.Client.Delete("/stray", -1); err != nil {
		t.Error(err)
	}
}

func TestZooKeeperKeepsItsSessions(t *testing.T) {
	z := ZooKeeper(t)
	if text := z.Word(t, "conf"); !strings.Contains(text, "minSessionTimeout=400\nmaxSessionTimeout=60000\n") {
		t.Errorf("conf: %q", text)
	}
	id, password, err := openSession(z.Dial(t), 0, make([]byte, 16))
	if err != nil || id == 0 {
		t.Fatalf("session %#x: %v", id, err)
	}
	z.Kill(t)
	z.Restart(t)
	if again, _, err := openSession(z.Dial(t), id, password); err != nil || again != id {
		t.Errorf("session %#x after a kill and a restart, want %#x: %v", again, id, err)
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
