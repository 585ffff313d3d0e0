package fault_test

import (
	"os"
	"testing"

	"github.com/taktworks/takt/test/rig"
)

func TestMain(m *testing.M) {
	switch { // a process that a test started to kill it
	case os.Getenv(mesRole) != "":
		os.Exit(runMES())
	case os.Getenv(taskRole) != "":
		os.Exit(runTaskRole())
	case os.Getenv(flowRole) != "":
		os.Exit(runFlowRole())
	}
	rig.Main(m)
}
