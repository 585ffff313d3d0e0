package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/internal/commit"
)

// aloneFrom is the start from which on an entry that was delivered before runs alone among its like: one of them may be killing
// the process, and the others must not be counted with it for ever.
const aloneFrom = 3

// callTimeout bounds one call to Redis, so that a connection that swallows replies shows.
const callTimeout = 5 * time.Second

// ErrDeliveries is the error of an entry that is dead because the processes that began it died, lost it or, where Group.Before counts that, kept it for too long, each time.
var ErrDeliveries = errors.New("stream: begun too often without an end: each time the process was killed, lost its heartbeat, or did not get done in time")

// ErrExited is the error of a handler that ended its goroutine instead of returning.
var ErrExited = errors.New("stream: the handler called runtime.Goexit, as the FailNow of a test does")

// PanicError is the error of a handler that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("stream: the handler panicked: %v", e.Value) }

// loop is what the sessions of one Run share.
type loop struct {
	g     *Group
	log   *slog.Logger
	work  context.Context // ends when the time to drain is over
	alone chan struct{}   // holds a token while a suspect runs

	now     atomic.Pointer[session] // the one that reads, nil = none did yet
	reading atomic.Pointer[pending] // the wait for new entries that is going on; nil = none is
	changes atomic.Uint64           // how often Changed has told of one
	poked   chan struct{}           // holds one when Free is to be asked again
	again   chan struct{}           // holds one when what was held is to be read again

	mu   sync.Mutex
	line *line // the reader's connection, see line.go
}

// wake lets the slots look again for what may begin.
func (l *loop) wake() {
	if s := l.now.Load(); s != nil {
		s.held.wake()
	}
	l.poke()
}

// session is the time of a group under one token.
type session struct {
	*loop
	epoch   *epoch
	held    *held
	pace    pace
	acks    *acker
	ctx     context.Context // of handlers: ends with the token, or when the time to drain is over
	end     context.CancelCauseFunc
	own     ref           // the next of the own pending entries to read; id "" = done
	resumed bool          // there was a session before this one
	grace   time.Duration // with Free: of those, the younger ones are left to Offer for now
	made    bool          // the groups exist
	mixed   bool          // several streams may have more than fits: a plain read would take as much of each, so that Order counted for nothing
	empty   bool          // the last wait for new entries was for all streams and ended with none: there is nothing to be read before the next
	sweep   time.Time
	woken   time.Time // when the slots were last told to look again for what may begin
}

func newSession(l *loop, e *epoch) *session {
	s := &session{loop: l, epoch: e, held: newHeld(l), own: fromStart, mixed: true}
	s.ctx, s.end = context.WithCancelCause(l.work)
	s.acks = newAcker(s)
	s.resumed = l.now.Swap(s) != nil
	return s
}

// serve handles entries until the intake is closed and all that was begun, or left to others, is settled or given up. run is the context of Run.
func (s *session) serve(run context.Context) {
	defer s.end(ErrLost)
	defer context.AfterFunc(s.epoch.ctx, func() { s.end(context.Cause(s.epoch.ctx)) })()
	context.AfterFunc(s.ctx, s.held.expire)
	var slots, acks sync.WaitGroup
	acks.Go(s.acks.run)
	for range s.g.slots() {
		slots.Go(func() { s.slot(run, &slots, nil) })
	}
	slots.Wait()
	close(s.acks.in)
	acks.Wait()
	s.held.awaitLeft()
}

// slot handles one entry after the other, first that one, if there is one, whose handler ended the goroutine of the slot before.
func (s *session) slot(run context.Context, slots *sync.WaitGroup, e *Entry) {
	ended := false
	defer func() {
		if !ended { // a panic is caught elsewhere: it was runtime.Goexit
			slots.Go(func() { s.slot(run, slots, e) })
		}
	}()
	switch {
	case e == nil:
	case s.g.Finish != nil && e.Effect != nil: // it left what is to become of it
		s.g.observe(Handled, 1)
		s.acks.in <- e
		s.held.handled()
		e = nil
	case !s.exited(run, e):
		s.held.letGo(e) // handed back
		s.held.handled()
		e = nil
	}
	if e == nil {
		e = s.held.next()
	}
	for ; e != nil; e = s.held.next() {
		begun := time.Now()
		s.handle(run, e)
		s.pace.took(time.Since(begun))
		s.held.handled()
	}
	ended = true
}

// exited counts a handler that ended its goroutine as a failure, with the pause after one; false if a context ended first.
func (s *session) exited(run context.Context, e *Entry) bool {
	if e.rejoin() {
		s.wake()
	}
	s.failed(e, ErrExited)
	return pause(firstPause, s.ctx, run)
}

// handle brings one entry to its end: settled, dead, or given up because it is no longer ours. A suspect may be put back, to be handled when it is its turn.
func (s *session) handle(run context.Context, e *Entry) {
	for {
		if !s.try(e) {
			return
		}
		if !pause(e.pauses.next(), s.ctx, run) {
			s.held.letGo(e) // handed back: it stays pending for this consumer
			return
		}
	}
}

