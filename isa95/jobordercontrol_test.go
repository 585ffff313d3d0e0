package isa95

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv/golden"
)

// matrix is the machine of OPC 10031-4 written out a second time, by state: what each method leads to. What is not here
// is refused.
var matrix = map[string]string{
	"InitialState":              "Store>NotAllowedToStart_Ready StoreAndStart>AllowedToStart_Ready",
	"NotAllowedToStart":         prepared,
	"NotAllowedToStart_Waiting": prepared + " NotAllowedToStartFromWaitingToReady>NotAllowedToStart_Ready",
	"NotAllowedToStart_Ready": prepared + " NotAllowedToStartFromReadyToLoaded>NotAllowedToStart_Loaded" +
		" NotAllowedToStartFromReadyToWaiting>NotAllowedToStart_Waiting",
	"NotAllowedToStart_Loaded": prepared + " NotAllowedToStartFromLoadedToReady>NotAllowedToStart_Ready" +
		" NotAllowedToStartFromLoadedToWaiting>NotAllowedToStart_Waiting",
	"AllowedToStart":         allowed,
	"AllowedToStart_Waiting": allowed + " AllowedToStartFromWaitingToReady>AllowedToStart_Ready",
	"AllowedToStart_Ready": allowed + " AllowedToStartFromReadyToLoaded>AllowedToStart_Loaded" +
		" AllowedToStartFromReadyToWaiting>AllowedToStart_Waiting",
	"AllowedToStart_Loaded": allowed + " AllowedToStartFromLoadedToReady>AllowedToStart_Ready" +
		" AllowedToStartFromLoadedToWaiting>AllowedToStart_Waiting",
	"Running":               "Abort>Aborted Pause>Interrupted_Suspended Stop>Ended_Completed End>Ended_Completed",
	"Interrupted":           interrupted,
	"Interrupted_Held":      interrupted + " InterruptedFromHeldToSuspended>Interrupted_Suspended",
	"Interrupted_Suspended": interrupted + " InterruptedFromSuspendedToHeld>Interrupted_Held",
	"Ended":                 "Clear>EndState",
	"Ended_Completed":       "Clear>EndState EndedFromCompletedToClosed>Ended_Closed",
	"Ended_Closed":          "Clear>EndState",
	"Aborted":               "Clear>EndState",
	"EndState":              "",
}

const (
	prepared    = "Abort>Aborted Cancel>EndState Start>AllowedToStart_Ready Update>NotAllowedToStart_Ready"
	allowed     = "Abort>Aborted Cancel>EndState RevokeStart>NotAllowedToStart_Ready Update>AllowedToStart_Ready Run>Running"
	interrupted = "Abort>Aborted Resume>Running Stop>Ended_Completed"
)

// everyMethod lists all that can happen: 11 methods, 2 queries, Run, End and 13 substate transitions.
func everyMethod() []Method {
	all := append(Methods(), Run, End)
	for _, t := range Transitions() {
		if !slices.Contains(all, t.Method) {
			all = append(all, t.Method)
		}
	}
	return all
}

func TestNextIsTheMatrixOfEveryStateAndMethod(t *testing.T) {
	if n := len(States()); n != 18 || len(matrix) != 18 {
		t.Fatalf("%d states, %d rows in the matrix, want 18", n, len(matrix))
	}
	if n := len(everyMethod()); n != 28 {
		t.Fatalf("%d methods and transitions, want 28", n)
	}
	for _, s := range States() {
		want := make(map[Method]string)
		for row := range strings.FieldsSeq(matrix[s.String()]) {
			m, to, _ := strings.Cut(row, ">")
			want[Method(m)] = to
		}
		for _, m := range everyMethod() {
			next, ok := Next(s, m)
			to, allowed := want[m]
			switch {
			case ok != allowed:
				t.Errorf("Next(%v, %v) allowed = %t, want %t", s, m, ok, allowed)
			case ok && next.String() != to:
				t.Errorf("Next(%v, %v) = %v, want %s", s, m, next, to)
			case !ok && next != Initial:
				t.Errorf("Next(%v, %v) = %v with ok false", s, m, next)
			}
		}
	}
}

func TestNextRefusesStatesThatDoNotExist(t *testing.T) {
	for _, s := range []State{{"Running", "Ready"}, {"Paused", ""}, {"", "Ready"}, {"InitialState", ""}, {"Ended", "Held"}} {
		for _, m := range everyMethod() {
			if next, ok := Next(s, m); ok {
				t.Errorf("Next(%+v, %v) = %v, want refused", s, m, next)
			}
		}
	}
}

func TestAllowed(t *testing.T) {
	for _, tc := range []struct {
		state State
		want  string
	}{
		{Initial, "[Store StoreAndStart]"},
		{State{NotAllowedToStart, Ready}, "[Abort Cancel Start Update]"},
		{State{AllowedToStart, Loaded}, "[Abort Cancel RevokeStart Update]"},
		{State{Running, ""}, "[Abort Pause Stop]"},
		{State{Interrupted, Suspended}, "[Abort Resume Stop]"},
		{State{Ended, Completed}, "[Clear]"},
		{State{Aborted, ""}, "[Clear]"},
		{State{EndState, ""}, "[]"},
	} {
		if got := fmt.Sprint(Allowed(tc.state)); got != tc.want {
			t.Errorf("Allowed(%v) = %s, want %s", tc.state, got, tc.want)
		}
	}
}

// Every state that a transition enters has the substate of spec 2.1, so the diagram can draw one entry per machine.
func TestEnteredSubstateIsUnique(t *testing.T) {
	for _, row := range Transitions() {
		if row.From.Sub == "" && row.To != entered(State{Top: row.To.Top}) {
			t.Errorf("%v from %v enters %v, others %v", row.Method, row.From, row.To, entered(State{Top: row.To.Top}))
		}
	}
}

func TestDiagram(t *testing.T) {
	golden.Check(t, "testdata/jobordercontrol.mmd", Diagram())
}
