package jobstore

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/isa95"
)

// Message is something to be handled that may turn out to be poison: what equipment or an MES sent, or a timer.
type Message struct {
	Kind       string           // "answer", "event", "command" or KindProgram
	Event      cloudevent.Event // as it came; empty for a timer
	JobOrderID isa95.JobOrderID // of a timer
}

// KindProgram is the kind of an event that a program handles. Such events may hold up all others of their program, so one that fails is given up after ten times Options.Patience although none was
// handled meanwhile.
const KindProgram = "program"

func (m Message) key() string {
	return m.Kind + "\x00" + m.Event.Source + "\x00" + m.Event.ID + "\x00" + m.Event.CausationID + "\x00" + string(m.JobOrderID)
}

// Failed judges the error with which handling m failed. It returns nil when m has been given up: it is now a dead letter,
// with its text, and is to be acknowledged. Otherwise it returns an error, and m is to be handled again later:
//   - err says nothing about m (Waits, ErrConflict, the context of the caller ended);
//   - err is not known to last, and m has not failed ten times over Options.Patience yet, or Redis does not serve others either;
//   - the dead letter could not be written.
//
// A wrong type of a key and a document that cannot be read last: m is given up at once.
func (s *Store) Failed(ctx context.Context, m Message, err error) error {
	var short *ReplicasError
	if err == nil || errors.As(err, &short) || Waits(err) || errors.Is(err, ErrConflict) || ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	tries, guilty := s.suspects.failed(m.key(), time.Now(), s.commits.Load(), m.Kind == KindProgram)
	final := Final(err)
	if !final && (!guilty || s.Ping(ctx) != nil) {
		return err
	}
	if !s.suspects.buried(m.key()) {
		switch buryErr := s.buryMessage(ctx, m, err, tries); {
		case buryErr == nil:
			s.log.Error("message moved to the dead letters: it cannot be handled", "kind", m.Kind, "type", m.Event.Type, "source", m.Event.Source,
				"id", m.Event.ID, "job", string(m.JobOrderID), "tries", tries, "dead_letters", s.keys.IntakeDead(), "error", err)
		case Final(buryErr): // something else writes that key: nothing is left to keep the message in
			s.log.Error("message is lost: it cannot be handled, and its dead letter cannot be written", "kind", m.Kind, "type", m.Event.Type,
				"source", m.Event.Source, "id", m.Event.ID, "job", string(m.JobOrderID), "error", errors.Join(err, buryErr))
		default:
			return s.alarm.Note(buryErr)
		}
		s.suspects.bury(m.key())
		if s.opt.Observe != nil {
			s.opt.Observe("intake", "dead", 1)
		}
	}
	return nil
}

// Final says whether err lasts, whatever is tried: a key of another type, or a document that cannot be read.
func Final(err error) bool {
	var document *DocumentError
	var typ *commit.TypeError
	return errors.As(err, &document) || errors.As(err, &typ) || redis.WrongType(err)
}

// Unknown says whether err is a reply of Redis that is neither its own trouble (Waits) nor known to last (Final).
func Unknown(err error) bool { return redis.Unknown(err) && !Final(err) }

const (
	poisonTries = 10   // failures before a message is given up
	maxSuspects = 4096 // messages whose failures are remembered
	// forgetAfter is how long a message that does not come again is remembered.
	forgetAfter = 15 * time.Minute
)

// suspects are the messages that failed for unknown reasons.
type suspects struct {
	patience time.Duration
	tries    int // failures before a message is given up
	mu       sync.Mutex
	m        map[string]*suspect
}

type suspect struct {
	since, last time.Time
	tries       int
	commits     int64 // of this process when it failed first
	buried      bool
}

// failed counts a failure at now. guilty: it failed often enough, for long enough, while others were committed, or, of a program, for ten times as long.
func (s *suspects) failed(key string, now time.Time, commits int64, program bool) (tries int, guilty bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.m[key]
	if x == nil || now.Sub(x.last) > forgetAfter {
		if s.m == nil {
			s.m = make(map[string]*suspect)
		}
		if len(s.m) >= maxSuspects {
			s.forget(now)
		}
		x = &suspect{since: now, commits: commits}
		s.m[key] = x
	}
	x.tries, x.last = x.tries+1, now
	took := now.Sub(x.since)
	return x.tries, x.tries >= s.tries && (took >= s.patience && commits > x.commits || program && took >= 10*s.patience)
}

// forget makes room: those that did not come again lately, else all; they begin anew.
func (s *suspects) forget(now time.Time) {
	for key, x := range s.m {
		if now.Sub(x.last) > forgetAfter {
			delete(s.m, key)
		}
	}
	if len(s.m) >= maxSuspects {
		clear(s.m)
	}
}

func (s *suspects) buried(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[key] != nil && s.m[key].buried
}

func (s *suspects) bury(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.m[key]; x != nil {
		x.buried = true
	}
}

// The bounds of the dead letters of the intake.
const (
	maxIntakeLetters = 256
	maxIntakeBytes   = 16 << 20
	maxLetterText    = 3 << 19 // of one message: what the broker may send of an order, and its envelope; beyond it is cut
)

// letterBounds are bounds of dead letters.
type letterBounds struct{ number, bytes int }

//go:embed intakedead.lua
var intakeDeadLua string

var intakeDead = script.New("jobstore/intakedead", intakeDeadLua)

// buryMessage appends a dead letter of m. The oldest make room.
func (s *Store) buryMessage(ctx context.Context, m Message, cause error, tries int) error {
	reason := "failed"
	if Final(cause) {
		reason = "final"
	}
	text, err := m.Event.MarshalJSON()
	if err != nil {
		text = m.Event.Data
	}
	fields := []string{
		"dead-reason", reason, "dead-error", clip(cause.Error(), 2048), "dead-at", time.Now().UTC().Format(time.RFC3339), "dead-tries", strconv.Itoa(tries),
		"kind", m.Kind, "topic", m.Event.Delivery.Topic, "type", m.Event.Type, "source", m.Event.Source, "id", m.Event.ID, "subject", m.Event.Subject,
		"job_id", string(m.JobOrderID), "bytes", strconv.Itoa(len(text)), "event", clip(string(text), maxLetterText),
	}
	args := append([]string{strconv.Itoa(s.letters.number), strconv.Itoa(s.letters.bytes)}, fields...)
	return intakeDead.Run(ctx, s.rdb, []string{s.keys.IntakeDead()}, args...).Error()
}

func clip(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
