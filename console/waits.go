package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/taktworks/takt/jobstore"
)

// Kinds are the reasons that orders of a list can wait for.
func (*Orders) Kinds() []jobstore.WhyRow {
	return slices.DeleteFunc(jobstore.WhyReasons(), func(row jobstore.WhyRow) bool { return row.Tops == nil })
}

// reasonsLooked is how many orders a filter by reason looks at.
const reasonsLooked = 1000

// waiting are those of found that wait for a reason of a kind. Reasons are in no index, so the first reasonsLooked orders whose state allows the kind are looked at.
func (c *Console) waiting(ctx context.Context, o *Orders, found []Order, kind jobstore.WhyKind) ([]Order, error) {
	kinds := o.Kinds()
	i := slices.IndexFunc(kinds, func(row jobstore.WhyRow) bool { return row.Kind == kind })
	if i < 0 {
		return nil, &problem{http.StatusBadRequest, "No such reason", fmt.Sprintf("waits is %q: must be a kind of reason that orders of a list have; takt job list shows what they wait for", kind)}
	}
	found = slices.DeleteFunc(found, func(one Order) bool { return !slices.Contains(kinds[i].Tops, one.state.Top) })
	if kind == jobstore.WhyNotStarted { // the state says it
		return found, nil
	}
	if o.Unlooked = max(0, len(found)-reasonsLooked); o.Unlooked > 0 {
		found = found[:reasonsLooked]
	}
	store, err := c.needStore()
	if err != nil {
		return nil, err
	}
	unread, err := unreadable(c.reasons(ctx, store, found))
	if err != nil {
		return nil, away(err)
	}
	if unread != "" {
		o.note(errors.New(unread))
	}
	return slices.DeleteFunc(found, func(one Order) bool { return one.Reason != kind }), nil
}
