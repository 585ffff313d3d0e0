package recipe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// MaxResultBytes is the size of one result or event payload in bytes. The execution
// document, which holds it, is read and written with every event of the job.
const MaxResultBytes = 256 << 10

// payload prepares what equipment sent for a document: JSON without needless white
// space, nil for nothing or null. The error says why it cannot be kept.
func payload(data []byte) (json.RawMessage, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	if len(data) > MaxResultBytes {
		return nil, fmt.Errorf("the payload has %d bytes, and may have %d", len(data), MaxResultBytes)
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("the payload is not valid UTF-8")
	}
	src, err := parse(data, maxDepth)
	if err != nil {
		return nil, fmt.Errorf("the payload is not JSON of ours: %w", err)
	}
	return src.raw(src.root), nil
}

// Results are the results of the completed actions, in the order of the recipe, for
// JobResponseData: a member of an object is "{action}.{member}", in the order in which the
// equipment sent them; anything else is "{action}". Null is no result. Digits are as sent.
func (x *Execution) Results() []Result {
	var results []Result
	for i := range x.Actions {
		a := &x.Actions[i]
		if a.State != ActionCompleted || a.Result == nil {
			continue
		}
		src, err := parse(a.Result, maxDepth+8)
		if err != nil || src.root.kind != '{' {
			results = append(results, Result{ID: a.Name, Value: a.Result})
			continue
		}
		for j, key := range src.root.keys {
			if src.root.member(key) == src.root.kids[j] { // of two of one name, the last
				results = append(results, Result{ID: a.Name + "." + key, Value: src.raw(src.root.kids[j])})
			}
		}
	}
	return results
}
