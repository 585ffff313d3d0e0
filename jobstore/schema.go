package jobstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/taktworks/takt/isa95"
)

// The root member _dataschema says which form a stored document has. A document of an earlier form is read through the registered steps, each pure, from its form to the
// next, and is written in its present form with the next change. A form that is not known, of a later version say, is an error: the document stays as it is, and Check names it.

// ErrSchema: a document has a form that this version does not know.
var ErrSchema = errors.New("its _dataschema is not known to this version: is it of a later one?")

// Step carries the members of a document from one form to the next. It changes or adds members, _dataschema among them, and leaves alone those that it does not know. It must not
// depend on anything but them.
type Step func(members map[string]json.RawMessage) error

var steps = struct {
	sync.RWMutex
	from map[string]Step
}{from: make(map[string]Step)}

// RegisterStep makes documents readable whose _dataschema is from. It is called at the start of a program, once for each form; it panics for a form that is known.
func RegisterStep(from string, step Step) {
	steps.Lock()
	defer steps.Unlock()
	if steps.from[from] != nil || from == "" || slices.Contains(presentForms, from) {
		panic(fmt.Sprintf("jobstore: a step from the form %q is registered, or it is a present one", from))
	}
	steps.from[from] = step
}

// presentForms are those that are read as they are.
var presentForms = []string{isa95.SchemaJobOrderAndState, isa95.SchemaJobResponse}

// maxSteps bounds the way of a document, for steps that lead back.
const maxSteps = 100

// inForm is doc in the form want, from its form has; "" counts as want.
func inForm(doc []byte, has, want string) ([]byte, error) {
	if has == want || has == "" {
		return doc, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc, &members); err != nil {
		return nil, err
	}
	for range maxSteps {
		steps.RLock()
		step := steps.from[has]
		steps.RUnlock()
		if step == nil {
			return nil, fmt.Errorf("%w (%q)", ErrSchema, has)
		}
		if err := step(members); err != nil {
			return nil, fmt.Errorf("from the form %q: %w", has, err)
		}
		if err := json.Unmarshal(members["_dataschema"], &has); err != nil {
			return nil, fmt.Errorf("_dataschema after a step: %w", err)
		}
		if has == want {
			return json.Marshal(members)
		}
	}
	return nil, fmt.Errorf("no %d steps lead to the form %q", maxSteps, want)
}
