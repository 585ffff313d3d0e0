package e2e_test

import (
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
)

// Commands that only look run for a user that may only read, and while Redis takes no writes.
func TestLooking(t *testing.T) {
	t.Parallel()
	srv := testenv.StartRedis(t, embedded.RedisOptions{})
	s := newTaskShellOn(t, srv)
	id := s.run(ok, "task", "submit", "test:Echo", "[1]", "--id", "order/17")
	do := func(command string) {
		t.Helper()
		if err := srv.Client.Do(t.Context(), srv.Client.B().Arbitrary(strings.Fields(command)...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	do("ACL SETUSER viewer on >secret ~* &* +@all -@write")
	look := func(flags ...string) {
		t.Helper()
		for _, command := range []string{
			"task list", "task stats", "task show " + id, "task show order/17", "task dead list", "job list", "schedule list", "lock list", "workflow list", "board list",
		} {
			s.run(ok, append(strings.Fields(command), flags...)...)
		}
	}
	look("--redis-username", "viewer", "--redis-password", "secret")
	do("CONFIG SET min-replicas-to-write 1")
	look()
	do("CONFIG SET min-replicas-to-write 0")
}
