package recipe

import (
	"fmt"
	"slices"
)

// advice: R030, R031, R033, R038: what runs, but not as meant, or not everywhere alike.
func (c *review) advice() {
	c.confusableEvents()
	if i := slices.IndexFunc(c.r.Actions, func(a Action) bool { return a.Interaction == InteractionPull && a.MaxAttempts > 1 }); i >= 0 {
		c.warn("R038", fmt.Sprintf("MaxAttempts has no effect on action %s: an event is awaited once", c.r.Actions[i].Name), "remove it, and let TimeoutSeconds be long enough", "Actions", i, "MaxAttempts")
	}
	if c.portable {
		c.dialect()
	}
}

// confusableEvents: R031, two events of one type awaited by one step, or in two paths of
// a simultaneous branch, without different assets.
func (c *review) confusableEvents() {
	byType := map[string][]int{}
	assets := make([]string, len(c.r.Actions))
	for i, a := range c.r.Actions {
		if a.Interaction != InteractionPull {
			continue
		}
		assets[i] = assetOf(&a)
		for _, other := range byType[a.TypeID] {
			b := c.r.Actions[other]
			if c.together(a.Step, b.Step) && (assets[i] == "" || assets[other] == "" || assets[i] == assets[other]) {
				c.warn("R031", fmt.Sprintf("actions %s and %s can await %s at the same time", b.Name, a.Name, a.TypeID),
					"let the equipment send different types, or name different assets in Parameters.asset_id", "Actions", i, "TypeId")
				break
			}
		}
		byType[a.TypeID] = append(byType[a.TypeID], i)
	}
}

// together tells whether two steps can be active at once.
func (c *review) together(a, b string) bool {
	if a == b {
		return true
	}
	pa, inA := c.places[a]
	pb, inB := c.places[b]
	return inA && inB && pa.branch == pb.branch && pa.path != pb.path && c.r.Branches[pa.branch].Type == SimultaneousBranch
}

// dialect: R030, and R033 but for loops, each cause once.
func (c *review) dialect() {
	for i, s := range c.r.Steps {
		if len(c.actionsOf[s.Name]) == 0 {
			c.warn("R030", fmt.Sprintf("step %s has no action: MicroDCS would hang on it", s.Name), "add an action", "Steps", i)
		}
	}
	if i := slices.IndexFunc(c.compiled, func(cond *condition) bool { return cond.kind != conditionAlways }); i >= 0 {
		c.warn("R033", fmt.Sprintf("the recipe has conditions, such as %q: MicroDCS takes the lowest priority number instead", c.compiled[i].text),
			"give the transition that is to be taken there the lowest number", "Transitions", i, "Condition")
	}
	if i := slices.IndexFunc(c.r.Actions, func(a Action) bool { return a.Qualifier != QualifierN }); i >= 0 {
		a := c.r.Actions[i]
		c.warn("R033", fmt.Sprintf("action %s has the qualifier %s: MicroDCS runs all as N", a.Name, a.Qualifier), "write N", "Actions", i, "Qualifier")
	}
	if i := slices.IndexFunc(c.r.Actions, func(a Action) bool { return a.Cancel != nil }); i >= 0 {
		c.warn("R033", fmt.Sprintf("action %s has a Cancel: MicroDCS sends none", c.r.Actions[i].Name), "remove Cancel", "Actions", i, "Cancel")
	}
}

// assetOf is the asset whose events a pull_event awaits, "" for any.
func assetOf(a *Action) string {
	if a.Parameters == nil {
		return ""
	}
	src, err := parse(a.Parameters, maxDepth)
	if err != nil {
		return "" // not from a decoded recipe
	}
	asset := src.root.member("asset_id")
	if asset == nil {
		return ""
	}
	return asset.text
}
