package console

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/taktworks/takt/internal/openapi"
)

// OpenAPI describes the interface for programs, OpenAPI 3.1 in JSON, from the pages, the actions and the types of their answers.
func OpenAPI() []byte {
	api := openapi.API{
		Title: "Takt console", Description: "What the pages of the web console show, and what their buttons do. A console with users takes Authorization: Bearer TOKEN (takt console token add).",
		Base: apiPath, Package: reflect.TypeFor[Frame]().PkgPath(), Error: Failure{},
	}
	for _, p := range pages() {
		api.Operations = append(api.Operations, openapi.Operation{
			Method: "get", Path: p.api(), Summary: "What the page " + p.name + " shows", Description: "Takes the role " + max(p.role, Viewer).String() + ".",
			Query: strings.Fields(p.query), Answer: p.shows, Answered: "The page.",
		})
	}
	for _, a := range actions() {
		api.Operations = append(api.Operations, openapi.Operation{
			Method: "post", Path: a.pattern, Summary: "The action " + a.name, Description: "Takes the role " + a.role.String() + ". What cannot be taken back takes sure=yes; reason stands in the audit.",
			Form: []string{"sure", "reason"}, Answer: Result{}, Answered: "What became of it.",
		})
	}
	return api.JSON()
}

func (c *Console) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(OpenAPI()) // the client has gone
}