// try handles an entry once. It returns true if that is to be done again after a pause.
func (s *session) try(e *Entry) (again bool) {
	if limit := s.g.maxDeliveries(); e.doom == nil && limit > 0 && e.starts() > int64(limit) {
		e.doom = ErrDeliveries
	}
	if e.doom != nil {
		return s.bury(e)
	}
	if e.suspect() { // before the start is counted: what waits for its turn has not begun
		if e.alone == nil && !e.secede(s.alone) { // tried before, and others have their turn now, for as long as they take
			s.held.putBack(e)
			return false
		}
		defer func() {
			if again && e.rejoin() {
				s.wake()
			}
		}()
	}
	if e.delivered && !s.begin(e) {
		return e.delivered && s.ctx.Err() == nil
	}
	if e.retried || e.Failures > 0 {
		s.held.reopen(e)
	}
	result, err := guard(func() (Result, error) { return s.g.Handle(s.ctx, e) })
	if s.g.Free != nil {
		s.held.counted(e)
	}
	switch {
	case err == nil && result == Later:
		s.later(e) // from here on e may be somebody else's
		return false
	case err == nil && result == Settled:
		s.g.observe(Handled, 1)
		s.held.letGo(e)
		return false
	case err == nil:
		s.g.observe(Handled, 1)
		s.acks.in <- e
		return false
	case s.ctx.Err() != nil: // not its fault
		s.held.letGo(e)
		return false
	case s.notOurs(e, err):
		s.held.letGo(e)
		return false
	case s.g.transient(err):
		return s.retry(e, err)
	}
	s.failed(e, err)
	return true
}

// notOurs reports a commit that conflicted on the worker's heartbeat: the entry has, or will have, another owner.
func (s *session) notOurs(e *Entry, err error) bool {
	var c *commit.ConflictError
	if !errors.As(err, &c) || c.Key != e.worker {
		return false
	}
	s.g.Worker.doubt()
	return true
}

// failed counts a failure, the last one dooms.
func (s *session) failed(e *Entry, err error) {
	e.Failures++
	s.g.observe(Failed, 1)
	s.log.Warn("stream: handler failed", "stream", e.Stream, "id", e.ID, "delivery", e.Deliveries, "failures", e.Failures, "error", err)
	if p, ok := errors.AsType[*PanicError](err); ok {
		s.log.Error("stream: handler panicked", "stream", e.Stream, "id", e.ID, "panic", p.Value, "stack", string(p.Stack))
	}
	limit := s.g.maxDeliveries()
	if limit > 0 && e.Deliveries-1+int64(e.Failures) >= int64(limit) || s.g.Hopeless != nil && s.g.Hopeless(err) {
		e.doom = err
	}
}

func (s *session) retry(e *Entry, err error) (again bool) {
	if s.ctx.Err() != nil {
		s.held.letGo(e)
		return false
	}
	s.g.observe(Retried, 1)
	level := slog.LevelDebug
	if !e.retried && (s.g.Expected == nil || !s.g.Expected(err)) {
		level = slog.LevelWarn
		e.retried = true
	}
	s.log.Log(s.ctx, level, "stream: entry waits to be tried again", "stream", e.Stream, "id", e.ID, "error", err)
	return true
}

// begin counts the start of an entry that was delivered before. false: it is not begun, since it is not ours any more and was let go, or
// since Redis is away; then it is still marked delivered.
func (s *session) begin(e *Entry) bool {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	w := s.g.Worker
	ok, err := isOK(beginScript.Run(ctx, w.rdb, []string{e.worker, e.Stream}, e.token, e.group, w.id, e.ID, strconv.FormatInt(e.Deliveries+1-e.before, 10)))
	if err != nil {
		s.retry(e, err)
		return false
	}
	e.delivered = false
	if !ok {
		s.g.Worker.doubt()
		s.held.letGo(e)
		return false
	}
	e.Deliveries++
	return true
}

// bury tells who waits for the entry and moves it to the dead letters.
func (s *session) bury(e *Entry) (again bool) {
	if s.g.Doom != nil {
		if _, err := guard(func() (Result, error) { s.g.Doom(e, e.doom); return Ack, nil }); err != nil {
			return s.retry(e, err)
		}
		s.g.observe(Dead, 1)
		s.acks.in <- e
		return false
	}
	var told error
	if s.g.Dead != nil {
		_, told = guard(func() (Result, error) { return Ack, s.g.Dead(s.ctx, e, e.doom) })
		if told != nil && (s.ctx.Err() != nil || s.g.transient(told)) {
			return s.retry(e, told)
		}
	}
	w := s.g.Worker
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	letters := w.keys.DeadLetter(e.Stream)
	args := append([]string{e.token, e.group, w.id, e.ID}, letter(e, told)...)
	ok, err := isOK(deadScript.Run(ctx, w.rdb, []string{e.worker, e.Stream, letters}, args...))
	if err != nil {
		return s.retry(e, err)
	}
	s.held.letGo(e)
	if ok {
		s.g.observe(Dead, 1)
		s.log.Error("stream: entry moved to the dead letters", "stream", e.Stream, "id", e.ID, "dead_letters", letters, "error", e.doom)
	} else {
		s.g.Worker.doubt()
	}
	return false
}

const maxErrorText = 2048 // bytes

// letter is a dead letter: why, what it was, and the entry's own fields as they were.
func letter(e *Entry, told error) []string {
	why := "failed"
	var p *PanicError
	switch {
	case errors.Is(e.doom, ErrDeliveries):
		why = "deliveries"
	case errors.As(e.doom, &p):
		why = "panic"
	}
	text := e.doom.Error()
	if told != nil {
		text += "; telling of it failed: " + told.Error()
	}
	if len(text) > maxErrorText {
		text = text[:maxErrorText]
	}
	fields := []string{
		"dead-reason", why, "dead-error", strings.ToValidUTF8(text, ""), "dead-stream", e.Stream, "dead-id", e.ID, "dead-group", e.group,
		"dead-deliveries", strconv.FormatInt(e.Deliveries, 10), "dead-failures", strconv.Itoa(e.Failures), "dead-at", time.Now().UTC().Format(time.RFC3339),
	}
	for name, value := range e.Fields {
		fields = append(fields, name, value)
	}
	return fields
}

// guard makes a panic an error (one bad entry must not end the process, nor be forgotten).
func guard(f func() (Result, error)) (result Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}
