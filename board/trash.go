package board

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/taktworks/takt/board/driver"
)

// TrashList lists what was put aside, oldest first. TaskFlow cannot show it.
func (b *Board) TrashList(ctx context.Context) ([]Row, error) {
	rows, malformed, err := b.store.Trashed(ctx)
	if err != nil {
		return nil, fmt.Errorf("board: trash: %w", err)
	}
	b.report(malformed, nil)
	slices.SortFunc(rows, func(x, y Row) int {
		return cmp.Or(cmp.Compare(x.Sequence, y.Sequence), cmp.Compare(x.Ref, y.Ref))
	})
	return rows, nil
}

// Restore posts what was put aside again, under its UUID. ref is the Ref of TrashList, or the UUID. ErrNotFound; ErrExists if a posting has its place.
func (b *Board) Restore(ctx context.Context, ref string) error {
	return b.byRef(ctx, "restore", ref, b.store.Restore)
}

// Purge deletes a record from the trash for good. ErrNotFound: it is not there.
func (b *Board) Purge(ctx context.Context, ref string) error {
	return b.byRef(ctx, "purge", ref, b.store.Purge)
}

// Quarantine puts a record aside that is no posting and that nobody can claim. ref is that of Malformed. ErrNotFound if there is no such record; an *InvalidError if it is a posting.
func (b *Board) Quarantine(ctx context.Context, ref string) error {
	return b.byRef(ctx, "quarantine", ref, b.store.Quarantine)
}

func (b *Board) byRef(ctx context.Context, what, ref string, do func(context.Context, string) error) error {
	if ref == "" {
		return driver.Invalid("ref", `""`, "must not be empty")
	}
	if err := do(ctx, ref); err != nil {
		return fmt.Errorf("board: %s %s: %w", what, ref, err)
	}
	return nil
}
