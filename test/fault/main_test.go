package fault_test

import (
	"flag"
	"os"
	"testing"

	"github.com/taktworks/takt/test/rig"
)

// kills are the tests of the gate, one kill of each part; the rest is for `make test-faults`.
const kills = "^(TestFault1ServeKilled|TestTaskFault1WorkersKilled|TestWorkflowFault1WorkersKilled|TestBoardFault1OwnerKilled)$"

func TestMain(m *testing.M) {
	switch { // a process that a test started to kill it
	case os.Getenv(taskRole) != "":
		os.Exit(runRole(taskRole, runTask))
	case os.Getenv(flowRole) != "":
		os.Exit(runRole(flowRole, runFlow))
	}
	flag.Parse()
	if run := flag.Lookup("test.run"); testing.Short() && run.Value.String() == "" {
		if err := run.Value.Set(kills); err != nil {
			panic(err)
		}
	}
	rig.Main(m)
}
