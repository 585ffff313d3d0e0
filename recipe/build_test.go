package recipe

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// text writes a recipe from short lines, each element on a line of its own (element i of
// a list stands i+1 lines below the line of its list):
//
//	step A*               initial with *
//	A > B: condition ! 2  transition, with condition and priority if there is a ':' or '!'
//	do a @ A              push_command a in step A, type "do.a", 10 s, N
//	on e @ A type t       pull_event; then any of: type T, time S, attempts N, with {…}, as Q, cancel S
//	sim X: A B | C        simultaneous branch; sel: selection
//	set {…}               top-level members, as JSON
func text(lines string) []byte {
	r := Recipe{Steps: []Step{}, Transitions: []Transition{}, Actions: []Action{}, Branches: []Branch{}}
	extra := ""
	for _, line := range strings.Split(lines, "\n") {
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "":
		case word == "step":
			name, initial := strings.CutSuffix(rest, "*")
			r.Steps = append(r.Steps, Step{Name: name, Initial: initial})
		case word == "do" || word == "on":
			r.Actions = append(r.Actions, action(word, rest))
		case word == "sim" || word == "sel":
			r.Branches = append(r.Branches, branch(word, rest))
		case word == "set":
			extra = strings.TrimSuffix(strings.TrimPrefix(rest, "{"), "}") + ",\n"
		default:
			r.Transitions = append(r.Transitions, transition(line))
		}
	}
	return []byte("{\n" + extra +
		list("Steps", r.Steps) + ",\n" + list("Transitions", r.Transitions) + ",\n" +
		list("Actions", r.Actions) + ",\n" + list("Branches", r.Branches) + "\n}")
}

func list[E any](name string, elements []E) string {
	var lines []string
	for _, e := range elements {
		data, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		lines = append(lines, "\n"+string(data))
	}
	return strconv.Quote(name) + ": [" + strings.Join(lines, ",") + "\n]"
}

func transition(line string) Transition {
	t := Transition{Condition: "always"}
	if i := strings.LastIndex(line, " ! "); i >= 0 {
		t.Priority = atoi(line[i+3:])
		line = line[:i]
	}
	if i := strings.Index(line, ": "); i >= 0 {
		t.Condition = line[i+2:]
		line = line[:i]
	}
	var ok bool
	if t.Source, t.Target, ok = strings.Cut(line, " > "); !ok {
		panic(line)
	}
	return t
}

func action(word, rest string) Action {
	name, rest, ok := strings.Cut(rest, " @ ")
	if !ok {
		panic(rest)
	}
	step, rest, _ := strings.Cut(rest, " ")
	a := Action{Name: name, Step: step, Qualifier: QualifierN, Interaction: InteractionPush, TypeID: word + "." + name, TimeoutSeconds: 10}
	if word == "on" {
		a.Interaction = InteractionPull
	}
	for rest != "" {
		var key, value string
		key, rest, _ = strings.Cut(rest, " ")
		value, rest, _ = strings.Cut(rest, " ")
		switch key {
		case "type":
			a.TypeID = strings.Trim(value, `"`)
		case "time":
			a.TimeoutSeconds = atoi(value)
		case "attempts":
			a.MaxAttempts = atoi(value)
		case "with":
			a.Parameters = json.RawMessage(value)
		case "cancel":
			a.Cancel = &Cancel{TypeID: "cancel." + name, TimeoutSeconds: atoi(value)}
		case "as":
			a.Qualifier = Qualifier(value)
		default:
			panic(key)
		}
	}
	return a
}

func branch(word, rest string) Branch {
	b := Branch{Type: SelectionBranch, Paths: [][]string{}}
	if word == "sim" {
		b.Type = SimultaneousBranch
	}
	var paths string
	b.Name, paths, _ = strings.Cut(rest, ":")
	if strings.TrimSpace(paths) == "" {
		return b
	}
	for _, path := range strings.Split(paths, "|") {
		b.Paths = append(b.Paths, append([]string{}, strings.Fields(path)...))
	}
	return b
}

func atoi(s string) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		panic(fmt.Sprintf("%q is no number", s))
	}
	return n
}
