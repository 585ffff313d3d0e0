package tasktest

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/taktworks/takt/task"
)

// Submission is a submitted task with its arguments as its handler gets them. State says where it is, Due when it starts if that is StateDelayed.
type Submission[T any] struct {
	task.Task
	Args T
}

// Submitted are the tasks of a type that have not ended: waiting ones, oldest first within a queue, then delayed ones by when they are due. Workers take tasks away: look before one
// runs, or have none for this type. Members of an aggregate are not among them. What cannot be read fails the test.
func Submitted[T, R any](t testing.TB, c *task.Client, typ *task.Type[T, R]) []Submission[T] {
	t.Helper()
	var all []Submission[T]
	for one, err := range c.All(t.Context(), task.Filter{Name: typ.Name()}) {
		if err != nil {
			t.Fatal(err)
		}
		if one.State == task.StateDead {
			continue
		}
		args, err := typ.ArgsOf(one)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Submission[T]{one, args})
	}
	return all
}

// RequireSubmitted is the first of Submitted with these arguments. If there is none, the test fails and says what there is.
func RequireSubmitted[T, R any](t testing.TB, c *task.Client, typ *task.Type[T, R], args T) Submission[T] {
	t.Helper()
	want := args // as a handler would get them
	if _, err := Run(t.Context(), typ, typ.Handle(func(_ context.Context, j *task.Job[T]) (none R, _ error) { want = j.Args; return none, nil }), args); err != nil {
		t.Fatal(err)
	}
	all := Submitted(t, c, typ)
	var have strings.Builder
	for _, s := range all {
		if reflect.DeepEqual(s.Args, want) {
			return s
		}
		fmt.Fprintf(&have, "\n\t%+v %s %s", s.Args, s.State, s.ID)
	}
	t.Fatalf("tasktest: no %q with %+v was submitted, but %d others:%s", typ.Name(), want, len(all), &have)
	panic("unreachable")
}
