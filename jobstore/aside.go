package jobstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/stream"
)

// A broker gets acknowledgements in the order of arrival, so one message that cannot be decided keeps back those of all behind it. Such a message is kept
// aside: here, where any process decides it, while the broker goes on.

// Queues of messages that are kept aside, by who decides them.
const (
	AsideCommands  = "commands"  // receivers
	AsideEquipment = "equipment" // engines
)

// Aside is a message that is kept aside.
type Aside struct {
	Queue   string // AsideCommands or AsideEquipment
	Kind    string // which handler of the queue's processes decides it
	Message []byte // as it came; opaque here
}

// AsideHandler decides what is kept aside.
type AsideHandler interface {
	// DecideAside returns nil when the message is decided, and answered if that was asked for. After an error it is called again, by any process; after
	// MaxDeliveries errors that are its own (not ErrUndecided, nor those of a server that is away) the message is given up. When ctx ends, it was tried for too long.
	DecideAside(ctx context.Context, m Aside) error
	// LetterOf is what becomes a dead letter when the message is given up.
	LetterOf(m Aside) Message
}

var (
	// ErrAsideFull: too much is kept aside already.
	ErrAsideFull = errors.New("jobstore: 64 MiB of messages that cannot be decided are kept aside")
	// ErrUndecided marks an error of DecideAside that says nothing about the message.
	ErrUndecided = errors.New("jobstore: not decided")

	errAsideTime = errors.New("jobstore: no decision in time")
)

const (
	maxAside   = 64 << 20 // bytes of one queue
	asideSlots = 8
	groupAside = "intake-aside"
)

//go:embed aside.lua
var asideLua string

//go:embed asidedone.lua
var asideDoneLua string

var (
	asideScript     = script.New("jobstore/aside", asideLua)
	asideDoneScript = script.New("jobstore/asidedone", asideDoneLua)
)

// KeepAside keeps m until a process has decided it. ErrAsideFull, or Redis does not serve: nothing is kept, as far as is known; kept twice, it is decided twice, and
// known by its id.
func (s *Store) KeepAside(ctx context.Context, m Aside) error {
	keys := []string{s.keys.IntakeAside(m.Queue), s.keys.IntakeAsideBytes()}
	reply, err := asideScript.Run(ctx, s.rdb, keys, m.Queue, strconv.Itoa(maxAside), m.Kind, string(m.Message)).AsStrSlice()
	switch {
	case err != nil:
		return s.alarm.Note(fmt.Errorf("jobstore: keep aside: %w", err))
	case !slices.Equal(reply, []string{"ok"}):
		return ErrAsideFull
	}
	if s.opt.Observe != nil {
		s.opt.Observe("intake", "aside", 1)
	}
	return nil
}

// AsideRoom says whether KeepAside would keep a message now: nil, or why not.
func (s *Store) AsideRoom(ctx context.Context, queue string) error {
	var entries, bytes int64
	var l loader
	l.add(s.rdb.B().Xlen().Key(s.keys.IntakeAside(queue)).Build(), func(r rueidis.RedisResult) (err error) {
		entries, err = r.AsInt64()
		return err
	})
	l.add(s.rdb.B().Hget().Key(s.keys.IntakeAsideBytes()).Field(queue).Build(), func(r rueidis.RedisResult) (err error) {
		if bytes, err = r.AsInt64(); rueidis.IsRedisNil(err) {
			return nil
		}
		return err
	})
	if err := l.run(ctx, s.rdb); err != nil {
		return err
	}
	if entries > 0 && bytes > maxAside/2 {
		return ErrAsideFull
	}
	return nil
}

// RunAside decides what is kept aside in queues, which must not be empty, until ctx ends. It returns nil once all it held is settled or handed back.
func (s *Store) RunAside(ctx context.Context, queues []string, h AsideHandler) error {
	g := &stream.Group{Name: groupAside, Slots: asideSlots, Ready: -1}
	for _, queue := range queues {
		g.Streams = append(g.Streams, s.keys.IntakeAside(queue))
	}
	message := func(e *stream.Entry) Aside {
		return Aside{Queue: queues[slices.Index(g.Streams, e.Stream)], Kind: e.Fields["kind"], Message: []byte(e.Fields["message"])}
	}
	g.Handle = func(ctx context.Context, e *stream.Entry) (stream.Result, error) {
		err := within(ctx, s.opt.AsideTime, func(ctx context.Context) error { return h.DecideAside(ctx, message(e)) })
		if err != nil && ctx.Err() == nil && s.Ping(ctx) != nil { // not the fault of the message
			err = fmt.Errorf("%w: %w", ErrUndecided, err)
		}
		return stream.Ack, err
	}
	g.Transient = func(err error) bool {
		return errors.Is(err, ErrUndecided) || Waits(err) || Unknown(err) || errors.Is(err, ErrConflict)
	}
	g.Doom = func(e *stream.Entry, cause error) { e.Effect = cause }
	g.Finish = func(ctx context.Context, b stream.Batch) error {
		args := []string{b.Token, b.Group, queues[slices.Index(g.Streams, b.Stream)]}
		for _, e := range b.Entries {
			if cause, doomed := e.Effect.(error); doomed {
				m := h.LetterOf(message(e))
				if err := s.buryMessage(ctx, m, cause, int(e.Deliveries)+e.Failures); err != nil {
					return err
				}
				s.log.Error("message moved to the dead letters: it cannot be decided", "kind", m.Kind, "type", m.Event.Type, "source", m.Event.Source, "id", m.Event.ID,
					"dead_letters", s.keys.IntakeDead(), "error", cause)
				e.Effect = nil
			}
			args = append(args, e.ID)
		}
		reply, err := asideDoneScript.Run(ctx, s.rdb, []string{b.Heartbeat, b.Stream, s.keys.IntakeAsideBytes()}, args...).AsStrSlice()
		if err == nil && !slices.Equal(reply, []string{"ok"}) {
			return stream.ErrLost
		}
		return err
	}
	return s.run(ctx, g)
}

// within calls do, and leaves it alone when it takes longer than limit and does not end with its context.
func within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errAsideTime)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("jobstore: panic: %v", p)
			}
		}()
		done <- do(ctx)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select { // a moment for what ends with its context
		case err = <-done:
		case <-time.After(time.Second):
			err = ctx.Err()
		}
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
