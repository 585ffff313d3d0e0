package e2e_test

import (
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
)

// Commands that only look run while Redis takes no writes.
func TestLooking(t *testing.T) {
	t.Parallel()
	srv := testenv.StartRedis(t, embedded.RedisOptions{})
	s := newTaskShellOn(t, srv)
	id := s.run(ok, "task", "submit", "test:Echo", "[1]", "--id", "order/17")
	refuse := func(writes string) {
		t.Helper()
		if err := srv.Client.Do(t.Context(), srv.Client.B().Arbitrary("CONFIG", "SET", "min-replicas-to-write", writes).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	refuse("1")
	for _, command := range []string{
		"task list", "task stats", "task workers", "task show " + id, "task show order/17", "task dead list", "job list", "schedule list", "lock list", "workflow list", "board list", "board entities",
	} {
		s.run(ok, strings.Fields(command)...)
	}
	refuse("0")
}
