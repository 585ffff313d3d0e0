package board

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/taktworks/takt/board/driver"
)

// Limits of what is posted. TaskFlow has none; readers keep all postings of a board in memory.
const (
	MaxName    = 1024    // bytes
	MaxDetails = 1 << 20 // bytes of all texts, plus 9 for each other value
	MaxBatch   = 100_000 // postings in one PostBatch
)

// Draft is what is to be posted.
type Draft struct {
	Name     string // not empty
	Priority Priority
	Book     *Book // nil = none

	// Details is handed to whoever claims the posting. Values are nil, bool, integers, floats, text, []byte, time.Time, and slices and maps with text keys of these; arrive as int64 (or uint64
	// above it), float64, []any and map[string]any. Boards on ZooKeeper store JSON: no []byte, no NaN, and a time arrives as text. Conductors of TaskFlow look for "flow_uuid" and "store".
	Details map[string]any

	// UUID is the identity, lower-case and dashed; "" = a new one. What is posted again under the UUID of a posting that is still there is not posted twice. On ZooKeeper
	// that holds for calls one after the other: of those that post it at the same time, each may.
	UUID string
}

// Post posts d and returns the posting as it is stored. After an outage it tries again until ctx ends, and posts once all the same, except on ZooKeeper what was consumed before the repetition. An *InvalidError says what TaskFlow would
// not be able to read. One round trip on Redis.
func (b *Board) Post(ctx context.Context, d Draft) (*Posting, error) {
	all, err := b.PostBatch(ctx, []Draft{d})
	if len(all) == 0 {
		return nil, err
	}
	return all[0], err
}

// PostBatch posts drafts in their order, many in one round trip; on Redis up to 500 become visible at once, so that after an error the first of them may be posted and the others not. Posting the same again, with the
// UUIDs set, posts those that are missing. Errors name the draft by its index, and bad ones are found before anything is sent.
func (b *Board) PostBatch(ctx context.Context, drafts []Draft) ([]*Posting, error) {
	if len(drafts) > MaxBatch {
		return nil, driver.Invalid("drafts", fmt.Sprint(len(drafts), " drafts"), fmt.Sprintf("must be at most %d", MaxBatch))
	}
	all := make([]*Posting, len(drafts))
	seen := make(map[string]int, len(drafts))
	for i, d := range drafts {
		p, err := d.posting()
		if err == nil {
			if first, twice := seen[p.UUID]; twice {
				err = driver.Invalid("UUID", p.UUID, fmt.Sprintf("must be another than that of draft %d", first))
			}
			seen[p.UUID] = i
		}
		if err != nil && len(drafts) > 1 {
			err = fmt.Errorf("%w (draft %d)", err, i)
		}
		if err != nil {
			return nil, err
		}
		all[i] = p
	}
	if len(all) == 0 {
		return all, nil
	}
	call := uuid.NewString()
	chosen := slices.ContainsFunc(drafts, func(d Draft) bool { return d.UUID != "" })
	if err := repeat(ctx, func() error { return b.store.Post(ctx, call, all, chosen) }); err != nil {
		return nil, fmt.Errorf("board: post: %w", err)
	}
	return all, nil
}

// posting checks d and makes a posting of it that shares nothing with d.
func (d Draft) posting() (*Posting, error) {
	if err := text("Name", d.Name, MaxName); err != nil {
		return nil, err
	}
	if !d.Priority.Valid() {
		_, err := d.Priority.MarshalText()
		return nil, err
	}
	p := &Posting{UUID: d.UUID, Name: d.Name, Priority: d.Priority}
	if p.UUID == "" {
		p.UUID = uuid.NewString()
	} else if !validUUID(p.UUID) {
		return nil, driver.Invalid("UUID", fmt.Sprintf("%.64q", d.UUID), "must be 32 lower-case hexadecimal digits in groups of 8-4-4-4-12")
	}
	if d.Book != nil {
		if err := errors.Join(text("Book.Name", d.Book.Name, MaxName), text("Book.UUID", d.Book.UUID, MaxName)); err != nil {
			return nil, err
		}
		book := *d.Book
		p.Book = &book
	}
	var err error
	p.Details, err = driver.Details(d.Details, MaxDetails)
	return p, err
}

// text checks a text that is stored.
func text(field, value string, limit int) error {
	switch {
	case value == "":
		return driver.Invalid(field, `""`, "must not be empty")
	case !utf8.ValidString(value):
		return driver.Invalid(field, fmt.Sprintf("%.64q", value), "must be UTF-8")
	case len(value) > limit:
		return driver.Invalid(field, fmt.Sprintf("of %d bytes", len(value)), fmt.Sprintf("must be at most %d bytes", limit))
	}
	return nil
}

// validUUID says whether s is how a UUID is written on boards.
func validUUID(s string) bool {
	u, err := uuid.Parse(s)
	return err == nil && u.String() == s
}
