// Package invariant goes through the keys below a prefix, compares them with internal/keys, and collects broken invariants. The parts of Takt bring the rules.
package invariant

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
)

// Violation is one broken invariant: something is lost, stuck or left over.
type Violation struct {
	Key     string `json:"key"`
	Problem string `json:"problem"`
	Next    string `json:"next"` // what to do about it

	// Moment says at which moment a look found this, where Problem does not: two looks at an invariant that stays broken have the same one, also if ages and
	// counts in Problem have grown; of what is just being done they have different ones. "" = Problem says it.
	Moment string `json:"-"`
}

// Same says whether two looks, one after the other, found the same broken invariant, and nothing has moved there in between.
func (v Violation) Same(other Violation) bool {
	return v.Key == other.Key && cmp.Or(v.Moment, v.Problem) == cmp.Or(other.Moment, other.Problem)
}

func (v Violation) String() string { return v.Key + ": " + v.Problem + "; " + v.Next }

// Next steps that several parts name.
const (
	NextReport  = "this should not happen: keep the data and report it"
	nextType    = "look who writes it and stop that; keep a copy with DUMP, DEL the key, and check again"
	nextForeign = "look who writes it: give each program a prefix of its own, then DEL the key"
)

// List collects violations. The zero value is empty.
type List []Violation

// Add adds a violation of key.
func (l *List) Add(key, next, problem string, args ...any) { l.AddAt("", key, next, problem, args...) }

// AddAt is Add where problem names an age or a count that grows while it stands; moment is what does not.
func (l *List) AddAt(moment, key, next, problem string, args ...any) {
	*l = append(*l, Violation{Key: key, Problem: fmt.Sprintf(problem, args...), Next: next, Moment: moment})
}

// Sorted returns each violation once, by key and problem.
func (l List) Sorted() []Violation {
	slices.SortFunc(l, func(a, b Violation) int { return strings.Compare(a.Key+a.Problem, b.Key+b.Problem) })
	return slices.Compact(l)
}

// Standing looks so many times, pause apart, and returns what was the same in every look, nil if that is nothing: the rest was just being done. It ends with the first
// look that leaves nothing.
func Standing(ctx context.Context, looks int, pause time.Duration, look func() ([]Violation, error)) (suspects []Violation, err error) {
	for n := range looks {
		if n > 0 && !lifecycle.Sleep(ctx, pause) {
			return nil, ctx.Err()
		}
		found, err := look()
		if err != nil {
			return nil, err
		}
		if n > 0 {
			found = slices.DeleteFunc(found, func(v Violation) bool { return !slices.ContainsFunc(suspects, v.Same) })
		}
		if suspects = found; len(suspects) == 0 {
			return nil, nil
		}
	}
	return suspects, nil
}
