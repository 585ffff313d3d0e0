package testenv

import (
	"slices"
	"testing"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv/long"
)

// A key is found wherever it is, after its slot has moved and after its master has died, too.
func TestCluster(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	t.Parallel()
	c := StartCluster(t)
	c.nodeTimeout(t, calmTimeout)
	prefix := c.Prefix(t)
	key := prefix + ":k"
	owner := c.Owner(t, key)
	if err := c.Client.Do(t.Context(), c.Client.B().Set().Key(key).Value("v").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Nodes[owner].Do(t, "DBSIZE").AsInt64(); err != nil || n != 1 {
		t.Fatalf("node %d has %d keys (%v): Owner is wrong", owner, n, err)
	}
	if keys, err := c.AllKeys(t.Context()); err != nil || !slices.Equal(keys, []string{key}) {
		t.Errorf("keys %q, %v", keys, err)
	}
	next := (owner + 1) % 3
	c.Move(t, c.Slot(t, key), c.Nodes[owner], c.Nodes[next])
	get := func() (string, error) {
		return c.Client.Do(t.Context(), c.Client.B().Get().Key(key).Build()).ToString()
	}
	if v, err := get(); err != nil || v != "v" {
		t.Errorf("after its slot has moved: %q, %v", v, err)
	}
	Eventually(t, "the replica has the key", func() bool {
		n, err := c.Nodes[next+3].Do(t, "DBSIZE").AsInt64()
		return err == nil && n == 1
	})
	c.nodeTimeout(t, NodeTimeout)
	c.Nodes[next].Kill(t)
	Eventually(t, "the replica takes over", func() bool { v, err := get(); return err == nil && v == "v" })
	c.Nodes[next+3].AwaitRole(t, "master")
}

// The client finds the replica when the master hangs.
func TestSentinels(t *testing.T) {
	long.Test(t, "waits for a lease, a delay or a broken link")
	t.Parallel()
	s := StartSentinels(t)
	key := s.Prefix(t) + ":k"
	set := func() error { return s.Client.Do(t.Context(), s.Client.B().Set().Key(key).Value("v").Build()).Error() }
	if err := set(); err != nil {
		t.Fatal(err)
	}
	s.Master.Pause(t)
	s.AwaitFailover(t)
	Eventually(t, "the client follows", func() bool {
		err := set()
		if err != nil && !redis.Away(err) {
			t.Errorf("%v is not Away", err)
		}
		return err == nil
	})
	s.Master.Continue(t)
	s.Master.AwaitRole(t, "slave")
}
