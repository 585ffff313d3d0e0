package board

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/taktworks/takt/board/driver"
)

// Wait blocks until there is a posting, claimed or not, as board.wait of TaskFlow does: a loop around it spins while everything is claimed, see WaitUnclaimed.
// It returns the cause of ctx when that ends, and waits on while the server is away.
func (b *Board) Wait(ctx context.Context) error {
	return b.hub.await(ctx, true, func(s *snapshot) bool { return len(s.rows) > 0 })
}

// WaitUnclaimed blocks until there is a posting that can be claimed: one is posted or abandoned, or a claim expires. Nothing polls for that: boards are told, and claims that run out are looked at when they do. All who wait
// share one listing, read at most every 20 ms.
func (b *Board) WaitUnclaimed(ctx context.Context) error {
	return b.waitUnclaimed(ctx, func(*Posting) bool { return false })
}

func (b *Board) waitUnclaimed(ctx context.Context, skip func(*Posting) bool) error {
	return b.hub.await(ctx, false, func(s *snapshot) bool {
		for i := range s.rows {
			if s.rows[i].State == driver.Unclaimed && !skip(s.rows[i].Posting) {
				return true
			}
		}
		return false
	})
}

// WaitFor blocks until p is Complete or Trashed, and returns which. It is told at once, however long it waited.
func (b *Board) WaitFor(ctx context.Context, p *Posting) (State, error) {
	err := b.hub.await(ctx, true, func(s *snapshot) bool {
		return !slices.ContainsFunc(s.rows, func(r Row) bool { return r.Ref == p.Ref })
	})
	if err != nil {
		return 0, err
	}
	var state State
	err = repeat(ctx, func() (err error) {
		state, err = b.State(ctx, p)
		return err
	})
	return state, err
}

// EventKind says what happened to a posting.
type EventKind string

// Kinds of events.
const (
	EventPosted   EventKind = "posted"
	EventClaimed  EventKind = "claimed"
	EventReleased EventKind = "released" // abandoned, expired, or its owner's session ended
	EventRemoved  EventKind = "removed"  // consumed or trashed
)

// Event is something that happened to a posting. Row is as it is after that, of removed ones as it was before.
type Event struct {
	Kind EventKind
	Row  Row
}

// Watch yields what happens on the board until ctx ends, the loop is left, or the board cannot be read for another reason than an outage: then the last pair has the error. It begins with an event for
// each posting that is there. Events are the differences of listings, so what happens and is undone between two of them is not seen; a posting that another owner has than before is released and claimed.
func (b *Board) Watch(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		known := map[string]Row{}
		err := b.hub.await(ctx, true, func(s *snapshot) bool {
			for _, e := range differences(known, s.rows) {
				if !yield(e, nil) {
					return true
				}
			}
			return false
		})
		if err != nil && ctx.Err() == nil {
			yield(Event{}, err)
		}
	}
}

// differences is what must have happened between known and now, and makes known what now is.
func differences(known map[string]Row, now []Row) (events []Event) {
	there := make(map[string]bool, len(now))
	for _, r := range now {
		there[r.Ref] = true
		before, old := known[r.Ref]
		known[r.Ref] = r
		if !old {
			events = append(events, Event{EventPosted, r})
		}
		if before.Owner != "" && before.Owner != r.Owner {
			events = append(events, Event{EventReleased, r})
		}
		if r.Owner != "" && before.Owner != r.Owner {
			events = append(events, Event{EventClaimed, r})
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(known)) {
		if !there[ref] {
			events = append(events, Event{EventRemoved, known[ref]})
			delete(known, ref)
		}
	}
	return events
}
