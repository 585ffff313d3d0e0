package rig

import (
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
)

//go:embed cell commands
var cellFiles embed.FS

// Scope is the station of the tests, and WorkMaster what it makes: the recipe of the gearbox example with the times of a
// test. A quarter of the orders are tightened twice.
const (
	Scope      isa95.Scope        = "test-cell"
	WorkMaster isa95.WorkMasterID = "WM-TEST"
)

// Cell writes the example folder of the tests with n orders, whose commands take takes each ("20ms..80ms"), and returns it.
func Cell(t testing.TB, n int, takes string) string {
	t.Helper()
	return cellOf(t, "cell", n, takes)
}

// cellOf is Cell of the cell in that folder: "cell", or "commands", whose recipe has commands alone and waits for no events.
func cellOf(t testing.TB, folder string, n int, takes string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"recipe.json", "station.yaml", "equipment.yaml"} {
		text, err := cellFiles.ReadFile(folder + "/" + name)
		testenv.Must(t, err)
		Write(t, filepath.Join(dir, name), strings.ReplaceAll(string(text), "$TAKES", takes))
	}
	text, err := json.Marshal(map[string]any{"Scope": Scope, "JobOrders": Orders("JO", n)})
	testenv.Must(t, err)
	Write(t, filepath.Join(dir, "orders.json"), string(text))
	return dir
}

// makeBulky adds so many bytes to each answer of equipment.
func makeBulky(t testing.TB, file string, bytes int) {
	t.Helper()
	text, err := os.ReadFile(file)
	testenv.Must(t, err)
	Write(t, file, strings.ReplaceAll(string(text), "result: {", "result: {bulk: "+strings.Repeat("x", bytes)+", "))
}

// Orders makes n orders for the cell: {name}-001 and so on, of which every third is marked by laser.
func Orders(name string, n int) []*isa95.JobOrder {
	orders := make([]*isa95.JobOrder, n)
	for i := range orders {
		mark := `"label"`
		if i%3 == 0 {
			mark = `"laser"`
		}
		priority := i % 5
		orders[i] = &isa95.JobOrder{
			JobOrderID:            fmt.Sprintf("%s-%03d", name, i+1),
			Priority:              &priority,
			WorkMasterID:          []isa95.WorkMasterRef{{ID: string(WorkMaster)}},
			EquipmentRequirements: []isa95.Equipment{{ID: "press-1"}},
			JobOrderParameters:    []isa95.Parameter{{ID: "mark", Value: json.RawMessage(mark)}},
		}
	}
	return orders
}

// Write writes a file of a test.
func Write(t testing.TB, file, text string) {
	t.Helper()
	testenv.Must(t, os.WriteFile(file, []byte(text), 0o600))
}
