package recipe

import (
	"fmt"
	"slices"
)

// waits: R035, places where a run may stay for ever, since perhaps no condition is true.
func (c *review) waits() {
	for _, key := range c.order {
		if group := c.groups[key]; c.mayWait(key, group) {
			c.warn("R035", fmt.Sprintf("every transition from %s has a condition: if none is true the order waits for ever unless another event changes them", key.source),
				"add a transition with the condition otherwise", "Transitions", group[len(group)-1])
		}
	}
}

// mayWait tells whether a group has conditions of which perhaps none is true. A group
// that can never fire is the matter of R025, one that does not compile that of R026.
func (c *review) mayWait(key groupKey, group []int) bool {
	if key.entry && c.r.Branches[c.branches[key.source]].Type == SimultaneousBranch {
		return false
	}
	some := false
	for _, t := range group {
		cond := c.compiled[t]
		switch {
		case cond.kind == conditionNever:
		case cond.kind != conditionExpression || cond.program == nil || cond.timed:
			return false
		default:
			some = true
		}
	}
	return some && !c.complementary(group)
}

// complementary tells whether two conditions of a group can be seen, from their text, to
// be the opposite of each other, so that one of them is true. It does not look at the
// pairs of a group of more than maxExclusive.
func (c *review) complementary(group []int) bool {
	if len(group) > maxExclusive {
		return false
	}
	for k, t := range group {
		if slices.ContainsFunc(group[:k], func(o int) bool { return opposites(c.compiled[o], c.compiled[t]) }) {
			return true
		}
	}
	return false
}
