package console

import (
	"encoding"
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// answers are what the pages answer in JSON, by their names, and which query parameters they take. A page that is not here is described as an object.
var answers = map[string]struct {
	shown shown
	query []string
}{
	"overview": {&Overview{}, nil},
	"orders":   {&Orders{}, []string{"scope", "state", "id", "waits", "sort", "page"}},
	"runs":     {&Runs{}, []string{"scope"}},
	"order":    {&OneOrder{}, nil},
	"method":   {&MethodPage{}, nil},
	"audit":    {&AuditPage{}, []string{"user", "before"}},

	"system":    {&System{}, nil},
	"letters":   {&Dead{}, []string{"stream", "id", "before"}},
	"search":    {&Search{}, []string{"q"}},
	"boards":    {&Boards{}, nil},
	"board":     {&Board{}, []string{"state", "id", "page"}},
	"posting":   {&OnePosting{}, nil},
	"workflows": {&Workflows{}, []string{"id", "name", "state", "queue", "attribute", "after"}},
	"workflow":  {&OneWorkflow{}, []string{"execution"}},
	"schedules": {&Schedules{}, nil},

	"stations": {&Stations{}, []string{"id", "page"}},
	"station":  {&OneStation{}, nil},
	"recipes":  {&Recipes{}, []string{"id", "page"}},
	"recipe":   {&OneRecipe{}, []string{"sha", "with"}},

	"tasks":         {&Tasks{}, []string{"page"}},
	"tasklist":      {&TaskList{}, []string{"state", "queue", "type", "after"}},
	"task":          {&OneTask{}, []string{"ref"}},
	"dead":          {&TaskList{}, []string{"type", "reason", "queue", "after"}},
	"ask":           {&AskPage{}, nil},
	"group":         {&Group{}, []string{"id"}},
	"taskschedules": {&TaskSchedules{}, nil},
	"locks":         {&Locks{}, []string{"match", "after"}},
}

type object = map[string]any

// OpenAPI describes the interface for programs, OpenAPI 3.1 in JSON, from the pages, the actions and the types of their answers.
func OpenAPI() []byte {
	s := schemas{}
	failed := object{"description": "Refused or failed, with the reason.", "content": object{"application/json": object{"schema": s.of(reflect.TypeFor[struct {
		Error string `json:"error"`
	}]())}}}
	answer := func(description string, schema any) object {
		return object{"200": object{"description": description, "content": object{"application/json": object{"schema": schema}}}, "default": failed}
	}
	paths := make(map[string]object)
	add := func(path, method string, op object) {
		path = wildcard.ReplaceAllString(apiPath+path, "{$1}")
		if paths[path] == nil {
			paths[path] = object{}
		}
		parameters, _ := op["parameters"].([]any)
		for _, m := range wildcard.FindAllStringSubmatch(path, -1) {
			parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
		}
		op["parameters"], op["operationId"] = slices.Concat([]any{}, parameters), method+strings.TrimRight(word.ReplaceAllString(strings.TrimPrefix(path, apiPath), "_"), "_")
		paths[path][method] = op
	}
	for _, p := range pages() {
		schema, query := any(object{"type": "object"}), []any(nil)
		if a, ok := answers[p.name]; ok {
			schema = s.of(reflect.TypeOf(a.shown).Elem())
			for _, name := range a.query {
				query = append(query, object{"name": name, "in": "query", "schema": object{"type": "string"}})
			}
		}
		add(p.api, "get", object{"summary": "What the page " + p.name + " shows", "description": "Takes the role " + max(p.role, Viewer).String() + ".", "parameters": query, "responses": answer("The page.", schema)})
	}
	text := object{"type": "string"}
	form := object{"type": "object", "properties": object{"sure": text, "reason": text}, "additionalProperties": text}
	for _, a := range actions() {
		add(a.pattern, "post", object{
			"summary": "The action " + a.name, "description": "Takes the role " + a.role.String() + ". What cannot be taken back takes sure=yes; reason stands in the audit.",
			"requestBody": object{"content": object{"application/x-www-form-urlencoded": object{"schema": form}}},
			"responses":   answer("What became of it.", s.of(reflect.TypeFor[Result]())),
		})
	}
	doc, err := json.MarshalIndent(object{
		"openapi":  "3.1.0",
		"info":     object{"title": "Takt console", "version": "1", "description": "What the pages of the web console show, and what their buttons do. A console with users takes Authorization: Bearer TOKEN (takt console token add)."},
		"security": []any{object{"token": []any{}}, object{}},
		"paths":    paths, "components": object{"schemas": s, "securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}}},
	}, "", " ")
	if err != nil {
		panic(err) // it is made of texts
	}
	return append(doc, '\n')
}

var (
	wildcard = regexp.MustCompile(`\{(\w+)(?:\.\.\.)?\}`)
	word     = regexp.MustCompile(`\W+`)
	folders  = regexp.MustCompile(`[\w.-]+/`)
	unnamed  = regexp.MustCompile(`[^\w.]+`)
)

func (c *Console) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(OpenAPI()) // the client has gone
}

// schemas are those of the types with a name, in JSON Schema 2020-12.
type schemas map[string]any

func (s schemas) of(t reflect.Type) object {
	is := func(name string) object { return object{"type": name} }
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return object{"anyOf": []any{s.of(t.Elem()), is("null")}}
	case t.Implements(reflect.TypeFor[json.Marshaler]()), reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()):
		return object{} // it writes what it likes
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return is("string")
	}
	switch t.Kind() {
	case reflect.Bool:
		return is("boolean")
	case reflect.String:
		return is("string")
	case reflect.Float32, reflect.Float64:
		return is("number")
	case reflect.Interface:
		return object{}
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": s.of(t.Elem())}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": []string{"string", "null"}, "contentEncoding": "base64"}
		}
		return object{"type": []string{"array", "null"}, "items": s.of(t.Elem())}
	case reflect.Struct:
		return s.structure(t)
	}
	return is("integer")
}

// structure is a reference to the schema of a struct, which is made if there is none yet.
func (s schemas) structure(t reflect.Type) object {
	name := strings.Trim(unnamed.ReplaceAllString(folders.ReplaceAllString(t.Name(), ""), "_"), "_") // of a generic type, with that of its argument
	if own := reflect.TypeFor[Frame]().PkgPath(); t.PkgPath() != own && name != "" {
		name = t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:] + "." + name
	}
	properties, required := object{}, []string{}
	schema := object{"type": "object", "properties": properties}
	if name != "" {
		if s[name] != nil {
			return object{"$ref": "#/components/schemas/" + name}
		}
		s[name] = schema // before its fields, which may be of its type
	}
	s.fields(t, properties, &required)
	if len(required) > 0 {
		slices.Sort(required)
		schema["required"] = slices.Compact(required)
	}
	if name == "" {
		return schema
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func (s schemas) fields(t reflect.Type, properties object, required *[]string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch embedded := f.Type; {
		case f.Anonymous && name == "":
			needed := required
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
				if embedded != reflect.TypeFor[Frame]() { // it may be nil
					needed = new([]string)
				}
			}
			s.fields(embedded, properties, needed)
			continue
		case name == "-" || !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		properties[name] = s.of(f.Type)
		if !strings.Contains(options, "omit") {
			*required = append(*required, name)
		}
	}
}
