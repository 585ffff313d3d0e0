package recipe

import (
	"encoding/json"
	"fmt"
)

// cache keeps what one decision has read out of results and parameters, so that a loop of
// conditions decodes each of them once. Values are shared between evaluations, which do
// not change them. It belongs to one decision, and so to one goroutine. The zero value is
// ready for use.
type cache struct {
	results    map[string]*cachedResult // by action
	parameters map[string]any           // job order parameters, as plain gives them
	all        any                      // job.parameters as a whole, nil = not yet asked for
	decodes    int                      // results decoded so far
}

// cachedResult is what is known of raw, the result of one action.
type cachedResult struct {
	raw     json.RawMessage
	value   any
	decoded bool // value is set
	count   int  // of values for the job response, -1 = not counted yet
}

// of returns what is known of the result of an action. A new result of the action, as in
// the next round of a loop, takes the place of the old one.
func (c *cache) of(action string, raw json.RawMessage) *cachedResult {
	known := c.results[action]
	if known == nil || !sameText(known.raw, raw) {
		known = &cachedResult{raw: raw, count: -1}
		if c.results == nil {
			c.results = map[string]*cachedResult{}
		}
		c.results[action] = known
	}
	return known
}

// sameText tells whether a and b are the same bytes in memory, which are never written to.
func sameText(a, b json.RawMessage) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// result is the decoded result of an action, nil if there is none.
func (c *cache) result(action string, raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	known := c.of(action, raw)
	if !known.decoded {
		known.value, known.decoded = plain(raw), true
		c.decodes++
	}
	return known.value
}

// count is how many values of the job response the result of an action makes.
func (c *cache) count(action string, raw json.RawMessage) int {
	known := c.of(action, raw)
	if known.count < 0 {
		known.count = countValues(raw)
	}
	return known.count
}

// parameter is one parameter of the job order, nil if there is none.
func (c *cache) parameter(o *Order, id string) any {
	v, known := c.parameters[id]
	if !known {
		v = plain(o.Parameters[id])
		if c.parameters == nil {
			c.parameters = map[string]any{}
		}
		c.parameters[id] = v
	}
	return v
}

// below is a parameter of the job order, or a member of one, nil if there is none.
func (c *cache) below(o *Order, path []any) any {
	return follow(c.parameter(o, fmt.Sprint(path[0])), path[1:]) // job.parameters[5] is the one with the id "5"
}

// allParameters is every parameter of the job order by its id.
func (c *cache) allParameters(o *Order) any {
	if c.all == nil {
		c.all = plain(o.Parameters)
	}
	return c.all
}
