package schemas_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
)

var update = flag.Bool("update", false, "write the files anew")

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := plain(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	return []byte("{" + b.String() + "}"), nil
}

// plain is JSON without escapes for HTML.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// bodies are the documents: the name of the file and the type of the body.
var bodies = []struct {
	name string
	typ  reflect.Type
}{
	{"job-order-call", reflect.TypeFor[isa95.JobOrderCall]()},
	{"job-order-id-call", reflect.TypeFor[isa95.JobOrderIDCall]()},
	{"job-response-by-id-call", reflect.TypeFor[isa95.JobResponseByIDCall]()},
	{"job-response-by-state-call", reflect.TypeFor[isa95.JobResponseByStateCall]()},
	{"job-response-call", reflect.TypeFor[isa95.JobResponseCall]()},
	{"method-result", reflect.TypeFor[isa95.MethodResult]()},
	{"delivery-result", reflect.TypeFor[isa95.DeliveryResult]()},
	{"job-response-result", reflect.TypeFor[isa95.JobResponseResult]()},
	{"job-responses-result", reflect.TypeFor[isa95.JobResponsesResult]()},
	{"status-event", reflect.TypeFor[isa95.StatusEvent]()},
	{"state-index", reflect.TypeFor[isa95.StateIndex]()},
	{"job-order", reflect.TypeFor[isa95.JobOrder]()},
	{"job-order-and-state", reflect.TypeFor[isa95.JobOrderAndState]()},
	{"job-response", reflect.TypeFor[isa95.JobResponse]()},
	{"equipment", reflect.TypeFor[isa95.Equipment]()},
	{"material", reflect.TypeFor[isa95.Material]()},
	{"personnel", reflect.TypeFor[isa95.Personnel]()},
	{"physical-asset", reflect.TypeFor[isa95.PhysicalAsset]()},
	{"work-master", reflect.TypeFor[isa95.WorkMaster]()},
	{"job-acceptance", reflect.TypeFor[isa95.JobAcceptance]()},
	{"metadata", reflect.TypeFor[isa95.Meta]()},
	{"action-call", reflect.TypeFor[isa95.ActionCall]()},
	{"station-call", reflect.TypeFor[isa95.StationCall]()},
	{"action-result", reflect.TypeFor[json.RawMessage]()},
	{"event", reflect.TypeFor[cloudevent.Event]()},
}

// required are the members that a message cannot do without, besides those with the tag rule:"required".
var required = map[reflect.Type][]string{
	reflect.TypeFor[isa95.JobOrderCall]():           {"JobOrder"},
	reflect.TypeFor[isa95.JobOrderIDCall]():         {"JobOrderID"},
	reflect.TypeFor[isa95.JobResponseByIDCall]():    {"JobOrderID"},
	reflect.TypeFor[isa95.JobResponseByStateCall](): {"JobOrderState"},
	reflect.TypeFor[isa95.JobResponseCall]():        {"JobResponse"},
	reflect.TypeFor[isa95.MethodResult]():           {"ReturnStatus"},
	reflect.TypeFor[isa95.DeliveryResult]():         {"ReturnStatus"},
	reflect.TypeFor[isa95.JobResponseResult]():      {"ReturnStatus"},
	reflect.TypeFor[isa95.JobResponsesResult]():     {"ReturnStatus"},
	reflect.TypeFor[isa95.StatusEvent]():            {"JobOrder", "JobState"},
	reflect.TypeFor[isa95.StateIndex]():             {"jobs"},
	reflect.TypeFor[isa95.StateIndexEntry]():        {"state", "has_result"},
	reflect.TypeFor[isa95.JobOrder]():               {"JobOrderID"},
	reflect.TypeFor[isa95.JobOrderAndState]():       {"JobOrder", "State"},
	reflect.TypeFor[isa95.JobResponse]():            {"JobOrderID"},
	reflect.TypeFor[isa95.ActionCall]():             {"JobOrderID", "Action", "Attempt"},
	reflect.TypeFor[isa95.WorkMaster]():             {"ID"},
}

