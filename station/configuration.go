package station

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/utf8text"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// Configuration is what stations have, so that they can judge job orders: a station.yaml. Events makes the configuration
// events of it.
type Configuration struct {
	Scopes []isa95.Scope // the stations it is for, at least one

	// MaxJobOrders is how many job orders a station takes before it refuses more; nil = the receiver's own limit.
	MaxJobOrders *int

	Equipment           []isa95.Equipment
	MaterialClasses     []isa95.Material // with MaterialClassID
	MaterialDefinitions []isa95.Material // with MaterialDefinitionID
	Personnel           []isa95.Personnel
	PhysicalAssets      []isa95.PhysicalAsset
	WorkMasters         []isa95.WorkMaster // with their recipes, which have no errors

	Warnings []string // findings in the recipes that are no errors: "recipe.json:12: W..."
}

// ConfigurationFormat is the format of a station.yaml, for people.
const ConfigurationFormat = `scope: cell-07            # or scopes: [cell-07, cell-08]
max_job_orders: 100       # default: no limit of this station's own
equipment: [press-1, {id: camera-2, description: Camera over the press}]
material_classes: [bearing]
material_definitions: [BRG-6205-2RS]
personnel: [operator]
physical_assets: [fixture-12]
work_masters:
  - id: WM-1
    description: Gearbox cover assembly
    recipe: recipe.json   # beside this file; checked
    parameters: {speed: 10}
`

// LoadConfiguration reads a station.yaml and the recipes it names. A file with faults is an *InvalidError with all of
// them, those of the recipes included; check says how recipes are judged, as by recipe.Check.
func LoadConfiguration(file string, check recipe.Options) (*Configuration, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("station: %w", err)
	}
	return ParseConfiguration(filepath.Base(file), data, os.DirFS(filepath.Dir(file)), check)
}

// ParseConfiguration is LoadConfiguration of a text with the recipes in a folder of files; file is for messages.
func ParseConfiguration(file string, data []byte, recipes fs.FS, check recipe.Options) (*Configuration, error) {
	root := parseYAML(file, data)
	if root.node == nil {
		return nil, root.d.err()
	}
	get := root.object("scope", "scopes", "max_job_orders", "equipment", "material_classes", "material_definitions",
		"personnel", "physical_assets", "work_masters")
	c := &Configuration{Scopes: root.scopes(get)}
	for _, scope := range c.Scopes {
		if err := isa95.CheckNewScope(scope); err != nil {
			root.fault("scope %q %s", scope, ruleOf(err))
		}
	}
	if limit := get("max_job_orders"); !limit.absent() {
		n := int(limit.integer(0, 0, 1<<31-1))
		c.MaxJobOrders = &n
	}
	for id, description := range get("equipment").resources {
		c.Equipment = append(c.Equipment, isa95.Equipment{ID: id, Description: description})
	}
	for id, description := range get("material_classes").resources {
		c.MaterialClasses = append(c.MaterialClasses, isa95.Material{MaterialClassID: id, Description: description})
	}
	for id, description := range get("material_definitions").resources {
		c.MaterialDefinitions = append(c.MaterialDefinitions, isa95.Material{MaterialDefinitionID: id, Description: description})
	}
	for id, description := range get("personnel").resources {
		c.Personnel = append(c.Personnel, isa95.Personnel{ID: id, Description: description})
	}
	for id, description := range get("physical_assets").resources {
		c.PhysicalAssets = append(c.PhysicalAssets, isa95.PhysicalAsset{ID: id, Description: description})
	}
	seen := map[string]bool{}
	for _, f := range get("work_masters").list() {
		get := f.object("id", "description", "recipe", "parameters")
		w := isa95.WorkMaster{ID: get("id").required(), Parameters: get("parameters").parameters()}
		if _, err := isa95.ParseWorkMasterID(w.ID); err != nil && w.ID != "" {
			get("id").fault("must be a work master id: %s", ruleOf(err))
		} else if err := isa95.CheckNewName("id", w.ID); err != nil {
			get("id").fault("%s", ruleOf(err))
		}
		if seen[w.ID] {
			get("id").fault("must not stand here twice")
		}
		seen[w.ID] = true
		w.Description.Text = get("description").text()
		if name := get("recipe"); !name.absent() {
			w.Data, w.DataSchema = c.recipe(name, recipes, check), recipe.SchemaURI
		}
		c.WorkMasters = append(c.WorkMasters, w)
	}
	if err := root.d.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// resources yields a list of ids, or of mappings with id and description.
func (f field) resources(yield func(id string, description []isa95.LocalizedText) bool) {
	seen := map[string]bool{}
	for _, e := range f.list() {
		where, description := e, ""
		if e.isMapping() {
			get := e.object("id", "description")
			where, description = get("id"), get("description").text()
		}
		id := where.required()
		switch {
		case len(id) > isa95.MaxName || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }):
			where.fault("must be at most %d bytes without control characters", isa95.MaxName)
		case isa95.CheckNewName("id", id) != nil:
			where.fault("%s", ruleOf(isa95.CheckNewName("id", id)))
		case seen[id]:
			where.fault("must not stand here twice")
		}
		seen[id] = true
		var texts []isa95.LocalizedText
		if description != "" {
			texts = []isa95.LocalizedText{{Text: description}}
		}
		if !yield(id, texts) {
			return
		}
	}
}

