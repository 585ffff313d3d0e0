package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/station"
)

// Fault is something that goes wrong at one action.
type Fault struct {
	Action string // of the recipe
	// Attempt is which of its commands in an order it befalls, counted over the rounds of a loop as the attempts of an equipment.yaml are; of an action that waits for an
	// event which event of its type. 0 = every one.
	Attempt int

	station.Disturbance
}

// ParseFault reads ACTION or ACTION:N.
func ParseFault(text string, d station.Disturbance) (Fault, error) {
	action, n, numbered := strings.Cut(text, ":")
	attempt, err := 0, error(nil)
	if numbered {
		attempt, err = strconv.Atoi(n)
	}
	if action == "" || err != nil || numbered && attempt < 1 {
		return Fault{}, fmt.Errorf("%q must be an action, or an action with the number of an attempt from 1, such as press:2", text)
	}
	return Fault{action, attempt, d}, nil
}

// Check says what keeps f from happening in r, nil if nothing does.
func (f *Fault) Check(r *recipe.Recipe) error {
	i := slices.IndexFunc(r.Actions, func(a recipe.Action) bool { return a.Name == f.Action })
	switch {
	case i < 0:
		var names []string
		for _, a := range r.Actions {
			names = append(names, a.Name)
		}
		return fmt.Errorf("the recipe has no action %q; it has %s", f.Action, strings.Join(names, ", "))
	case f.Refuse != "" && r.Actions[i].Interaction == recipe.InteractionPull:
		return fmt.Errorf("action %s waits for an event, and an event cannot be refused; it can be late or not come at all", f.Action)
	}
	return nil
}

// disturbance is what goes wrong with a command.
func (s *simulation) disturbance(c recipe.Command) (d station.Disturbance) {
	for _, f := range s.o.Faults {
		if f.Action == c.Action && c.Cancels == "" && (f.Attempt == 0 || f.Attempt == c.Attempt) {
			d = d.With(f.Disturbance)
		}
	}
	return d
}

// disturbanceOf is what goes wrong with an event: which one of its type for its order it is counts.
func (s *simulation) disturbanceOf(typeID string, ev recipe.PullEvent) (d station.Disturbance) {
	kind := typeID + "\x00" + ev.CorrelationID
	nth := slices.Index(s.disturbed[kind], ev.ID) + 1
	if nth == 0 {
		s.disturbed[kind] = append(s.disturbed[kind], ev.ID)
		nth = len(s.disturbed[kind])
	}
	for _, a := range s.o.Program.Recipe().Actions {
		for _, f := range s.o.Faults {
			if a.Interaction == recipe.InteractionPull && a.TypeID == typeID && f.Action == a.Name && (f.Attempt == 0 || f.Attempt == nth) {
				d = d.With(f.Disturbance)
			}
		}
	}
	return d
}
