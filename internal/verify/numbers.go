package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// list is numbers.txt: the numbers in its order, and where the lines with an arrow place some of them.
type list struct {
	wanted []string
	places map[string][]place
}

// place is where one number is shown: in tests of a package, or by a phrase in a file. The zero place is open: not shown yet.
type place struct {
	folder string // of the package
	tests  []string
	file   string
	phrase string
}

func (p place) open() bool { return p.folder == "" && p.file == "" }

var (
	// inFile is a place in a file of the documentation.
	inFile = regexp.MustCompile(`^(docs/\S+\.md) "([^"]+)"$`)
	aTest  = regexp.MustCompile(`^(?:Test|Example|Fuzz)`)
)

// parseNumbers reads numbers.txt, ranges written out.
func parseNumbers(text string) (list, error) {
	all := list{places: make(map[string][]place)}
	add := func(n string) {
		if !slices.Contains(all.wanted, n) {
			all.wanted = append(all.wanted, n)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		set, where, placed := strings.Cut(line, "->")
		if !placed {
			set, _, _ = strings.Cut(line, "#")
		}
		var numbers []string
		for _, word := range strings.Fields(set) {
			expanded, err := expand(word)
			if err != nil {
				return list{}, err
			}
			numbers = append(numbers, expanded...)
		}
		for _, n := range numbers {
			add(n)
		}
		if !placed {
			continue
		}
		places, err := parsePlaces(strings.TrimSpace(where))
		if err != nil || len(numbers) != 1 {
			return list{}, fmt.Errorf("numbers.txt: %q is none of: X-1 -> folder TestA TestB; folder TestC | X-1 -> docs/FILE.md \"phrase\" | X-1 -> open", strings.TrimSpace(line))
		}
		all.places[numbers[0]] = append(all.places[numbers[0]], places...)
	}
	return all, nil
}

func parsePlaces(where string) ([]place, error) {
	if where == "open" {
		return []place{{}}, nil
	}
	if m := inFile.FindStringSubmatch(where); m != nil {
		return []place{{file: m[1], phrase: m[2]}}, nil
	}
	var places []place
	for part := range strings.SplitSeq(where, ";") {
		words := strings.Fields(part)
		if len(words) < 2 || aTest.MatchString(words[0]) || slices.ContainsFunc(words[1:], func(w string) bool { return !aTest.MatchString(w) }) {
			return nil, fmt.Errorf("%q names no tests of a package", part)
		}
		places = append(places, place{folder: words[0], tests: words[1:]})
	}
	return places, nil
}

// check returns where p shows its number, and what is wrong with it. passed holds the tests as readResults returns them; root is the root of the repository.
func (p place) check(root string, passed map[string]bool) (at, wrong []string) {
	if p.file == "" {
		for _, test := range p.tests {
			if passed[p.folder+" "+test] {
				at = append(at, p.folder+"."+test)
			} else {
				wrong = append(wrong, fmt.Sprintf("%s of %s did not run and pass", test, p.folder))
			}
		}
		return at, wrong
	}
	text, err := os.ReadFile(filepath.Join(root, p.file))
	if err != nil {
		return nil, []string{err.Error()}
	}
	if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), p.phrase) {
		return nil, []string{fmt.Sprintf("%s does not have the phrase %q", p.file, p.phrase)}
	}
	return []string{p.file}, nil
}

// expand returns the numbers of a word, which is one or a range.
func expand(word string) ([]string, error) {
	first, last, isRange := strings.Cut(word, "..")
	if !isRange {
		return []string{word}, nil
	}
	prefix, from := split(first)
	other, to := split(last)
	if prefix != other || from < 0 || to < from {
		return nil, fmt.Errorf("numbers.txt: %q is no range", word)
	}
	var all []string
	for n := from; n <= to; n++ {
		all = append(all, prefix+strconv.Itoa(n))
	}
	return all, nil
}

func split(word string) (prefix string, number int) {
	i := strings.LastIndexFunc(word, func(r rune) bool { return r < '0' || r > '9' })
	n, err := strconv.Atoi(word[i+1:])
	if err != nil {
		return word, -1
	}
	return word[:i+1], n
}
