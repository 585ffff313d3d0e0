package lock

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
)

// Types is the registry of object types, so that a misspelt type is an error and not a lock that nobody else takes. It is
// safe for concurrent use; make it with NewTypes.
type Types struct {
	mu    sync.RWMutex
	where map[ObjectType]string // where it was registered
}

// NewTypes returns a registry that has the built-in types.
func NewTypes() *Types {
	const builtIn = "package lock (built in)"
	return &Types{where: map[ObjectType]string{Task: builtIn, Job: builtIn, Transformation: builtIn}}
}

// Add registers a type. A name that there is already is an error that says where it was registered first; a name is 1 to 128
// bytes of UTF-8 without control characters.
func (t *Types) Add(name ObjectType) error {
	if err := checkPart("ObjectType", string(name)); err != nil {
		return err
	}
	here := "unknown place"
	if _, file, line, ok := runtime.Caller(1); ok {
		here = fmt.Sprintf("%s:%d", file, line)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if first, ok := t.where[name]; ok {
		return &SpecError{"ObjectType", quote(string(name)), "is registered already, at " + first}
	}
	t.where[name] = here
	return nil
}

// Check is nil for a registered type, else an *UnknownTypeError.
func (t *Types) Check(name ObjectType) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if _, ok := t.where[name]; ok {
		return nil
	}
	return &UnknownTypeError{Type: name, Registered: slices.Sorted(maps.Keys(t.where))}
}

// Names lists the registered types in order.
func (t *Types) Names() []ObjectType {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.where))
}
