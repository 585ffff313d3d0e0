package deploy_test

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/taktworks/takt/internal/testenv"
)

// The description of the console's interface is OpenAPI: other programs make clients from it.
func TestOpenAPI(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(read(t, "../../docs/reference/console-openapi.json"))
	testenv.Must(t, err)
	testenv.Must(t, doc.Validate(t.Context()))
	if doc.OpenAPI != "3.1.0" || doc.Paths.Len() < 5 {
		t.Errorf("version %s, %d paths", doc.OpenAPI, doc.Paths.Len())
	}
}
