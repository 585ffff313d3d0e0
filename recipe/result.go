package recipe

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/taktworks/takt/internal/utf8text"
)

// MaxResultBytes is the size of one result or event payload in bytes. The execution
// document, which holds it, is read and written with every event of the job.
const MaxResultBytes = 256 << 10

// Limits of all results of one execution together, so that the job response that gives
// them back can always be encoded: their size in bytes, and how many values Results
// lists. What an earlier round of a loop gave does not count, for it is overwritten.
const (
	MaxResultsBytes = 1 << 20
	MaxResultValues = 5000
)

// payload prepares what equipment sent for a document: JSON without needless white
// space, nil for nothing or null. The error says why it cannot be kept.
func payload(data []byte) (json.RawMessage, error) {
	b := readBody(data)
	return b.payload, b.err
}

// body is what equipment sent, read once.
type body struct {
	payload json.RawMessage // for a document: without needless white space, nil for nothing or null
	err     error           // why there is no payload
	twice   error           // which member is there twice, nil = none: readers take different ones of the two
}

// result is the payload as the result of an answer. No member may be there twice. What is
// stored, and events, are read without that rule.
func (b *body) result() (json.RawMessage, error) {
	if b.twice != nil {
		return nil, b.twice
	}
	return b.payload, b.err
}

// Read reads the body of a, so that the decisions about what it returns do not read it
// again. The error says why it cannot be a result: Program.Answer then fails the action.
func (a Answer) Read() (Answer, error) {
	if a.body == nil {
		b := readBody(a.Result)
		a.body = &b
	}
	_, err := a.body.result()
	return a, err
}

// readBody parses what equipment sent.
func readBody(data []byte) (b body) {
	data, err := utf8text.Of(data)
	data = bytes.TrimSpace(data)
	switch {
	case err != nil:
		return body{err: fmt.Errorf("the payload cannot be read: %w", err)}
	case len(data) == 0 || string(data) == "null":
		return body{}
	case len(data) > MaxResultBytes:
		return body{err: fmt.Errorf("the payload has %d bytes, and may have %d", len(data), MaxResultBytes)}
	}
	src, syntax := parse(data, maxDepth)
	if syntax != nil {
		return body{err: fmt.Errorf("the payload is not JSON of ours: %w", syntax)}
	}
	if path, kid := src.root.doubled(); kid != nil {
		b.twice = fmt.Errorf("the member %.200q of the payload is there twice, and may be there once", path)
	}
	b.payload = src.raw(&src.root)
	return b
}

// resultFits says why result cannot be the result of e, nil if it can: the results of the
// other actions and this one would exceed MaxResultsBytes or MaxResultValues. Nothing
// always fits.
func (d *decision) resultFits(e *ActionEntry, result json.RawMessage) error {
	if result == nil {
		return nil
	}
	size := len(result)
	others := d.otherResults(e)
	for _, other := range others {
		size += len(other.Result)
	}
	if size > MaxResultsBytes {
		return fmt.Errorf("its result of %d bytes makes all results %d bytes, and they may have %d", len(result), size, MaxResultsBytes)
	}
	if size <= MaxResultValues { // a value has at least a byte
		return nil
	}
	count := d.cache.count(e.Name, result)
	values := count
	for _, other := range others {
		values += d.cache.count(other.Name, other.Result)
	}
	if values > MaxResultValues {
		return fmt.Errorf("its result of %d values makes all results %d values, and they may have %d", count, values, MaxResultValues)
	}
	return nil
}

// otherResults are the completed actions with a result, without e.
func (d *decision) otherResults(e *ActionEntry) []*ActionEntry {
	var others []*ActionEntry
	for i := range d.x.Actions {
		if other := d.entry(i); other != e && other.State == ActionCompleted && other.Result != nil {
			others = append(others, other)
		}
	}
	return others
}

// countValues is how many values Results makes of one result: the members of an object,
// 1 of anything else.
func countValues(result json.RawMessage) int {
	if !bytes.HasPrefix(result, []byte("{")) { // payload leaves no white space
		return 1
	}
	src, err := parse(result, maxDepth+8)
	if err != nil {
		return 1
	}
	names := map[string]bool{} // of two of one name only the last is listed
	for _, kid := range src.root.kids {
		names[kid.key] = true
	}
	return len(names)
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
		for j := range src.root.kids {
			kid := &src.root.kids[j]
			if src.root.member(kid.key) == kid { // of two of one name, the last
				results = append(results, Result{ID: a.Name + "." + kid.key, Value: src.raw(kid)})
			}
		}
	}
	return results
}
