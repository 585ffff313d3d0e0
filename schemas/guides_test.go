package schemas_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/taktworks/takt/internal/testenv"
)

// Each body in the guides is one of the schema that stands beside its language: ```json job-order-call.
func TestGuides(t *testing.T) {
	guides, err := filepath.Glob("../docs/guides/*.md")
	testenv.Must(t, err)
	checked := 0
	for _, guide := range guides {
		text, err := os.ReadFile(guide)
		testenv.Must(t, err)
		for _, block := range strings.Split(string(text), "\n```json ")[1:] {
			name, rest, _ := strings.Cut(block, "\n")
			body, _, _ := strings.Cut(rest, "\n```")
			schema, err := jsonschema.NewCompiler().Compile(name + ".json")
			if err != nil {
				t.Errorf("%s: %v", guide, err)
				continue
			}
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(body)))
			if err == nil {
				err = schema.Validate(doc)
			}
			if err != nil {
				t.Errorf("%s: %s\n%v", guide, body, err)
			}
			checked++
		}
	}
	if checked < 10 {
		t.Errorf("%d bodies in %v", checked, guides)
	}
}
