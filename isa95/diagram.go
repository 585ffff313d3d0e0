package isa95

import (
	"fmt"
	"strings"
)

// Diagram draws the whole machine as a Mermaid stateDiagram, from the table. InitialState and EndState are the start
// and end circles; a substate machine is drawn inside its state, its arrow from the circle is the substate entered.
func Diagram() string {
	var out strings.Builder
	out.WriteString("stateDiagram-v2\n")
	for _, parent := range States() {
		if parent.Sub != "" {
			continue
		}
		var substates []State
		for _, s := range States() {
			if s.Top == parent.Top && s.Sub != "" {
				substates = append(substates, s)
			}
		}
		if len(substates) == 0 {
			continue
		}
		fmt.Fprintf(&out, "    state %s {\n", parent)
		for _, s := range substates {
			fmt.Fprintf(&out, "        %s: %s\n", s, s.Sub)
		}
		fmt.Fprintf(&out, "        [*] --> %s\n", entered(parent))
		for _, t := range jobOrderControl {
			if t.From.Top == parent.Top && t.From.Sub != "" {
				name := strings.TrimPrefix(string(t.Method), parent.Top)
				fmt.Fprintf(&out, "        %s --> %s: %s\n", t.From, t.To, label(name, t.Number))
			}
		}
		out.WriteString("    }\n")
	}
	for _, t := range jobOrderControl {
		if t.From.Sub == "" {
			fmt.Fprintf(&out, "    %s --> %s: %s\n", circle(t.From), circle(State{Top: t.To.Top}), label(string(t.Method), t.Number))
		}
	}
	return out.String()
}

// entered is the substate of parent that transitions into parent lead to.
func entered(parent State) State {
	for _, t := range jobOrderControl {
		if t.To.Top == parent.Top && t.From.Sub == "" {
			return t.To
		}
	}
	return parent
}

func circle(s State) string {
	if s == Initial || s.IsEnd() {
		return "[*]"
	}
	return s.String()
}

func label(name string, number int) string {
	if number == 0 {
		return name
	}
	return fmt.Sprintf("%s (%d)", name, number)
}