// members are schemas of members whose Go type says too little.
var members = map[string]any{
	"JobOrder.Priority":     object{{"type", "integer"}, {"description", "Larger is more urgent."}},
	"ActionCall.Parameters": object{{"type", "object"}},
	"ActionCall.Attempt":    object{{"type", "integer"}, {"minimum", 1}},
	"StationCall.JobOrder":  object{{"$ref", "#/definitions/JobOrder"}},
	"WorkMaster.data":       object{{"type", []string{"object", "array"}}, {"description", "In the format that dataschema names: a recipe."}},
	"StateIndexEntry.state": object{{"type", "array"}, {"items", object{{"anyOf", []any{object{{"$ref", "#/definitions/StateElement"}}, object{{"$ref", "#/definitions/StateElementPage"}}}}}}},
	"StateIndex.seq":        object{{"type", "integer"}, {"minimum", 1}},
	"DeliveryResult.Change": object{{"enum", []string{"new", "changed", "unchanged", "removed"}}},
	"Parameter.Value":       object{{"description", "Any JSON value."}},
	"Property.Value":        object{{"description", "Any JSON value."}},
}

// statePage is a state in a state index whose members are named as on the page of the standard: --state-index-keys page.
var statePage = object{{"type", "object"}, {"properties", object{
	{"state_text", object{{"type", "object"}, {"properties", object{{"locale", object{{"type", "string"}}}, {"text", object{{"type", "string"}}}}}, {"required", []string{"text"}}}},
	{"state_number", object{{"type", "integer"}}},
}}, {"required", []string{"state_text", "state_number"}}, {"description", "A level of a state, with the names of --state-index-keys page."}}

// generator makes schemas of Go types.
type generator struct {
	comments    map[string]string
	definitions map[string]object
	root        reflect.Type
}

func (g *generator) document(name string, t reflect.Type) object {
	g.definitions, g.root = make(map[string]object), t
	doc := object{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"$id", "https://github.com/taktworks/takt/schemas/" + name + ".json"}, {"title", name}}
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return append(doc, member{"description", "The result of an action: any JSON value. Conditions and later parameters refer to it."})
	case reflect.TypeFor[cloudevent.Event]():
		return append(doc, eventSchema()...)
	}
	doc = append(doc, g.structure(t)...)
	if strings.Contains(fmt.Sprint(doc), "#/definitions/StateElementPage") || t == reflect.TypeFor[isa95.StateIndex]() {
		g.ref(reflect.TypeFor[isa95.StateElement]())
		g.definitions["StateElementPage"] = statePage
	}
	if t == reflect.TypeFor[isa95.StationCall]() {
		g.ref(reflect.TypeFor[isa95.JobOrder]())
	}
	if len(g.definitions) > 0 {
		var all object
		for _, name := range sorted(g.definitions) {
			all = append(all, member{name, g.definitions[name]})
		}
		doc = append(doc, member{"definitions", all})
	}
	return doc
}

// structure is the schema of a struct.
func (g *generator) structure(t reflect.Type) object {
	var properties object
	needs := slices.Clone(required[t])
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || name == "" {
			continue
		}
		value, ok := members[t.Name()+"."+name]
		if !ok {
			value = g.of(f.Type)
		}
		properties = append(properties, member{name, value})
		if f.Tag.Get("rule") == "required" {
			needs = append(needs, name)
		}
	}
	o := object{{"type", "object"}}
	if text := g.comments[t.Name()]; text != "" {
		o = append(o, member{"description", text})
	}
	o = append(o, member{"properties", properties})
	if len(needs) > 0 {
		slices.Sort(needs)
		o = append(o, member{"required", needs})
	}
	return o
}

