package jobstore

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/clock"
	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/isa95"
)

//go:embed due.lua
var dueLua string

var due = script.New("jobstore/due", dueLua)

const (
	// intakeBreak is how long no process that takes answers may look for timers before that counts as a break, in which installation
	// time stands still.
	intakeBreak = clock.Lead
	// slowTrip is a round trip to Redis during which a process does not count as taking answers: it cannot commit them in time.
	slowTrip = time.Second
	// clockSlack is how far the clock of Redis may be ahead of the caller's before that counts as a step.
	clockSlack = 250 * time.Millisecond
)

// Due returns at most limit job orders whose recipe has a timer that is due by installation time. Each is handed to one
// caller, and to another if no commit has set its next timer after hold.
//
// It also carries installation time on, so it is to be called often, a few times a second, by the process that takes the answers of
// equipment: intake says whether the caller can do so now. With false, and with a Redis so slow that answers cannot be committed in
// time, nothing is due and installation time is left to others.
func (s *Store) Due(ctx context.Context, limit int, hold time.Duration, intake bool) ([]isa95.JobOrderID, error) {
	s.dueMu.Lock()
	before, trip := s.dueAt, s.dueTrip
	s.dueMu.Unlock()
	sent := time.Now()
	most := ""
	if !before.sent.IsZero() {
		most = strconv.FormatInt(before.installation.Add(sent.Sub(before.sent)+clockSlack).UnixMilli(), 10)
	}
	counts := "0"
	if intake && trip <= slowTrip {
		counts = "1"
	}
	reply, err := s.tick(ctx, limit, hold, counts, most)
	s.dueMu.Lock()
	defer s.dueMu.Unlock()
	s.dueTrip = time.Since(sent)
	if err != nil {
		s.dueTrip = max(s.dueTrip, 2*slowTrip) // what was on its way may come back as slowly
		return nil, fmt.Errorf("jobstore: due timers: %w", s.alarm.Note(err))
	}
	s.dueAt = moment{sent: sent, installation: reply.installation}
	return reply.due, nil
}

// moment is what Due learned at sent, by the process' monotonic clock.
type moment struct{ sent, installation time.Time }

// tick is one call of due.lua.
func (s *Store) tick(ctx context.Context, limit int, hold time.Duration, counts, most string) (tick, error) {
	sent := time.Now()
	reply, err := due.Run(ctx, s.rdb, []string{s.keys.SfcTimers(), s.keys.SfcClock()}, strconv.Itoa(limit), strconv.FormatInt(hold.Milliseconds(), 10),
		counts, strconv.FormatInt(intakeBreak.Milliseconds(), 10), most).AsStrSlice()
	if err != nil {
		return tick{}, err
	}
	var ms [3]int64
	for i := range ms {
		if len(reply) < len(ms) {
			return tick{}, fmt.Errorf("script replied %q", reply)
		}
		if ms[i], err = strconv.ParseInt(reply[i], 10, 64); err != nil {
			return tick{}, fmt.Errorf("time %q: %w", reply[i], err)
		}
	}
	t := tick{installation: time.UnixMilli(ms[1]), due: make([]isa95.JobOrderID, len(reply)-len(ms))}
	var resumed time.Time
	if ms[2] != 0 {
		resumed = time.UnixMilli(ms[2])
	}
	received := time.Now()
	s.wall.Learn(time.UnixMilli(ms[0]), sent, received)
	s.installation.Learn(t.installation, resumed, received)
	for i, id := range reply[len(ms):] {
		t.due[i] = isa95.JobOrderID(id)
	}
	return t, nil
}

type tick struct {
	installation time.Time
	due          []isa95.JobOrderID
}

// InstallationTime is the time by which recipes are decided: due times, step.t and the repetition of commands. It is the clock
// of Redis less its steps and less the time in which no process could take answers of equipment. It never steps back within a process.
// It is not a date: what people read is Now.
func (s *Store) InstallationTime() time.Time { return s.installation.Now(time.Now()) }

// Resumed is since when, in installation time, answers can be taken without a break; zero: there was no break yet.
func (s *Store) Resumed() time.Time { return s.installation.Resumed() }

// SyncInstallationTime asks Redis for installation time if this process has not heard of it for a second: one that does not call Due.
func (s *Store) SyncInstallationTime(ctx context.Context) error {
	if age, known := s.installation.Age(time.Now()); known && age < time.Second {
		return nil
	}
	if _, err := s.tick(ctx, 0, 0, "0", ""); err != nil {
		return fmt.Errorf("jobstore: read installation time: %w", s.alarm.Note(err))
	}
	return nil
}

// clockOffset is how far the clock of Redis is ahead of installation time.
func (s *Store) clockOffset(ctx context.Context) (time.Duration, error) {
	ms, err := s.rdb.Do(ctx, s.rdb.B().Hget().Key(s.keys.SfcClock()).Field("offset").Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return 0, fmt.Errorf("jobstore: %s: %w", s.keys.SfcClock(), err)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// PutOff lets the timer of a job order be due after d, if it has one: what is due cannot be done for now.
func (s *Store) PutOff(ctx context.Context, id isa95.JobOrderID, d time.Duration) error {
	at := float64(s.InstallationTime().Add(d).UnixMilli())
	err := s.rdb.Do(ctx, s.rdb.B().Zadd().Key(s.keys.SfcTimers()).Xx().ScoreMember().ScoreMember(at, string(id)).Build()).Error()
	if err != nil {
		return fmt.Errorf("jobstore: put off the timer of %s: %w", id, err)
	}
	return nil
}

// DropTimer removes the timer of a job order that needs none, for example because its execution document is gone.
func (s *Store) DropTimer(ctx context.Context, id isa95.JobOrderID) error {
	err := s.rdb.Do(ctx, s.rdb.B().Zrem().Key(s.keys.SfcTimers()).Member(string(id)).Build()).Error()
	if err != nil {
		return fmt.Errorf("jobstore: drop timer of %s: %w", id, err)
	}
	return nil
}
