package jobstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// SchemaStep makes of a document of one schema the same document of a later one. It has the whole document in JSON, with the members that storage adds, and returns it with the
// URI of its schema now. It is pure: the same document always gives the same result, for a document is brought up to date at each reading until something else changes it.
type SchemaStep func(old []byte) (document []byte, schema string, err error)

// Schemas are the steps by the `_dataschema` of the documents that each one takes. A job order, job response or work master of a schema that Takt does not write goes from step to step until
// it has the current one. Nothing is written by that: the next change of the document writes it in the current form.
//
// A document of a schema that no step and no reader knows, as a newer version may have written, is a *DocumentError with a *SchemaError wherever it is read. Since every change begins with
// a reading it stays as it is, byte for byte.
type Schemas map[string]SchemaStep

// SchemaError is a stored document of a schema that cannot be read.
type SchemaError struct {
	Schema string // its `_dataschema`, or what a step made of it
	Want   string // that of the documents which Takt writes
}

// Error says what to do, too.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("_dataschema is %q, must be %q or one that a step leads from: a newer version wrote it, and this one leaves it untouched; run that version", e.Schema, e.Want)
}

// current makes a document of the schema want. nil: it is that already. A document without a schema counts as such.
func (steps Schemas) current(doc []byte, schema, want string) ([]byte, error) {
	var now []byte
	for passed := []string{}; schema != "" && schema != want; {
		step := steps[schema]
		if step == nil {
			return nil, &SchemaError{Schema: schema, Want: want}
		}
		if passed = append(passed, schema); slices.Contains(passed[:len(passed)-1], schema) {
			return nil, fmt.Errorf("the steps from _dataschema %q lead back to it", schema)
		}
		var err error
		if now, schema, err = step(doc); err != nil {
			return nil, fmt.Errorf("step from _dataschema %q: %w", passed[len(passed)-1], err)
		}
		doc = now
	}
	return now, nil
}

// upgraded is doc in the schema want.
func (steps Schemas) upgraded(doc []byte, want string) ([]byte, error) {
	if bytes.HasSuffix(doc, []byte(`,"_dataschema":"`+want+`"}`)) { // as Takt writes a work master, which may be large
		return doc, nil
	}
	var m metadata
	if err := json.Unmarshal(doc, &m); err != nil {
		return nil, err
	}
	now, err := steps.current(doc, m.DataSchema, want)
	if now == nil {
		now = doc
	}
	return now, err
}
