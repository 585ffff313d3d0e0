package isa95

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestStateElements(t *testing.T) {
	for _, tc := range []struct {
		state State
		want  string
	}{
		{State{NotAllowedToStart, Ready}, "NotAllowedToStart 1, Ready 2"},
		{State{AllowedToStart, Loaded}, "AllowedToStart 2, Loaded 3"},
		{State{Running, ""}, "Running 3"},
		{State{Interrupted, Suspended}, "Interrupted 4, Suspended 2"},
		{State{Ended, Completed}, "Ended 5, Completed 1"},
		{State{Aborted, ""}, "Aborted 6"},
		{State{EndState, ""}, "EndState 7"},
		{Initial, ""},
		{State{InitialState, ""}, ""},
		{State{"Paused", ""}, ""},
	} {
		var got []string
		for _, e := range tc.state.Elements() {
			if e.StateText.Locale != "en" || e.BrowsePath != nil {
				t.Errorf("%v: element %+v", tc.state, e)
			}
			got = append(got, fmt.Sprintf("%s %d", e.StateText.Text, e.StateNumber))
		}
		if s := strings.Join(got, ", "); s != tc.want {
			t.Errorf("%v.Elements() = %s, want %s", tc.state, s, tc.want)
		}
	}
}

func TestParseStateReadsWhatElementsWrites(t *testing.T) {
	for _, s := range States() {
		got, err := ParseState(s.Elements())
		if err != nil || got != s {
			t.Errorf("ParseState(%v.Elements()) = %v, %v", s, got, err)
		}
		got, err = ParseStateText(s.String())
		if err != nil || got != s {
			t.Errorf("ParseStateText(%q) = %v, %v", s.String(), got, err)
		}
	}
}

func TestParseState(t *testing.T) {
	element := func(text string, number int) StateElement {
		return StateElement{StateText: LocalizedText{Text: text}, StateNumber: number}
	}
	for _, tc := range []struct {
		name     string
		elements []StateElement
		want     State
	}{
		{"none", nil, Initial},
		{"numbers only", []StateElement{element("", 5), element("", 1)}, Initial},
		{"one without text", []StateElement{element("", 5)}, Initial},
		{"numbers are ignored", []StateElement{element("Ended", 7), element("Completed", 51)}, State{Ended, Completed}},
		{"gaps", []StateElement{element("", 0), element("Ended", 5), element("", 0), element("Closed", 2)}, State{Ended, Closed}},
		{"gap of two", []StateElement{element("", 0), element("Running", 3)}, State{Running, ""}},
		{"composite in one", []StateElement{element("Ended_Completed", 0)}, State{Ended, Completed}},
		{"parent only", []StateElement{element("Ended", 5)}, State{Ended, ""}},
		{"pseudo state", []StateElement{element("InitialState", 0)}, Initial},
	} {
		got, err := ParseState(tc.elements)
		if err != nil || got != tc.want {
			t.Errorf("%s: ParseState = %v, %v, want %v", tc.name, got, err, tc.want)
		}
	}
}

// An unknown state text in a stored document stopped the whole process. Here it is an error value.
func TestUnknownStateTextIsAnErrorD1(t *testing.T) {
	for _, document := range []string{
		`{"State":[{"StateText":{"Text":"Exploded"},"StateNumber":9}]}`,
		`{"State":[{"StateText":{"Text":"Running"}},{"StateText":{"Text":"Ready"}}]}`,
		`{"State":[{"StateText":{"Text":"running"}}]}`,
		`{"State":[{"StateText":{"Text":"Ended"}},{"StateText":{"Text":"Completed"}},{"StateText":{"Text":"Twice"}}]}`,
	} {
		var order JobOrderAndState
		if err := Unmarshal([]byte(document), &order); err != nil {
			t.Fatal(err)
		}
		_, err := ParseState(order.State)
		var stateErr *StateError
		if !errors.As(err, &stateErr) || !strings.Contains(err.Error(), "Ended_Completed") {
			t.Errorf("ParseState of %s: %v, want a *StateError that lists the states", document, err)
		}
	}
	if _, err := ParseStateText(""); err == nil {
		t.Error(`ParseStateText("") has no error`)
	}
}

func TestStatePredicates(t *testing.T) {
	for _, s := range States() {
		if want := s.Top == "Ended" || s.Top == "Aborted"; s.Clearable() != want {
			t.Errorf("%v.Clearable() = %t", s, s.Clearable())
		}
		if _, ok := Next(s, Clear); ok != s.Clearable() {
			t.Errorf("%v: Clear allowed = %t, Clearable = %t", s, ok, s.Clearable())
		}
		if want := s.String() == "EndState"; s.IsEnd() != want {
			t.Errorf("%v.IsEnd() = %t", s, s.IsEnd())
		}
		if !s.Within(s) || !s.Within(State{Top: s.Top}) {
			t.Errorf("%v is not within itself or its parent", s)
		}
	}
	if (State{Ended, ""}).Within(State{Ended, Completed}) || (State{Ended, Closed}).Within(State{Ended, Completed}) ||
		(State{Running, ""}).Within(Initial) {
		t.Error("Within is too wide")
	}
}
