package board

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/taktworks/takt/board/driver"
)

// ListOptions are those of List and Iterate. The zero value lists everything.
type ListOptions struct {
	OnlyUnclaimed bool
	Match         func(*Row) bool // nil = all

	// AsTaskFlow gives the order in which TaskFlow has it, which is no good one: on Redis the newest of each priority first, on ZooKeeper the lowest priority first.
	AsTaskFlow bool

	// LastModified fills in when each was claimed or abandoned last, which takes another round trip.
	LastModified bool

	// OnMalformed is told of records that are no postings. They are skipped, and written to the log either way.
	OnMalformed func(Malformed)
}

// List reads the whole board in one snapshot: postings with states and owners, higher priorities first, then older ones. On Redis that is one round trip.
func (b *Board) List(ctx context.Context, o ListOptions) ([]Row, error) {
	rows, malformed, err := b.store.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("board: list: %w", err)
	}
	b.report(malformed, o.OnMalformed)
	rows = slices.DeleteFunc(rows, func(r Row) bool {
		return o.OnlyUnclaimed && r.State != driver.Unclaimed || o.Match != nil && !o.Match(&r)
	})
	if o.LastModified {
		if err := b.store.Modified(ctx, rows); err != nil {
			return nil, fmt.Errorf("board: list: %w", err)
		}
	}
	less := func(a, b Row) int { return driver.Compare(a.Posting, b.Posting) }
	if o.AsTaskFlow {
		less = func(x, y Row) int { return b.store.Compare(x.Posting, y.Posting) }
	}
	slices.SortFunc(rows, less)
	return rows, nil
}

// Iterate is List, one by one.
func (b *Board) Iterate(ctx context.Context, o ListOptions) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		rows, err := b.List(ctx, o)
		if err != nil {
			yield(Row{}, err)
			return
		}
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// report tells of malformed records: the log once each.
func (b *Board) report(all []Malformed, tell func(Malformed)) {
	for _, m := range all {
		if _, told := b.hub.noted.LoadOrStore(m.Ref, true); !told {
			b.log.Warn("board: a record is no posting and is skipped; takt board trash --malformed puts it aside", "ref", m.Ref, "err", m.Err)
		}
		if tell != nil {
			tell(m)
		}
	}
}

// Find reads one posting by its Ref or UUID, with its state, owner and time of the last change; or one in the trash, with State Trashed. ErrNotFound if it is in neither. A record that is no posting is a Malformed as error. One round
// trip on Redis for postings of Takt and TaskFlow; else listings are searched.
func (b *Board) Find(ctx context.Context, id string) (Row, error) {
	r, err := b.find(ctx, id)
	if err != nil {
		return Row{}, fmt.Errorf("board: %.64q: %w", id, err)
	}
	return r, nil
}

func (b *Board) find(ctx context.Context, id string) (Row, error) {
	r, err := b.store.Find(ctx, id)
	if err != nil || r.Posting != nil {
		return r, err
	}
	for _, list := range []func(context.Context) ([]Row, []Malformed, error){b.store.List, b.store.Trashed} {
		rows, _, err := list(ctx)
		if err != nil {
			return Row{}, err
		}
		for _, r := range rows {
			switch {
			case r.UUID != id && r.Ref != id:
			case r.State == driver.Trashed:
				return r, nil
			default:
				return b.store.Find(ctx, r.Ref)
			}
		}
	}
	return Row{}, driver.ErrNotFound
}

// State asks for the state of a posting. Of one that is not there it is Complete: it was consumed, or never posted.
func (b *Board) State(ctx context.Context, p *Posting) (State, error) {
	r, err := b.store.Find(ctx, p.Ref)
	if err != nil {
		return 0, fmt.Errorf("board: state of %s: %w", p.Ref, err)
	}
	return r.State, nil
}

// FindOwner asks who has claimed a posting; ok is false if nobody has. The text may be that of a claim of TaskFlow, which is a plain name.
func (b *Board) FindOwner(ctx context.Context, p *Posting) (owner string, ok bool, err error) {
	r, err := b.store.Find(ctx, p.Ref)
	if err != nil {
		return "", false, fmt.Errorf("board: owner of %s: %w", p.Ref, err)
	}
	return r.Owner, r.Owner != "", nil
}

// Count is how many records are on the board, claimed and malformed ones among them.
func (b *Board) Count(ctx context.Context) (int, error) {
	n, err := b.store.Count(ctx)
	if err != nil {
		return 0, fmt.Errorf("board: count: %w", err)
	}
	return n, nil
}

// At reads one posting by its Ref, as Find does, but searches no listing: ErrNotFound if the board has none of that name. One round trip.
func (b *Board) At(ctx context.Context, ref string) (Row, error) {
	r, err := b.store.Find(ctx, ref)
	if err == nil && r.Posting == nil {
		err = ErrNotFound
	}
	if err != nil {
		return Row{}, fmt.Errorf("board: %.64q: %w", ref, err)
	}
	return r, nil
}
