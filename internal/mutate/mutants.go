package main

import (
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Mutant is one guard, or one term of it, removed.
type Mutant struct {
	File       string // from the root of the repository
	Guard      string // the line, spaces made one
	Term       string // the term of its condition; "" = the whole
	Occurrence int    // among those of the file with the same text, from 1
	Kind       string

	original, mutated string // the whole file
	condition         [2]int // of Lua: where it stands in the file
	refusesIf         bool   // of Lua: the value of the condition that refuses
}

// id names a mutant for the report: it does not depend on numbers of lines.
func (m Mutant) id() string {
	id := m.File + "\t" + m.Guard
	if m.Term != "" {
		id += " [without: " + m.Term + "]"
	}
	if m.Occurrence > 1 {
		id += fmt.Sprintf(" (%d)", m.Occurrence)
	}
	return id
}

func (m Mutant) lua() bool   { return strings.HasSuffix(m.File, ".lua") }
func (m Mutant) pkg() string { return filepath.ToSlash(filepath.Dir(m.File)) }

// line is where the guard stands now.
func (m Mutant) line() int {
	i := 0
	for i < len(m.original) && i < len(m.mutated) && m.original[i] == m.mutated[i] {
		i++
	}
	return 1 + strings.Count(m.original[:i], "\n")
}

// packages hold the scripts of orders, tasks, boards, locks and workflows, by weight.
var packages = []string{"internal/commit", "jobstore", "sfc", "internal/stream", "task", "lock", "limit", "board/redisboard", "workflow", "publisher"}

// bySourceTxt are mutants that are no conditions of Lua: lines of Go, and Lua expressions.
//
//go:embed source.txt
var bySourceTxt string

// findAll returns all mutants of the repository in root: those of its scripts, and those of a list such as source.txt.
func findAll(root, list string) ([]Mutant, error) {
	var all []Mutant
	for _, folder := range packages {
		scripts, err := fs.Glob(os.DirFS(root), folder+"/*.lua")
		if err != nil {
			return nil, err
		}
		for _, file := range scripts {
			text, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				return nil, err
			}
			all = append(all, guards(file, string(text))...)
		}
	}
	named, err := bySource(root, list)
	return append(all, named...), err
}

// bySource reads mutants from a list of blocks, an empty line between two: file and kind, then the text to be replaced, with "- " before each line, then
// what replaces it, with "+ " before each.
func bySource(root, list string) ([]Mutant, error) {
	var all []Mutant
	for _, block := range strings.Split(strings.TrimSpace(list), "\n\n") {
		var m Mutant
		var before, after []string
		for line := range strings.SplitSeq(block, "\n") {
			switch {
			case line == "" || strings.HasPrefix(line, "#"):
			case strings.HasPrefix(line, "- "):
				before = append(before, line[2:])
			case strings.HasPrefix(line, "+"):
				after = append(after, strings.TrimPrefix(line[1:], " "))
			default:
				if _, err := fmt.Sscanf(line, "%s %s", &m.File, &m.Kind); err != nil {
					return nil, fmt.Errorf("source.txt: %q: want a file and a kind", line)
				}
			}
		}
		if m.File == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, m.File))
		if err != nil {
			return nil, fmt.Errorf("source.txt: %w", err)
		}
		from, by := strings.Join(before, "\n"), strings.Join(after, "\n")
		if n := strings.Count(string(text), from); n != 1 || from == "" {
			return nil, fmt.Errorf("source.txt: %s has %d times, not once:\n%s", m.File, n, from)
		}
		m.Guard, m.original, m.mutated = flat(from)+" -> "+flat(by), string(text), strings.Replace(string(text), from, by, 1)
		all = append(all, m)
	}
	number(all)
	return all, nil
}
