//go:build interop

package e2e_test

import (
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

// As TestBoardCommands, on ZooKeeper: a claim ends with its session, not by its time.
func TestBoardCommandsOnZooKeeper(t *testing.T) {
	t.Parallel()
	srv := testenv.ZooKeeper(t)
	testBoardCommands(t, &boardShell{t: t, board: "zookeeper://" + srv.Addr + srv.Path(t) + "/jobs", dir: t.TempDir()}, false)
}
