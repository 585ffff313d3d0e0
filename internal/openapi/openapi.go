// Package openapi describes an HTTP interface by OpenAPI 3.1, from its operations and the Go types of their answers.
package openapi

import (
	"encoding"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// API is an interface for programs that have a bearer token, if it asks for one.
type API struct {
	Title, Description string
	Base               string // before all paths
	Package            string // path of the package whose types stand in the description without its name; a pointer to one of them that is embedded is never nil
	Error              any    // what is answered instead, a value of its type
	Operations         []Operation
}

// Operation is a method at a path, which answers in JSON.
type Operation struct {
	Method, Path         string // the path is a pattern of http.ServeMux, without the method
	Summary, Description string
	Query                []string // names of parameters, each of them optional
	Form                 []string // names of fields of its form, which may have more of them; nil = it takes none
	Answer               any      // a value of its type, or a pointer to one
	Answered             string   // what the answer is, in words
}

type object = map[string]any

// JSON is the description.
func (a API) JSON() []byte {
	s := &schemas{a.Package, make(map[string]any)}
	inJSON := func(description string, value any) object {
		return object{"description": description, "content": object{"application/json": object{"schema": s.schema(reflect.Indirect(reflect.ValueOf(value)).Type())}}}
	}
	text := object{"type": "string"}
	paths := make(map[string]object)
	for _, o := range a.Operations {
		path := Path(a.Base + o.Path)
		parameters := []any{}
		for _, name := range o.Query {
			parameters = append(parameters, object{"name": name, "in": "query", "schema": text})
		}
		for _, m := range wildcard.FindAllStringSubmatch(path, -1) {
			parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": text})
		}
		op := object{
			"operationId": o.Method + strings.TrimRight(word.ReplaceAllString(strings.TrimPrefix(path, a.Base), "_"), "_"),
			"summary":     o.Summary, "description": o.Description, "parameters": parameters,
			"responses": object{"200": inJSON(o.Answered, o.Answer), "default": inJSON("Refused or failed, with the reason.", a.Error)},
		}
		if o.Form != nil {
			fields := object{}
			for _, name := range o.Form {
				fields[name] = text
			}
			op["requestBody"] = object{"content": object{"application/x-www-form-urlencoded": object{"schema": object{"type": "object", "properties": fields, "additionalProperties": text}}}}
		}
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path][o.Method] = op
	}
	doc, err := json.MarshalIndent(object{
		"openapi":  "3.1.0",
		"info":     object{"title": a.Title, "version": "1", "description": a.Description},
		"security": []any{object{"token": []any{}}, object{}},
		"paths":    paths, "components": object{"schemas": s.of, "securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}}},
	}, "", " ")
	if err != nil {
		panic(err) // it is made of texts
	}
	return append(doc, '\n')
}

// Path is a pattern of http.ServeMux as a path of OpenAPI.
func Path(pattern string) string { return wildcard.ReplaceAllString(pattern, "{$1}") }

var (
	wildcard = regexp.MustCompile(`\{(\w+)(?:\.\.\.)?\}`)
	word     = regexp.MustCompile(`\W+`)
	folders  = regexp.MustCompile(`[\w.-]+/`)
	unnamed  = regexp.MustCompile(`[^\w.]+`)
)

// schemas are those of the types with a name, in JSON Schema 2020-12.
type schemas struct {
	own string // path of the package whose types stand without its name
	of  map[string]any
}

func (s *schemas) schema(t reflect.Type) object {
	is := func(name string) object { return object{"type": name} }
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return object{"anyOf": []any{s.schema(t.Elem()), is("null")}}
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
		return object{"type": []string{"object", "null"}, "additionalProperties": s.schema(t.Elem())}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": []string{"string", "null"}, "contentEncoding": "base64"}
		}
		return object{"type": []string{"array", "null"}, "items": s.schema(t.Elem())}
	case reflect.Struct:
		return s.structure(t)
	}
	return is("integer")
}

// structure is a reference to the schema of a struct, which is made if there is none yet.
func (s *schemas) structure(t reflect.Type) object {
	name := strings.Trim(unnamed.ReplaceAllString(folders.ReplaceAllString(t.Name(), ""), "_"), "_") // of a generic type, with that of its argument
	if t.PkgPath() != s.own && name != "" {
		name = t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:] + "." + name
	}
	properties, required := object{}, []string{}
	schema := object{"type": "object", "properties": properties}
	if name != "" {
		if s.of[name] != nil {
			return object{"$ref": "#/components/schemas/" + name}
		}
		s.of[name] = schema // before its fields, which may be of its type
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

func (s *schemas) fields(t reflect.Type, properties object, required *[]string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch embedded := f.Type; {
		case f.Anonymous && name == "":
			needed := required
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
				if embedded.PkgPath() != s.own { // it may be nil
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
		properties[name] = s.schema(f.Type)
		if !strings.Contains(options, "omit") {
			*required = append(*required, name)
		}
	}
}
