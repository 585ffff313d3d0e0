package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taktworks/takt/test/rig"
)

// takt dev simulates a station and sends no orders, so its folder needs none; takt demo says which file is missing.
func TestStationNeedsNoOrders(t *testing.T) {
	t.Parallel()
	dir := rig.Cell(t, 1, "5ms")
	if err := os.Remove(filepath.Join(dir, ordersFile)); err != nil {
		t.Fatal(err)
	}
	e, err := loadStation(dir)
	if err != nil || e.equipment == nil || len(e.configuration.WorkMasters) != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := loadExample(dir); err == nil || !strings.Contains(err.Error(), "an example needs "+filepath.Join(dir, ordersFile)) {
		t.Errorf("without orders: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, equipmentFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := loadStation(dir); err == nil || !strings.Contains(err.Error(), equipmentFile) {
		t.Errorf("without equipment: %v", err)
	}
}
