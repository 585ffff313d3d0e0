package isa95

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// FuzzUnmarshal: reading a body never panics; what is refused says why; what is accepted is JSON, and is written as
// something that reads and writes as the same again.
func FuzzUnmarshal(f *testing.F) {
	files, _ := filepath.Glob("testdata/G*.json")
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	for _, body := range []string{
		``, `[]`, `null`, `{"job_order":{"job_order_id":12,"priority":"7"}}`, `{"JobOrder":{"Priority":1e2,"x":[[[]]]}}`,
		`{"JobOrder":{"JobOrderParameters":[{"Value":{"a":[null, 1.50 ,"\ud83d\ude80"]},"Subparameters":[{}]}]}}`,
		`{"Comment":[null,{"Text":true}],"_x":{}}`, `{"JobOrder":{"JobOrderID":"\ud800"}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var call JobOrderCall
		err := Unmarshal(body, &call)
		if err != nil {
			var decodeErr *DecodeError
			if !errors.As(err, &decodeErr) || decodeErr.Rule == "" || decodeErr.Err == nil || !utf8.ValidString(err.Error()) {
				t.Fatalf("%#v", err)
			}
			return
		}
		if len(body) > 0 && !json.Valid(body) {
			t.Fatal("accepted, but not JSON")
		}
		text, err := Marshal(call)
		if err != nil {
			t.Fatal(err)
		}
		var again JobOrderCall
		if err := Unmarshal(text, &again); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		second, err := Marshal(again)
		if err != nil || string(second) != string(text) {
			t.Fatalf("%s\n%s\n%v", text, second, err)
		}
	})
}

// FuzzNames: a name that passes stands in a topic level and in a key, and no other name is made from it.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"JO-7", "list:x", "a/b", "\x00", "ä", "\uFFFF"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		id, err := ParseJobOrderID(name)
		if err != nil {
			if id != "" || !utf8.ValidString(err.Error()) {
				t.Fatalf("%q, %v", id, err)
			}
			return
		}
		if string(id) != name || !utf8.ValidString(name) || name == "" || len(name) > MaxName {
			t.Fatalf("%q", name)
		}
	})
}

// generators of random bodies

func texts() *rapid.Generator[string] { return rapid.StringN(0, 8, 40) }

func numbers() *rapid.Generator[*int] { return rapid.Ptr(rapid.Int(), true) }

func slicesOf[T any](elements *rapid.Generator[T]) *rapid.Generator[[]T] {
	return rapid.Custom(func(t *rapid.T) []T {
		if rapid.Bool().Draw(t, "nil") {
			return nil
		}
		return rapid.SliceOfN(elements, 0, 3).Draw(t, "slice")
	})
}

func localizedTexts() *rapid.Generator[LocalizedText] {
	return rapid.Custom(func(t *rapid.T) LocalizedText {
		return LocalizedText{texts().Draw(t, "locale"), texts().Draw(t, "text")}
	})
}

func values() *rapid.Generator[json.RawMessage] {
	return rapid.Custom(func(t *rapid.T) json.RawMessage {
		raw := rapid.SampledFrom([]string{
			"", "1.0", "9007199254740993", `"a\u00e4"`, `[]`, `{}`, `{"b":[null],"a":1e400}`, `true`,
		}).Draw(t, "raw")
		if raw == "" {
			return nil
		}
		return json.RawMessage(raw)
	})
}

func parameters(depth int) *rapid.Generator[Parameter] {
	return rapid.Custom(func(t *rapid.T) Parameter {
		p := Parameter{ID: texts().Draw(t, "id"), Value: values().Draw(t, "value"), Description: slicesOf(localizedTexts()).Draw(t, "description")}
		if rapid.Bool().Draw(t, "units") {
			p.EngineeringUnits = &EUInformation{UnitId: numbers().Draw(t, "unit"), DisplayName: localizedTexts().Draw(t, "name")}
		}
		if depth > 0 {
			p.Subparameters = slicesOf(parameters(depth-1)).Draw(t, "sub")
		}
		return p
	})
}

func jobOrders() *rapid.Generator[JobOrder] {
	return rapid.Custom(func(t *rapid.T) JobOrder {
		o := JobOrder{
			JobOrderID: texts().Draw(t, "id"), Description: slicesOf(localizedTexts()).Draw(t, "description"),
			StartTime: texts().Draw(t, "start"), Priority: numbers().Draw(t, "priority"),
			JobOrderParameters: slicesOf(parameters(2)).Draw(t, "parameters"),
			EquipmentRequirements: slicesOf(rapid.Custom(func(t *rapid.T) Equipment {
				return Equipment{ID: texts().Draw(t, "equipment"), Quantity: texts().Draw(t, "quantity")}
			})).Draw(t, "equipment"),
			MaterialRequirements: slicesOf(rapid.Custom(func(t *rapid.T) Material {
				return Material{MaterialClassID: texts().Draw(t, "class"), MaterialLotID: texts().Draw(t, "lot")}
			})).Draw(t, "material"),
		}
		o.WorkMasterID = slicesOf(rapid.Custom(func(t *rapid.T) WorkMasterRef {
			return WorkMasterRef{ID: texts().Draw(t, "id"), Parameters: slicesOf(parameters(0)).Draw(t, "parameters")}
		})).Draw(t, "work masters")
		return o
	})
}

// What Marshal writes is valid JSON, and Unmarshal reads it as it was: nil and empty, absent and zero kept apart.
func TestRoundTripOfRandomJobOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := rapid.SampledFrom(States()).Draw(t, "state")
		order := jobOrders().Draw(t, "order")
		in := JobOrderAndState{JobOrder: &order, State: state.Elements()}
		text, err := Marshal(in)
		if err != nil || !json.Valid(text) {
			t.Fatalf("%s, %v", text, err)
		}
		var back JobOrderAndState
		if err := Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(in, back); diff != "" {
			t.Fatal(diff)
		}
		// The standard decoder reads the same.
		var standard JobOrderAndState
		if err := json.Unmarshal(text, &standard); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(in, standard); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Snake case and aliases read as the same, whatever the order of the members.
func TestSnakeCaseReadsAsAliases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := jobOrders().Draw(t, "order")
		text, err := Marshal(order)
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil {
			t.Fatal(err)
		}
		snake := make(map[string]json.RawMessage)
		for name, value := range members {
			snake[snakeCase(name)] = value
		}
		other, err := json.Marshal(snake)
		if err != nil {
			t.Fatal(err)
		}
		var back JobOrder
		if err := Unmarshal(other, &back); err != nil {
			t.Fatal(err)
		}
		same := cmpopts.AcyclicTransformer("raw", func(m json.RawMessage) any {
			var v any
			if len(m) > 0 {
				_ = json.Unmarshal(m, &v)
			}
			return v
		})
		if diff := cmp.Diff(order, back, same); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestSnakeCase(t *testing.T) {
	for name, want := range map[string]string{
		"JobOrderID": "job_order_id", "WorkMasterID": "work_master_id", "ID": "id", "NamespaceUri": "namespace_uri",
		"EngineeringUnits": "engineering_units", "modelUri": "model_uri", "data": "data", "_dataschema": "_dataschema",
		"MaxDownloadableJobOrders": "max_downloadable_job_orders", "job_order_id": "job_order_id", "BOMComponent": "bom_component",
	} {
		if got := snakeCase(name); got != want {
			t.Errorf("snakeCase(%s) = %s, want %s", name, got, want)
		}
	}
}
