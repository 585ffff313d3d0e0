// Package nearest finds the name that a misspelt one was meant to be, for messages that ask "did you mean ...?".
package nearest

import "strings"

// Name returns the known name that is most like word: the one with the fewest letters to insert, delete, replace or swap,
// where case does not count. It is "" if none is near: at most a third of the letters may differ, and at least one.
// Of names that are equally near, the first is returned.
func Name(word string, known []string) string {
	const longest = 64 // longer words are compared by their beginning
	found, least := "", max(1, len(cut(word, longest))/3)+1
	for _, name := range known {
		if name == word || name == "" {
			continue
		}
		if n := distance(strings.ToLower(cut(word, longest)), strings.ToLower(cut(name, longest))); n < least {
			found, least = name, n
		}
	}
	return found
}

// Ask is the question that ends a message: ", did you mean NAME?", or "" if no known name is near.
func Ask(word string, known []string) string {
	if name := Name(word, known); name != "" {
		return ", did you mean " + name + "?"
	}
	return ""
}

func cut(s string, n int) string { return s[:min(len(s), n)] }

// distance is the optimal string alignment distance of two words, in bytes.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
