package board

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/taktworks/takt/board/driver"
)

// Contents is what was on a board when it was read.
type Contents struct {
	Read      time.Time
	Records   int   // malformed ones among them
	Rows      []Row // in the order of List; none if there are more records than were asked for
	Trash     []Row // in the order of TrashList
	Malformed int
	Entities  []Entity // sorted by kind and name
}

// Contents reads all that is on a board, its trash and its entities. A board of more than most records is counted and not listed; 0 = it is listed, however many there are.
func (b *Board) Contents(ctx context.Context, most int) (*Contents, error) {
	c := &Contents{Read: time.Now().UTC()}
	var err error
	if c.Records, err = b.Count(ctx); err != nil {
		return nil, err
	}
	if most == 0 || c.Records <= most {
		if c.Rows, err = b.List(ctx, ListOptions{OnMalformed: func(Malformed) { c.Malformed++ }}); err != nil {
			return nil, err
		}
	}
	if c.Trash, err = b.TrashList(ctx); err != nil {
		return nil, err
	}
	if c.Entities, err = b.Entities(ctx, ""); err != nil {
		return nil, err
	}
	return c, nil
}

// Stats are counts over a board, for programs.
type Stats struct {
	Records    int            `json:"records"` // on the board; malformed ones among them
	Unclaimed  int            `json:"unclaimed"`
	Claimed    int            `json:"claimed"`
	Owners     int            `json:"owners"` // of claims
	Trashed    int            `json:"trashed"`
	Malformed  int            `json:"malformed"`
	Entities   int            `json:"entities"`                  // conductors and other entities
	Oldest     time.Time      `json:"oldest_unclaimed,omitzero"` // when it was posted
	Priorities map[string]int `json:"unclaimed_by_priority"`     // by Priority.String; those without any are left out
}

// Stats counts.
func (c *Contents) Stats() Stats {
	s := Stats{Records: c.Records, Trashed: len(c.Trash), Malformed: c.Malformed, Entities: len(c.Entities), Priorities: map[string]int{}}
	owners := make(map[string]bool)
	for i := range c.Rows {
		r := &c.Rows[i]
		if r.State == driver.Claimed {
			s.Claimed++
			owners[r.Owner] = true
			continue
		}
		s.Unclaimed++
		s.Priorities[r.Priority.String()]++
		if s.Oldest.IsZero() || r.CreatedOn.Before(s.Oldest) {
			s.Oldest = r.CreatedOn
		}
	}
	s.Owners = len(owners)
	return s
}

// View is a posting for programs. Numbers that JSON has not are texts in it: NaN, +Inf, -Inf.
type View struct {
	UUID         string     `json:"uuid"`
	Name         string     `json:"name"`
	Priority     Priority   `json:"priority"`
	State        State      `json:"state"`
	Owner        string     `json:"owner"`
	CreatedOn    *time.Time `json:"created_on"`    // nil: it is not known
	LastModified *time.Time `json:"last_modified"` // as in Row
	ExpiresIn    *int64     `json:"expires_in_ms,omitempty"`
	Sequence     int64      `json:"sequence"`
	Book         *Book      `json:"book"`
	Details      any        `json:"details,omitempty"`
	Extra        any        `json:"extra,omitempty"`
	Ref          string     `json:"ref"`
}

// ViewOf is a row for programs.
func ViewOf(r *Row) View {
	v := View{
		UUID: r.UUID, Name: r.Name, Priority: r.Priority, State: r.State, Owner: r.Owner, CreatedOn: known(r.CreatedOn), LastModified: known(r.LastModified),
		Sequence: r.Sequence, Book: r.Book, Details: map[string]any{}, Ref: r.Ref,
	}
	if len(r.Details) > 0 {
		v.Details = printable(r.Details)
	}
	if len(r.Extra) > 0 {
		v.Extra = printable(r.Extra)
	}
	if r.ExpiresIn > 0 {
		ms := r.ExpiresIn.Milliseconds()
		v.ExpiresIn = &ms
	}
	return v
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// printable replaces the numbers that JSON has not by their names.
func printable(v any) any {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = printable(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key := range v {
			out[key] = printable(v[key])
		}
		return out
	}
	return v
}
