//go:build interop

package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

func createNode(t *testing.T, c *zk.Conn, path, data string, flags int32) {
	t.Helper()
	if _, err := c.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func TestZooKeeperKeepsNodesAndSessions(t *testing.T) {
	z := ZooKeeper(t)
	path := z.Path(t)
	other := z.Connect(t, longSession)
	id := other.SessionID()
	createNode(t, other, path+"/stays", "v", 0)
	createNode(t, other, path+"/owned", "", zk.FlagEphemeral)
	z.Kill(t)
	z.Restart(t)
	Eventually(t, "the client is connected again", func() bool { return other.State() == zk.StateHasSession })
	if other.SessionID() != id {
		t.Errorf("session %#x became %#x", id, other.SessionID())
	}
	if data, _, err := other.Get(path + "/stays"); err != nil || string(data) != "v" {
		t.Errorf("after kill and restart: %q, %v", data, err)
	}
	if _, stat, err := other.Get(path + "/owned"); err != nil || stat.EphemeralOwner != id {
		t.Errorf("the ephemeral node after kill and restart: %+v, %v", stat, err)
	}
}

// A client that is gone loses its session, and its ephemeral nodes, after 0.4 s.
func TestZooKeeperEndsShortSessions(t *testing.T) {
	z := SharedZooKeeper(t)
	path := z.Path(t)
	network := CountingProxy(t, z.Addr)
	var gone <-chan zk.Event
	Eventually(t, "a session of 0.4 s lasts until its node is seen", func() bool { // a busy machine may lose it before
		short, err := dialZooKeeper(t.Context(), network.Addr, 400*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(short.Close)
		if _, err := short.Create(path+"/owned", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			return false
		}
		there, stat, watch, err := z.Client.ExistsW(path + "/owned")
		if err != nil {
			t.Fatal(err)
		}
		gone = watch
		return there && stat.EphemeralOwner == short.SessionID()
	})
	begun := time.Now()
	network.Refuse(true)
	network.Cut()
	if e := <-gone; e.Type != zk.EventNodeDeleted || time.Since(begun) > longSession/2 {
		t.Errorf("%v after %v", e, time.Since(begun))
	}
}

func TestZooKeeperPauses(t *testing.T) {
	z := ZooKeeper(t)
	c := z.Dial(t)
	z.Pause(t)
	if _, err := io.WriteString(c, "ruok"); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 4)); !isTimeout(err) {
		t.Errorf("%d bytes of a paused server, %v", n, err)
	}
	z.Continue(t)
	if err := c.SetDeadline(time.Now().Add(Patience)); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); err != nil || string(text) != "imok" {
		t.Errorf("afterwards: %q, %v", text, err)
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

func TestSessionPassword(t *testing.T) {
	z := SharedZooKeeper(t)
	none := make([]byte, 16)
	id, password, err := openSession(z.Dial(t), 0, none)
	if err != nil || id == 0 || !bytes.Equal(password, sessionPassword(id)) {
		t.Errorf("session %#x with password %x, foreseen %x, %v", id, password, sessionPassword(id), err)
	}
	if got, _, err := openSession(z.Dial(t), id, none); err != nil || got != 0 {
		t.Errorf("with another password: session %#x, %v", got, err)
	}
	if got, _, err := openSession(z.Dial(t), id+1, sessionPassword(id+1)); err != nil || got != 0 {
		t.Errorf("a session that is not: %#x, %v", got, err)
	}
}

func TestSharedServerEndsWithItsLastUser(t *testing.T) {
	var s shared
	first, second := &recorder{TB: t}, &recorder{TB: t}
	z := s.use(first)
	if other := s.use(second); other != z {
		t.Error("two users, two servers")
	}
	if a, b := z.Path(t), z.Path(t); a == b {
		t.Errorf("the same path twice: %s", a)
	}
	first.end()
	select {
	case <-z.Server.Done():
		t.Error("ended with its first user")
	default:
	}
	createNode(t, z.Client, "/stray", "", 0)
	second.end()
	<-z.Server.Done()
	if len(first.errors) != 0 || len(second.errors) != 1 || !strings.Contains(second.errors[0], "/stray") {
		t.Errorf("errors %q and %q, want one about the stray node", first.errors, second.errors)
	}
}

type mainFunc func() int

func (f mainFunc) Run() int { return f() }

func TestWithSharedKeepsTheServer(t *testing.T) {
	var one, two *ZooKeeperServer
	use := func() *ZooKeeperServer {
		r := &recorder{TB: t}
		z := SharedZooKeeper(r)
		r.end()
		return z
	}
	if code := WithShared(mainFunc(func() int {
		one, two = use(), use()
		return 3
	})).Run(); code != 3 {
		t.Errorf("code %d", code)
	}
	if one != two {
		t.Error("a server for each test")
	}
	<-one.Server.Done()
	if _, _, err := one.Client.Get("/"); !errors.Is(err, zk.ErrClosing) && !errors.Is(err, zk.ErrConnectionClosed) {
		t.Errorf("its client is still open: %v", err)
	}
}
