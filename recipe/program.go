package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Program is a recipe ready to run. It is immutable: any number of goroutines may decide
// with one Program at once.
type Program struct {
	recipe  *Recipe
	sha     string
	types   []string
	initial string
	places  map[string]*place
	actions []*Action // in the order of the recipe
	assets  []string  // of the events that each action awaits

	templates []*template // per action, nil where Parameters are sent as they are written
}

// place is a step or a branch with what leads out of it.
type place struct {
	name    string
	actions []int      // of a step: indexes in the recipe
	paths   [][]string // of a branch
	kind    BranchType // "" for a step
	entries []edge     // of a branch: to the first steps of its paths
	exits   []edge     // by priority, then in the order of the recipe
	inside  *place     // of a step in a path: its branch
	next    string     // of a step in a path: the one after it, "" at the end of the path
}

// edge is one transition.
type edge struct {
	index          int // in the recipe
	source, target string
	condition      *condition
}

// Compile prepares a recipe that is stored. The error is an *InvalidError when a rule says
// that it cannot run; warnings do not stand in the way, nor do the rules that are for
// deliveries only (see Check).
func Compile(data []byte) (*Program, error) {
	c, findings := check(data, nil)
	if HasErrors(findings) {
		return nil, &InvalidError{Findings: findings}
	}
	sum := sha256.Sum256(data)
	p := &Program{recipe: c.r, sha: hex.EncodeToString(sum[:]), places: map[string]*place{}}
	for i, s := range c.r.Steps {
		p.places[s.Name] = &place{name: s.Name, actions: c.actionsOf[s.Name], exits: c.edges(groupKey{s.Name, false})}
		if c.r.Steps[i].Initial {
			p.initial = s.Name
		}
	}
	for _, b := range c.r.Branches {
		branch := &place{
			name: b.Name, kind: b.Type, paths: b.Paths,
			entries: c.edges(groupKey{b.Name, true}), exits: c.edges(groupKey{b.Name, false}),
		}
		p.places[b.Name] = branch
		for _, path := range b.Paths {
			for i, step := range path {
				s := p.places[step]
				s.inside = branch
				if i+1 < len(path) {
					s.next = path[i+1]
				}
			}
		}
	}
	p.templates = c.templates
	for i := range c.r.Actions {
		a := &c.r.Actions[i]
		p.actions = append(p.actions, a)
		p.assets = append(p.assets, assetOf(a))
		if a.Interaction == InteractionPull && !slices.Contains(p.types, a.TypeID) {
			p.types = append(p.types, a.TypeID)
		}
	}
	return p, nil
}

func (c *review) edges(key groupKey) []edge {
	var edges []edge
	for _, t := range c.groups[key] {
		edges = append(edges, edge{index: t, source: c.r.Transitions[t].Source, target: c.r.Transitions[t].Target, condition: c.compiled[t]})
	}
	return edges
}

// SHA is the SHA-256 of the recipe text as compiled, in hex.
func (p *Program) SHA() string { return p.sha }

// PullTypes are the event types that actions of the recipe await, each once, in the order
// of the recipe: the mailboxes that a decision needs.
func (p *Program) PullTypes() []string { return slices.Clone(p.types) }

// Recipe returns the recipe. It belongs to the Program: do not change it.
func (p *Program) Recipe() *Recipe { return p.recipe }
