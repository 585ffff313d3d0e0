package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/board/redisboard"
	"github.com/taktworks/takt/board/zkboard"
)

// What boards deal with; see package board/driver.
type (
	Posting   = driver.Posting
	Row       = driver.Row
	Priority  = driver.Priority
	State     = driver.State
	Book      = driver.Book
	Entity    = driver.Entity
	Malformed = driver.Malformed

	InvalidError  = driver.InvalidError
	ClaimedError  = driver.ClaimedError
	NotOwnerError = driver.NotOwnerError
)

// Priorities, high to low.
const (
	VeryHigh = driver.VeryHigh
	High     = driver.High
	Normal   = driver.Normal
	Low      = driver.Low
	VeryLow  = driver.VeryLow
)

// States of a posting.
const (
	Unclaimed = driver.Unclaimed
	Claimed   = driver.Claimed
	Complete  = driver.Complete
	Trashed   = driver.Trashed
)

// Errors that callers act on.
var (
	ErrNotFound    = driver.ErrNotFound
	ErrUnowned     = driver.ErrUnowned
	ErrExists      = driver.ErrExists
	ErrClaimLost   = driver.ErrClaimLost
	ErrClosed      = driver.ErrClosed
	ErrAway        = driver.ErrAway
	ErrUnsupported = driver.ErrUnsupported

	// ErrNothing: no posting is unclaimed.
	ErrNothing = errors.New("no posting is unclaimed")
)

// ParsePriority reads the text of a priority, in any case.
func ParsePriority(text string) (Priority, error) { return driver.ParsePriority(text) }

// Board is one board. It is safe for concurrent use. All boards of one namespace or path are the same board.
type Board struct {
	store driver.Store
	log   *slog.Logger
	line  line
	hub   *hub
}

// Connect says which board to open and how: see driver.Connect for its fields.
type Connect driver.Connect

// Open connects to the board that url names. See Connect for its forms.
func Open(ctx context.Context, url string) (*Board, error) { return Connect{URL: url}.Open(ctx) }

// Open connects, and blocks until that is done or ctx ends. The board is the caller's to close. Errors: *InvalidError for what can never work, else what is wrong with the server
// and what to do.
func (c Connect) Open(ctx context.Context) (*Board, error) {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	scheme, _, _ := strings.Cut(c.URL, "://")
	var store driver.Store
	var err error
	switch scheme = strings.ToLower(scheme); {
	case strings.HasPrefix(scheme, "redis"), strings.HasPrefix(scheme, "valkey"), scheme == "unix":
		store, err = redisboard.Open(ctx, driver.Connect(c))
	case scheme == "zookeeper":
		store, err = zkboard.Open(ctx, driver.Connect(c))
	default:
		return nil, driver.Invalid("URL", fmt.Sprintf("with scheme %q", scheme), "must begin with redis://, rediss://, redis+sentinel://, unix:// or zookeeper://")
	}
	if err != nil {
		return nil, err
	}
	return New(store, c.Log), nil
}

// New makes a board of a store, for kinds of boards that Open does not know. The board closes the store. A nil log is told nothing.
func New(store driver.Store, log *slog.Logger) *Board {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	b := &Board{store: store, log: log}
	b.hub = newHub(b)
	return b
}

// Close ends the connection. Claims that are still held are not kept alive any more, and their contexts end.
func (b *Board) Close() error {
	b.hub.close()
	return b.store.Close()
}

// Check lists what is inconsistent in the records of the board, each in words that name the record and what to do; nothing is changed. It reads everything.
func (b *Board) Check(ctx context.Context) ([]string, error) { return b.store.Check(ctx) }
