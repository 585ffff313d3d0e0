package jobstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// WorkItem is one entry of the work stream. It is settled by the Change that names it, or, if there is nothing
// to change, when Work returns nil.
type WorkItem struct {
	ID         string // of the entry: unique, and the same when the item is handed out again
	Action     string // WorkStart or WorkResume
	JobOrderID isa95.JobOrderID
	Scope      isa95.Scope
	Deliveries int64 // how often it was handed out, this time included

	entry   *stream.Entry
	settled bool
}

// WorkHandler does the work of the work stream.
type WorkHandler interface {
	// Work handles one item. An error makes it be handed out again; after MaxDeliveries it is given up.
	Work(ctx context.Context, item *WorkItem) error
	// GiveUp is called before an item goes to the dead letters, so that its job order ends too.
	GiveUp(ctx context.Context, item *WorkItem, cause error) error
	// Lost is told that items that were handed out are gone from the stream: somebody trimmed or deleted it.
	Lost(items int)
}

// ErrUnusable marks an entry that can never be handled, whatever is tried: it goes to the dead letters at once.
var ErrUnusable = errors.New("jobstore: entry is not usable")

const (
	groupSFC    = "sfc-engine"
	groupOutbox = "sfc-outbox"
	groupEvents = "event-publisher"
)

// RunWork hands the work stream to h, up to slots items at once, until ctx ends. What a dead process
// held is handed out again here. It returns nil once all it held is settled or handed back.
func (s *Store) RunWork(ctx context.Context, slots int, h WorkHandler) error {
	item := func(e *stream.Entry) *WorkItem {
		return &WorkItem{
			ID: e.ID, Action: e.Fields["action"], Deliveries: e.Deliveries, entry: e,
			JobOrderID: isa95.JobOrderID(e.Fields["job_id"]), Scope: isa95.Scope(e.Fields["scope"]),
		}
	}
	return s.run(ctx, &stream.Group{
		Streams: []string{s.keys.SfcWork()}, Name: groupSFC, Slots: slots,
		Handle: func(ctx context.Context, e *stream.Entry) (stream.Result, error) {
			w := item(e)
			if w.JobOrderID == "" || w.Action == "" {
				return stream.Ack, fmt.Errorf("%w: no job_id or no action", ErrUnusable)
			}
			if err := h.Work(ctx, w); err != nil {
				return stream.Ack, s.suspected(ctx, e, err)
			}
			if w.settled {
				return stream.Settled, nil
			}
			return stream.Ack, nil
		},
		Dead: func(ctx context.Context, e *stream.Entry, cause error) error {
			if w := item(e); w.JobOrderID != "" {
				return h.GiveUp(ctx, w, cause)
			}
			return nil
		},
		Lost: func(_ context.Context, _ string, ids []string) { h.Lost(len(ids)) },
		Transient: func(err error) bool {
			return !errors.Is(err, ErrUnusable) && (Waits(err) || Unknown(err) || errors.Is(err, ErrConflict))
		},
		Expected: func(err error) bool { return errors.Is(err, ErrConflict) },
	})
}

// RunOutbox hands the equipment commands of the outbox to send, up to slots at once. An entry leaves the outbox when
// send returns nil; any error but ErrUnusable makes it be tried again. While open says false none is begun: others send them. nil = it
// always is; open must not block.
func (s *Store) RunOutbox(ctx context.Context, slots int, open func() bool, send func(context.Context, recipe.Command) error) error {
	var closed func(int) bool
	if open != nil {
		closed = func(int) bool { return !open() }
	}
	return s.run(ctx, &stream.Group{
		Streams: []string{s.keys.SfcOutbox()}, Name: groupOutbox, Slots: slots, Closed: closed,
		Handle: func(ctx context.Context, e *stream.Entry) (stream.Result, error) {
			command, err := decodeCommand([]byte(e.Fields["command"]))
			if err != nil {
				return stream.Ack, fmt.Errorf("%w: %w", ErrUnusable, err)
			}
			switch there, err := s.entryReplicated(ctx, e); {
			case err != nil:
				return stream.Ack, err
			case !there:
				s.log.Warn("an equipment command is not sent: it left Redis before replicas had it", "job", command.JobID, "id", command.ID)
				return stream.Ack, nil
			}
			return stream.Ack, s.suspected(ctx, e, send(ctx, command))
		},
		Transient: func(err error) bool { return !errors.Is(err, ErrUnusable) },
	})
}

// decodeCommand reads a command of the outbox. Parameters with what equipment answered may be beyond the limits of isa95, which is the faster reader.
func decodeCommand(text []byte) (c recipe.Command, err error) {
	if isa95.Unmarshal(text, &c) == nil {
		return c, nil
	}
	c = recipe.Command{}
	err = json.Unmarshal(text, &c)
	return c, err
}

// suspected makes err ErrUnusable if no repetition of the entry can mend it: Redis has answered it with the same unknown error
// for Options.Patience, while others were handled.
func (s *Store) suspected(ctx context.Context, e *stream.Entry, err error) error {
	if !Unknown(err) {
		return err
	}
	if _, guilty := s.suspects.failed(e.Stream+"\x00"+e.ID, time.Now(), s.commits.Load(), false); !guilty || s.Ping(ctx) != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnusable, err)
}

func (s *Store) run(ctx context.Context, g *stream.Group) error {
	g.Hopeless = func(err error) bool { return errors.Is(err, ErrUnusable) }
	g.Worker, g.MaxDeliveries, g.Log = s.worker, s.opt.MaxDeliveries, s.log
	g.Trouble = func(err error) { _ = s.alarm.Note(err) }
	if s.opt.Observe != nil {
		g.Observe = func(o stream.Outcome, n int) { s.opt.Observe(g.Name, string(o), n) }
	}
	return g.Run(ctx)
}
