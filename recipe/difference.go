package recipe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Difference is one thing in which two editions of a recipe differ.
type Difference struct {
	Change string `json:"change"`          // one of the constants below
	Part   string `json:"part"`            // recipe, step, transition, action or branch
	Name   string `json:"name,omitempty"`  // of the part; of a transition "SOURCE > TARGET"
	Field  string `json:"field,omitempty"` // that changed, as the format spells it; Order is that of the parts that both have
	Before string `json:"before"`          // value, "" = none; of what was removed or added all its fields
	After  string `json:"after"`
}

// The changes of a Difference.
const (
	DifferenceAdded   = "added"
	DifferenceRemoved = "removed"
	DifferenceChanged = "changed"
)

// Compare returns in what after differs from before: the recipe itself, its steps, transitions, actions and branches, each by name, those removed first. None: they do the same. A part with another name is
// removed and added. Names of members, blanks and the order of members make no difference.
func Compare(before, after *Recipe) []Difference {
	all := compareFields(nil, "recipe", "", fields(before), fields(after))
	all = compareParts(all, "step", before.Steps, after.Steps, func(s Step) string { return s.Name })
	all = compareParts(all, "transition", before.Transitions, after.Transitions, func(t Transition) string { return t.Source + " > " + t.Target })
	all = compareParts(all, "action", before.Actions, after.Actions, func(a Action) string { return a.Name })
	return compareParts(all, "branch", before.Branches, after.Branches, func(b Branch) string { return b.Name })
}

// byName are parts by name; the second one of a name has its number behind it.
func byName[P any](parts []P, name func(P) string) (names []string, of map[string]map[string]string) {
	of = make(map[string]map[string]string, len(parts))
	for _, p := range parts {
		one := name(p)
		for n := 2; of[one] != nil; n++ {
			one = fmt.Sprintf("%s (%d)", name(p), n)
		}
		names, of[one] = append(names, one), fields(p)
	}
	return names, of
}

func compareParts[P any](all []Difference, part string, before, after []P, name func(P) string) []Difference {
	had, was := byName(before, name)
	has, is := byName(after, name)
	for _, n := range had {
		if is[n] == nil {
			all = append(all, Difference{Change: DifferenceRemoved, Part: part, Name: n, Before: sentence(was[n])})
		}
	}
	for _, n := range has {
		if was[n] == nil {
			all = append(all, Difference{Change: DifferenceAdded, Part: part, Name: n, After: sentence(is[n])})
		} else {
			all = compareFields(all, part, n, was[n], is[n])
		}
	}
	both := func(names []string) []string {
		return slices.DeleteFunc(names, func(n string) bool { return was[n] == nil || is[n] == nil })
	}
	if had, has = both(had), both(has); part != "step" && !slices.Equal(had, has) { // the order of steps means nothing
		all = append(all, Difference{Change: DifferenceChanged, Part: part, Field: "Order", Before: strings.Join(had, ", "), After: strings.Join(has, ", ")})
	}
	return all
}

func compareFields(all []Difference, part, name string, was, is map[string]string) []Difference {
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, field := range slices.Sorted(maps.Keys(names)) {
		if was[field] != is[field] {
			all = append(all, Difference{DifferenceChanged, part, name, field, was[field], is[field]})
		}
	}
	return all
}

// fields are the members of a part that are no lists of parts, as JSON with sorted members; strings stand without quotes.
func fields(part any) map[string]string {
	text, _ := json.Marshal(part) // what was decoded can be encoded
	var members map[string]any
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	_ = numbers.Decode(&members)
	all := make(map[string]string, len(members))
	for name, value := range members {
		if _, recipe := part.(*Recipe); recipe && slices.Contains([]string{"Steps", "Transitions", "Actions", "Branches"}, name) {
			continue
		}
		word, ok := value.(string)
		if !ok {
			text, _ := json.Marshal(value)
			word = string(text)
		}
		all[name] = word
	}
	return all
}

// sentence is all fields of a part that say something, without those of its name.
func sentence(fields map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if value := fields[name]; !slices.Contains([]string{"Name", "Source", "Target"}, name) && cmp.Or(value, "0") != "0" && value != "false" {
			words = append(words, name+": "+value)
		}
	}
	return strings.Join(words, ", ")
}