func (g *generator) of(t reflect.Type) any {
	switch {
	case t == reflect.TypeFor[isa95.ReturnStatus]():
		return object{{"enum", []uint64{1, 2, 8, 16, 1 << 32}}, {"description", "MethodReturnStatus: 1 no error, 2 unknown job order, 8 invalid status, 16 unable to accept, 4294967296 invalid request."}}
	case t == reflect.TypeFor[json.RawMessage]():
		return object{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.Slice:
		return object{{"type", "array"}, {"items", g.of(t.Elem())}}
	case reflect.Struct:
		return g.ref(t)
	case reflect.String:
		return object{{"type", "string"}}
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.Int, reflect.Int64:
		return object{{"type", "integer"}}
	}
	panic("no schema for " + t.String())
}

func (g *generator) ref(t reflect.Type) object {
	if _, ok := g.definitions[t.Name()]; !ok {
		g.definitions[t.Name()] = nil // it may contain itself
		g.definitions[t.Name()] = g.structure(t)
	}
	return object{{"$ref", "#/definitions/" + t.Name()}}
}

// eventSchema is that of an event in structured mode.
func eventSchema() object {
	return append(object{{"description", "A CloudEvent in structured mode: content type application/cloudevents+json. Its data is the body."}}, envelope()...)
}

// envelope is the attributes that every event has, and those that it may have.
func envelope() object {
	return object{{"type", "object"}, {"properties", attributes()}, {"required", []string{"specversion", "id", "source", "type"}}}
}

// attributes are those of a CloudEvent, as user properties too.
func attributes() object {
	text := func(description string) object { return object{{"type", "string"}, {"description", description}} }
	return object{
		{"specversion", object{{"const", "1.0"}}},
		{"id", text("With source what a repeated message is known by.")},
		{"source", text("Who sends it: a URI.")},
		{"type", text("What happened, or is to be done.")},
		{"subject", text("The scope, up to its first slash.")},
		{"dataschema", text("Names the schema of the body.")},
		{"time", text("RFC 3339.")},
		{"correlationid", text("The same in a request and its reply.")},
		{"causationid", text("The id of the event that this one answers or follows.")},
		{"mdcserrorkind", object{{"type", "string"}, {"enum", cloudevent.Kinds()}, {"description", "In a reply: why it is a refusal."}}},
		{"mdcserrormessage", text("In a refusal: the reason, for people.")},
	}
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// typeComments are the comments of the types of package isa95.
func typeComments(t *testing.T) map[string]string {
	files, err := filepath.Glob("../isa95/*.go")
	testenv.Must(t, err)
	comments := make(map[string]string)
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		testenv.Must(t, err)
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE && g.Doc != nil {
				comments[g.Specs[0].(*ast.TypeSpec).Name.Name] = strings.Join(strings.Fields(g.Doc.Text()), " ")
			}
		}
	}
	return comments
}

// The files are what the types say. go test ./schemas -update writes them.
func TestFilesAreCurrent(t *testing.T) {
	g := &generator{comments: typeComments(t)}
	files := map[string][]byte{"asyncapi.yaml": asyncAPI(t)}
	for _, b := range bodies {
		text, err := plain(g.document(b.name, b.typ))
		testenv.Must(t, err)
		var indented bytes.Buffer
		testenv.Must(t, json.Indent(&indented, text, "", "  "))
		files[b.name+".json"] = append(indented.Bytes(), '\n')
	}
	there, err := filepath.Glob("*.json")
	testenv.Must(t, err)
	for _, name := range there {
		if files[name] == nil {
			t.Errorf("%s is of no type", name)
		}
	}
	for _, name := range sorted(files) {
		if *update {
			testenv.Must(t, os.WriteFile(name, files[name], 0o644))
		}
		if text, err := os.ReadFile(name); err != nil || !bytes.Equal(text, files[name]) {
			t.Errorf("%s is not as the types say: run go test ./schemas -update", name)
		}
	}
}
