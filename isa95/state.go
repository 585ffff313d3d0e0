package isa95

import (
	"fmt"
	"strings"
)

// State is the state of a job order: one of the eighteen of States. The zero value is Initial. Comparable with ==.
type State struct {
	Top string // NotAllowedToStart, ...; "" = InitialState
	Sub string // Ready, ...; "" = none, or not said
}

// Initial is the pseudo state before Store. It is never stored, its array form is empty.
var Initial State

// Names of top states and substates: the StateText on the wire.
const (
	InitialState      = "InitialState" // pseudo, never stored
	NotAllowedToStart = "NotAllowedToStart"
	AllowedToStart    = "AllowedToStart"
	Running           = "Running"
	Interrupted       = "Interrupted"
	Ended             = "Ended"
	Aborted           = "Aborted"
	EndState          = "EndState" // pseudo: cancelled or cleared, stored until it expires

	Waiting   = "Waiting" // NotAllowedToStart, AllowedToStart
	Ready     = "Ready"
	Loaded    = "Loaded"
	Held      = "Held" // Interrupted
	Suspended = "Suspended"
	Completed = "Completed" // Ended
	Closed    = "Closed"
)

// stateNumbers holds all states with their numbers, top level and within the parent, as in the standard (spec 2.1):
// Ready is 2 and Completed 1, not 12 and 51.
var stateNumbers = []struct {
	State
	Number, SubNumber int
}{
	{State{"", ""}, 0, 0},
	{State{NotAllowedToStart, ""}, 1, 0},
	{State{NotAllowedToStart, Waiting}, 1, 1},
	{State{NotAllowedToStart, Ready}, 1, 2},
	{State{NotAllowedToStart, Loaded}, 1, 3},
	{State{AllowedToStart, ""}, 2, 0},
	{State{AllowedToStart, Waiting}, 2, 1},
	{State{AllowedToStart, Ready}, 2, 2},
	{State{AllowedToStart, Loaded}, 2, 3},
	{State{Running, ""}, 3, 0},
	{State{Interrupted, ""}, 4, 0},
	{State{Interrupted, Held}, 4, 1},
	{State{Interrupted, Suspended}, 4, 2},
	{State{Ended, ""}, 5, 0},
	{State{Ended, Completed}, 5, 1},
	{State{Ended, Closed}, 5, 2},
	{State{Aborted, ""}, 6, 0},
	{State{EndState, ""}, 7, 0},
}

// stateIndexByText leads from the composite name to the index in stateNumbers.
var stateIndexByText = func() map[string]int {
	byText := make(map[string]int, len(stateNumbers))
	for i, s := range stateNumbers {
		byText[s.State.String()] = i
	}
	return byText
}()

// States lists all eighteen states, Initial first, parents before their substates.
func States() []State {
	all := make([]State, len(stateNumbers))
	for i, s := range stateNumbers {
		all[i] = s.State
	}
	return all
}

// String is the composite name: "Ended_Completed", "Running", "InitialState".
func (s State) String() string {
	switch {
	case s.Top == "":
		return InitialState
	case s.Sub == "":
		return s.Top
	}
	return s.Top + "_" + s.Sub
}

// Elements is the array form on the wire, one element per level, top level first, Locale always "en". It is nil for
// Initial, which is never sent, and for a State that does not exist.
func (s State) Elements() []StateElement {
	i, known := stateIndexByText[s.String()]
	if !known || i == 0 {
		return nil
	}
	level := func(text string, number int) StateElement {
		return StateElement{StateText: LocalizedText{Locale: "en", Text: text}, StateNumber: number}
	}
	top := level(s.Top, stateNumbers[i].Number)
	if s.Sub == "" {
		return []StateElement{top}
	}
	return []StateElement{top, level(s.Sub, stateNumbers[i].SubNumber)}
}

// Clearable reports whether Clear is allowed: the job is over, its result may be fetched and then forgotten.
func (s State) Clearable() bool { return s.Top == Ended || s.Top == Aborted }

// IsEnd reports whether the job was cancelled or cleared. Nothing leads out of it but the expiry of the document.
func (s State) IsEnd() bool { return s.Top == EndState }

// Within reports whether s is parent or one of its substates.
func (s State) Within(parent State) bool {
	return s == parent || parent.Sub == "" && s.Top == parent.Top
}

// StateError is a state that the machine does not have, in a stored document or a query.
type StateError struct{ Text string }

func (e *StateError) Error() string {
	var known []string
	for _, s := range States() {
		known = append(known, s.String())
	}
	return fmt.Sprintf("state %q is none of %s", shorten(e.Text), strings.Join(known, ", "))
}

// ParseState reads the array form: it joins the texts with "_", skips elements without text and ignores numbers; no
// text at all is Initial (spec 2.1). An unknown state is a *StateError.
func ParseState(elements []StateElement) (State, error) {
	text := ""
	for _, e := range elements {
		if text != "" && e.StateText.Text != "" {
			text += "_"
		}
		text += e.StateText.Text
	}
	if text == "" {
		return Initial, nil
	}
	return ParseStateText(text)
}

// ParseStateText reads the composite name that String writes. An unknown state, and "", is a *StateError.
func ParseStateText(text string) (State, error) {
	i, ok := stateIndexByText[text]
	if !ok {
		return Initial, &StateError{Text: text}
	}
	return stateNumbers[i].State, nil
}
