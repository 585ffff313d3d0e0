package recipe

import (
	"fmt"
	"strings"
)

// Mermaid draws the recipe as a Mermaid flowchart: steps with their actions, transitions
// with priority and condition where there is a choice, a simultaneous branch between two
// bars, a selection branch between a rhombus and a circle.
func (p *Program) Mermaid() string {
	r := p.recipe
	m := drawing{p: p, id: map[string]string{}, out: map[string]string{}}
	for i, s := range r.Steps {
		m.id[s.Name] = fmt.Sprintf("s%d", i)
		m.out[s.Name] = m.id[s.Name]
	}
	for i, b := range r.Branches {
		m.id[b.Name] = fmt.Sprintf("b%d", i)
		m.out[b.Name] = m.id[b.Name] + "e"
	}
	m.line("flowchart TD")
	m.line("  start((start)) --> %s", m.id[p.initial])
	for _, s := range r.Steps {
		if p.places[s.Name].inside == nil {
			m.step(p.places[s.Name], "  ")
		}
	}
	for _, b := range r.Branches {
		m.branch(p.places[b.Name])
	}
	ends := false
	for _, at := range m.linear() {
		for _, e := range at.exits {
			m.edge(m.out[at.name], m.id[e.target], e, len(at.exits) > 1)
		}
		if len(at.exits) == 0 {
			m.line("  %s --> done", m.out[at.name])
			ends = true
		}
	}
	if ends {
		m.line("  done(((end)))")
	}
	return m.String()
}

type drawing struct {
	strings.Builder
	p   *Program
	id  map[string]string // where edges go in
	out map[string]string // where edges come out
}

func (m *drawing) line(format string, args ...any) {
	fmt.Fprintf(m, format+"\n", args...)
}

// linear lists the steps outside branches and the branches, in the order of the recipe.
func (m *drawing) linear() []*place {
	var places []*place
	for _, s := range m.p.recipe.Steps {
		if at := m.p.places[s.Name]; at.inside == nil {
			places = append(places, at)
		}
	}
	for _, b := range m.p.recipe.Branches {
		places = append(places, m.p.places[b.Name])
	}
	return places
}

func (m *drawing) step(s *place, indent string) {
	label := "<b>" + s.name + "</b>"
	for _, i := range s.actions {
		a := m.p.actions[i]
		sign := "→" // a command goes out
		if a.Interaction == InteractionPull {
			sign = "←"
		}
		label += fmt.Sprintf("<br/>%s %s %s %ds", a.Qualifier, a.Name, sign, a.TimeoutSeconds)
	}
	m.line(`%s%s["%s"]`, indent, m.id[s.name], label)
}

func (m *drawing) branch(b *place) {
	in, out := m.id[b.name], m.out[b.name]
	m.line("  subgraph %sg [%s]", in, b.name)
	if b.kind == SimultaneousBranch {
		m.line(`    %s["all of"]`, in)
		m.line(`    %s["all done"]`, out)
	} else {
		m.line(`    %s{"one of"}`, in)
		m.line(`    %s(("done"))`, out)
	}
	for _, path := range b.paths {
		for _, step := range path {
			m.step(m.p.places[step], "    ")
		}
	}
	m.line("  end")
	entries := map[string]edge{}
	for _, e := range b.entries {
		entries[e.target] = e
	}
	for _, path := range b.paths {
		e := entries[path[0]]
		m.edge(in, m.id[path[0]], e, b.kind == SelectionBranch && e.condition != nil)
		for i, step := range path[1:] {
			m.line("  %s --> %s", m.id[path[i]], m.id[step])
		}
		m.line("  %s --> %s", m.id[path[len(path)-1]], out)
	}
}

// edge draws a transition; with its condition where it is one of several, or can be false.
func (m *drawing) edge(from, to string, e edge, choice bool) {
	if e.condition == nil || !choice && e.condition.kind == conditionAlways {
		m.line("  %s --> %s", from, to)
		return
	}
	text := e.condition.text
	if text == "" {
		text = "always"
	}
	m.line(`  %s -- "%s" --> %s`, from, escapeMermaid(text), to)
}

// escapeMermaid writes what Mermaid would read as its own syntax as entities.
func escapeMermaid(s string) string {
	return strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;", ";", "#59;", "\n", " ", "\r", " ", "`", "#96;", "\\", "#92;").Replace(s)
}