// parameters reads a mapping of names and values.
func (f field) parameters() []isa95.Parameter {
	if f.absent() {
		return nil
	}
	if !f.isMapping() {
		f.fault("must be a mapping of names and values")
		return nil
	}
	var all []isa95.Parameter
	for _, pair := range f.pairs() {
		name := keyText(pair.Key)
		value := f.at(f.join(name), pair.Value).template()
		all = append(all, isa95.Parameter{ID: name, Value: value.fill(&scene{})})
	}
	return all
}

// recipe reads and checks the recipe a field names. Its findings are faults under the recipe's own name and lines.
func (c *Configuration) recipe(f field, files fs.FS, check recipe.Options) json.RawMessage {
	name := f.text()
	clean := filepath.ToSlash(filepath.Clean(name))
	if !fs.ValidPath(clean) {
		f.fault("must be the file of a recipe in the folder of this one, or below it")
		return nil
	}
	data, err := fs.ReadFile(files, clean)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		f.fault("must be the file of a recipe: %v", err)
		return nil
	}
	if data, err = utf8text.Of(data); err != nil {
		f.fault("must be the file of a recipe: %v", err)
		return nil
	}
	for _, finding := range recipe.Check(data, check) {
		text := finding.Code + " " + finding.Severity + ": " + finding.Message
		if finding.Fix != "" {
			text += "; " + finding.Fix
		}
		fault := Fault{File: name, Line: finding.Line, Field: finding.Pointer, Rule: text}
		if finding.Severity == recipe.SeverityError {
			f.d.faults = append(f.d.faults, fault)
		} else {
			c.Warnings = append(c.Warnings, fault.String())
		}
	}
	var compact bytes.Buffer
	if json.Compact(&compact, data) != nil {
		return nil // the check has said so
	}
	return compact.Bytes()
}

// Events are the configuration events for every scope, in the order in which they are to be
// sent: what a work master or an order may need comes before it. Every call makes new ids; now is their recorded time.
// They are sent with mes.Client.Send.
func (c *Configuration) Events(source string, now time.Time) ([]cloudevent.Event, error) {
	var events []cloudevent.Event
	for _, scope := range c.Scopes {
		var failed error
		add := func(kind isa95.ConfigKind, body any) {
			data, err := isa95.Marshal(body)
			if err != nil && failed == nil {
				failed = fmt.Errorf("station: configuration of %s: %s: %w", scope, kind, err)
			}
			e := cloudevent.New(kind.TypeID(), source, string(scope), now).WithData(data, kind.Schema())
			e.Method = "PUT"
			events = append(events, e)
		}
		if c.MaxJobOrders != nil {
			add(isa95.ConfigJobAcceptance, isa95.JobAcceptance{MaxDownloadableJobOrders: *c.MaxJobOrders})
		}
		for _, r := range c.Equipment {
			add(isa95.ConfigEquipment, r)
		}
		for _, r := range c.MaterialClasses {
			add(isa95.ConfigMaterialClass, r)
		}
		for _, r := range c.MaterialDefinitions {
			add(isa95.ConfigMaterialDefinition, r)
		}
		for _, r := range c.Personnel {
			add(isa95.ConfigPersonnel, r)
		}
		for _, r := range c.PhysicalAssets {
			add(isa95.ConfigPhysicalAsset, r)
		}
		for _, w := range c.WorkMasters {
			add(isa95.ConfigWorkMaster, w)
		}
		if failed != nil {
			return nil, failed
		}
	}
	return events, nil
}
