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

var (
	due      = script.New("jobstore/due", dueLua)
	readTime = script.NewReader("jobstore/due", dueLua) // with NoIntake it writes nothing
)

//go:embed putoff.lua
var putOffLua string

var putOff = script.New("jobstore/putoff", putOffLua)

const (
	// intakeBreak is how long no process that takes answers may look for timers before that counts as a break, in which installation
	// time stands still.
	intakeBreak = clock.Lead
	// lateStops is how long installation time stands still after a process said LateIntake: some times as long as the pause between two looks.
	lateStops = time.Second
	// slowTrip is a round trip to Redis during which a process does not count as taking answers: it cannot commit them in time.
	slowTrip = time.Second
	// clockSlack is how far the clock of Redis may be ahead of the caller's before that counts as a step.
	clockSlack = 250 * time.Millisecond
)

// Intake says of a caller of Due whether it can take the answers of equipment.
type Intake string

const (
	NoIntake   Intake = "0"    // they cannot reach it, or it cannot commit them: its time does not count
	LateIntake Intake = "late" // it has answers that are not decided in time: for a second installation time stands still, for all processes
	FullIntake Intake = "1"
)

// Timer is the timer of a job order as Due handed it out.
type Timer struct {
	JobOrderID isa95.JobOrderID

	again int64 // due time in sfc:timers since then, in milliseconds of installation time
}

// Due returns at most limit timers of recipes that are due by installation time. Each is handed to one
// caller, and to another if no commit has set its next due time after hold.
//
// It also carries installation time on, so it is to be called often, a few times a second, by the process that takes the answers of
// equipment. A Redis so slow that answers cannot be committed in time makes any intake NoIntake. Nothing is due but with FullIntake.
func (s *Store) Due(ctx context.Context, limit int, hold time.Duration, intake Intake) ([]Timer, error) {
	s.dueMu.Lock()
	before, trip := s.dueAt, s.dueTrip
	s.dueMu.Unlock()
	sent := time.Now()
	most := ""
	if !before.sent.IsZero() {
		most = strconv.FormatInt(before.installation.Add(sent.Sub(before.sent)+clockSlack).UnixMilli(), 10)
	}
	if trip > slowTrip {
		intake = NoIntake
	}
	reply, err := s.tick(ctx, limit, hold, intake, most)
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
func (s *Store) tick(ctx context.Context, limit int, hold time.Duration, intake Intake, most string) (tick, error) {
	sent := time.Now()
	run := due
	if intake == NoIntake {
		run = readTime
	}
	reply, err := run.Run(ctx, s.rdb, []string{s.keys.SfcTimers(), s.keys.SfcClock()}, strconv.Itoa(limit), strconv.FormatInt(hold.Milliseconds(), 10),
		string(intake), strconv.FormatInt(intakeBreak.Milliseconds(), 10), most, strconv.FormatInt(lateStops.Milliseconds(), 10)).AsStrSlice()
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
	t := tick{installation: time.UnixMilli(ms[1]), due: make([]Timer, len(reply)-len(ms))}
	var resumed time.Time
	if ms[2] != 0 {
		resumed = time.UnixMilli(ms[2])
	}
	received := time.Now()
	s.wall.Learn(time.UnixMilli(ms[0]), sent, received)
	s.installation.Learn(t.installation, resumed, received)
	for i, id := range reply[len(ms):] {
		t.due[i] = Timer{JobOrderID: isa95.JobOrderID(id), again: ms[1] + hold.Milliseconds()}
	}
	return t, nil
}

type tick struct {
	installation time.Time
	due          []Timer
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
	if _, err := s.tick(ctx, 0, 0, NoIntake, ""); err != nil {
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

// PutOff lets a timer be due after d: what is due cannot be done for now. done is false, and nothing is changed, if its due time has been set anew since Due handed
// it out, or it was removed or handed out again.
func (s *Store) PutOff(ctx context.Context, t Timer, d time.Duration) (done bool, err error) {
	at := s.InstallationTime().Add(d).UnixMilli()
	done, err = putOff.Run(ctx, s.rdb, []string{s.keys.SfcTimers()}, string(t.JobOrderID), strconv.FormatInt(t.again, 10), strconv.FormatInt(at, 10)).AsBool()
	if err != nil {
		return false, fmt.Errorf("jobstore: put off the timer of %s: %w", t.JobOrderID, err)
	}
	return done, nil
}
