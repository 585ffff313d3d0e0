package gearboxcover_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/station"
)

// TestExample: the four files are right, and fit each other.
func TestExample(t *testing.T) {
	lists, err := mes.LoadOrders("orders.json")
	if err != nil {
		t.Fatal(err)
	}
	conf, err := station.LoadConfiguration("station.yaml", recipe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	equipment, err := station.LoadEquipment("equipment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("recipe.json")
	if err != nil {
		t.Fatal(err)
	}
	program, err := recipe.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(lists) != 1 || len(lists[0].JobOrders) != 40 {
		t.Fatalf("%d lists", len(lists))
	}
	for _, scopes := range [][]isa95.Scope{conf.Scopes, equipment.Scopes} {
		if !slices.Equal(scopes, []isa95.Scope{lists[0].Scope}) {
			t.Errorf("scopes %v, orders for %s", scopes, lists[0].Scope)
		}
	}

	has := map[string]bool{}
	for _, e := range conf.Equipment {
		has["equipment "+e.ID] = true
	}
	for _, m := range conf.MaterialClasses {
		has["class "+m.MaterialClassID] = true
	}
	for _, m := range conf.MaterialDefinitions {
		has["definition "+m.MaterialDefinitionID] = true
	}
	for _, p := range conf.Personnel {
		has["personnel "+p.ID] = true
	}
	for _, a := range conf.PhysicalAssets {
		has["asset "+a.ID] = true
	}
	for _, w := range conf.WorkMasters {
		has["work master "+w.ID] = true
	}
	marks := map[string]int{}
	for _, o := range lists[0].JobOrders {
		var needs []string
		for _, e := range o.EquipmentRequirements {
			needs = append(needs, "equipment "+e.ID)
		}
		for _, m := range o.MaterialRequirements {
			needs = append(needs, "class "+m.MaterialClassID, "definition "+m.MaterialDefinitionID)
		}
		for _, p := range o.PersonnelRequirements {
			needs = append(needs, "personnel "+p.ID)
		}
		for _, a := range o.PhysicalAssetRequirements {
			needs = append(needs, "asset "+a.ID)
		}
		for _, w := range o.WorkMasterID {
			needs = append(needs, "work master "+w.ID)
		}
		for _, need := range needs {
			if !has[need] {
				t.Errorf("%s needs %s, which station.yaml has not", o.JobOrderID, need)
			}
		}
		parameters := map[string]json.RawMessage{}
		for _, p := range o.JobOrderParameters {
			parameters[p.ID] = p.Value
		}
		marks[string(parameters["mark"])]++
		if parameters["torque_min_nm"] == nil || parameters["serial"] == nil {
			t.Errorf("%s has parameters %v", o.JobOrderID, parameters)
		}
	}
	if marks[`"laser"`]+marks[`"label"`] != 40 || marks[`"label"`] < 10 {
		t.Errorf("marks %v", marks)
	}

	behaviour, err := os.ReadFile("equipment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range program.Recipe().Actions {
		switch {
		case a.Interaction == recipe.InteractionPush && !slices.Contains(equipment.Types(), a.TypeID):
			t.Errorf("nobody answers %s", a.TypeID)
		case a.Interaction == recipe.InteractionPull && !strings.Contains(string(behaviour), "type: "+a.TypeID):
			t.Errorf("nobody sends %s", a.TypeID)
		}
	}
	orders, err := os.ReadFile("orders.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.FieldsFunc(string(behaviour), func(r rune) bool { return strings.ContainsRune(" ,[]\n", r) }) {
		if strings.HasPrefix(word, "JO-") && !strings.Contains(string(orders), `"`+word+`"`) {
			t.Errorf("equipment.yaml is about %s, which is not ordered", word)
		}
	}
	for _, w := range conf.Warnings {
		t.Error(w)
	}
}
