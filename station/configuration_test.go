package station_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv/golden"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/station"
)

const goodRecipe = `{
  "Steps": [{"Name": "Press", "Initial": true}],
  "Transitions": [],
  "Actions": [{"Name": "press", "Step": "Press", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.acme.press.v1", "TimeoutSeconds": 5}]
}`

// TestConfigurationEvents: the configuration events of the format's own example.
func TestConfigurationEvents(t *testing.T) {
	files := fstest.MapFS{"recipe.json": {Data: []byte(goodRecipe)}}
	c, err := station.ParseConfiguration("station.yaml", []byte(station.ConfigurationFormat), files, recipe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := c.Events("urn:takt:cli", time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	ids := map[string]bool{}
	for _, e := range events {
		lines = append(lines, strings.Join([]string{e.Method, e.Subject, e.Source, e.Type, e.DataSchema, string(e.Data)}, " "))
		ids[e.ID] = true
		if err := e.Check(); err != nil {
			t.Error(err)
		}
	}
	if len(ids) != len(events) {
		t.Error("ids repeat")
	}
	golden.Check(t, "testdata/configuration.golden", strings.Join(lines, "\n")+"\n")
}

// TestConfigurationScopes: every scope gets all of it.
func TestConfigurationScopes(t *testing.T) {
	c, err := station.ParseConfiguration("station.yaml", []byte("scopes: [a, b]\nequipment: [press]\nmax_job_orders: 0"), fstest.MapFS{}, recipe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := c.Events("urn:x", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		kind, _ := isa95.ConfigByTypeID(e.Type)
		got = append(got, e.Subject+" "+string(kind))
	}
	if diff := cmp.Diff([]string{"a jobacceptance", "a equipment", "b jobacceptance", "b equipment"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestConfigurationFaults(t *testing.T) {
	files := fstest.MapFS{
		"good.json":    {Data: []byte(goodRecipe)},
		"utf16.json":   {Data: []byte("{\x00}\x00")},
		"broken.json":  {Data: []byte("{\n\"Steps\": [")},
		"unknown.json": {Data: []byte(strings.Replace(goodRecipe, `"Step": "Press"`, `"Step": "Push"`, 1))},
	}
	for name, row := range map[string]struct {
		text string
		want []string // beginnings of the lines
	}{
		"empty":      {"", []string{"s.yaml:1: must not be empty"}},
		"UTF-16":     {"\xff\xfes\x00", []string{"s.yaml:1: must be YAML: the text is UTF-16"}},
		"recipe 16":  {"scope: a\nwork_masters:\n  - {id: x, recipe: utf16.json}", []string{`s.yaml:3: work_masters[0].recipe "utf16.json" must be the file of a recipe: the text is UTF-16`}},
		"unknown":    {"scope: a\nequipmnt: []", []string{"s.yaml:2: equipmnt is not known here; known are scope"}},
		"limit":      {"scope: a\nmax_job_orders: -1", []string{`s.yaml:2: max_job_orders "-1" must be a whole number from 0`}},
		"twice":      {"scope: a\nequipment:\n  - press\n  - {id: press}", []string{`s.yaml:4: equipment[1].id "press" must not stand here twice`}},
		"no id":      {"scope: a\npersonnel: [{description: x}, '']", []string{`s.yaml:2: personnel[0].id is missing`, `s.yaml:2: personnel[1] must not be empty`}},
		"long":       {"scope: a\nphysical_assets: [" + strings.Repeat("x", 129) + "]", []string{`s.yaml:2: physical_assets[0] "xxx`}},
		"no list":    {"scope: a\nmaterial_classes: bearing", []string{`s.yaml:2: material_classes "bearing" must be a list`}},
		"wm id":      {"scope: a\nwork_masters: [{id: list:x}]", []string{`s.yaml:2: work_masters[0].id "list:x" must be a work master id: must not begin with list:`}},
		"wm twice":   {"scope: a\nwork_masters: [{id: x}, {id: x}]", []string{`s.yaml:2: work_masters[1].id "x" must not stand here twice`}},
		"parameters": {"scope: a\nwork_masters: [{id: x, parameters: [1]}]", []string{`s.yaml:2: work_masters[0].parameters must be a mapping of names and values`}},
		"no recipe":  {"scope: a\nwork_masters:\n  - {id: x, recipe: none.json}", []string{`s.yaml:3: work_masters[0].recipe "none.json" must be the file of a recipe: file does not exist`}},
		"outside":    {"scope: a\nwork_masters:\n  - {id: x, recipe: ../none.json}", []string{`s.yaml:3: work_masters[0].recipe "../none.json" must be the file of a recipe in the folder of this one, or below it`}},
		"broken":     {"scope: a\nwork_masters:\n  - {id: x, recipe: broken.json}", []string{`broken.json:2: `}},
		"recipe":     {"scope: a\nseed: 1\nwork_masters:\n  - {id: x, recipe: unknown.json}", []string{"s.yaml:2: seed is not known", "unknown.json:4: /Actions/0/Step R010 error: "}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := station.ParseConfiguration("s.yaml", []byte(row.text), files, recipe.Options{})
			var invalid *station.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatal(err)
			}
			lines := strings.Split(err.Error(), "\n")
			for i, want := range row.want {
				if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
					t.Errorf("line %d of %q, want %q", i, lines, want)
				}
			}
		})
	}
	if _, err := station.LoadConfiguration("none.yaml", recipe.Options{}); err == nil {
		t.Error("no file")
	}
}

// The recipe in an event has no byte order mark, for the event is JSON.
func TestConfigurationWithByteOrderMarks(t *testing.T) {
	const mark = "\xef\xbb\xbf"
	files := fstest.MapFS{"recipe.json": {Data: []byte(mark + goodRecipe)}}
	c, err := station.ParseConfiguration("station.yaml", []byte(mark+"scope: a\nwork_masters: [{id: x, recipe: recipe.json}]"), files, recipe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(c.WorkMasters[0].Data) {
		t.Errorf("%q", c.WorkMasters[0].Data)
	}
}

func TestConfigurationParameters(t *testing.T) {
	c, err := station.ParseConfiguration("s.yaml", []byte("scope: a\nwork_masters: [{id: x, parameters: {speed: 10.50, rate: 1e3, serial: 89490200001234567890, hex: 0x1f, yes: True, list: [a, {b: ~}]}}]"), fstest.MapFS{}, recipe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []isa95.WorkMaster{{ID: "x", Parameters: []isa95.Parameter{{ID: "speed", Value: []byte("10.50")}, {ID: "rate", Value: []byte("1e3")}, {ID: "serial", Value: []byte("89490200001234567890")}, {ID: "hex", Value: []byte(`"0x1f"`)}, {ID: "yes", Value: []byte(`"True"`)}, {ID: "list", Value: []byte(`["a",{"b":null}]`)}}}}
	if diff := cmp.Diff(want, c.WorkMasters); diff != "" {
		t.Error(diff)
	}
	if c.WorkMasters[0].DataSchema == recipe.SchemaURI {
		t.Error("a recipe without a file")
	}
}

// FuzzParseConfiguration: no text makes it panic; what is taken makes events.
func FuzzParseConfiguration(f *testing.F) {
	files := fstest.MapFS{"recipe.json": {Data: []byte(goodRecipe)}}
	f.Add([]byte(station.ConfigurationFormat))
	f.Add([]byte("scopes: [a, b]\nwork_masters: [{id: x, parameters: {a: [1, {b: ~}]}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := station.ParseConfiguration("s.yaml", data, files, recipe.Options{})
		checkFaults(t, err)
		if err == nil {
			if _, err := c.Events("urn:x", time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
