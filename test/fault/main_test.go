package fault_test

import (
	"os"
	"testing"

	"github.com/taktworks/takt/test/rig"
)

func TestMain(m *testing.M) {
	if os.Getenv(mesRole) != "" { // a process that a test started to kill it
		os.Exit(runMES())
	}
	rig.Main(m)
}
