package e2e_test

import (
	"testing"

	"github.com/taktworks/takt/test/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
