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
	readTime = script.NewReader("jobstore/due", dueLua) // without intake it writes nothing
)

const (
	// intakeBreak is how long no process that takes answers may look for timers before that counts as a break, in which installation
	// time stands still.
	intakeBreak = clock.Lead
	// slowTrip is a round trip to Redis during which a process does not count as taking answers: it cannot commit them in time.
	slowTrip = time.Second
)

// Due returns at most limit job orders with a timer that is due by installation time. Each is handed to one
// caller, and to another if no commit has set its next due time after hold.
//
// It also carries installation time on, so it is to be called often, a few times a second, by the process that takes the answers of
// equipment. intake says whether it can: whether they reach it, and it can commit them. Without, and with a Redis so slow that answers cannot be committed in time, nothing is due
// and no time passes.
func (s *Store) Due(ctx context.Context, limit int, hold time.Duration, intake bool) ([]isa95.JobOrderID, error) {
	sent := time.Now()
	due, err := s.tick(ctx, limit, hold, intake && time.Duration(s.dueTrip.Load()) <= slowTrip)
	trip := time.Since(sent)
	if err != nil {
		trip = max(trip, 2*slowTrip) // what was on its way may come back as slowly
	}
	s.dueTrip.Store(int64(trip))
	if err != nil {
		return nil, fmt.Errorf("jobstore: due timers: %w", s.alarm.Note(err))
	}
	return due, nil
}

// tick is one call of due.lua.
func (s *Store) tick(ctx context.Context, limit int, hold time.Duration, intake bool) ([]isa95.JobOrderID, error) {
	run, takes := readTime, "0"
	if intake {
		run, takes = due, "1"
	}
	return s.ticked(run.Run(ctx, s.rdb, []string{s.keys.SfcTimers(), s.keys.SfcClock()}, strconv.Itoa(limit), strconv.FormatInt(hold.Milliseconds(), 10),
		takes, strconv.FormatInt(intakeBreak.Milliseconds(), 10)))
}

// addClock is a tick without intake, as one of the reads of l.
func (s *Store) addClock(ctx context.Context, l *loader) {
	arguments := []string{"0", "0", "0", strconv.FormatInt(intakeBreak.Milliseconds(), 10)}
	l.add(readTime.Call(s.rdb, []string{s.keys.SfcTimers(), s.keys.SfcClock()}, arguments), func(r rueidis.RedisResult) (err error) {
		if refused, ok := rueidis.IsRedisErr(r.Error()); ok && refused.IsNoScript() { // the server has restarted
			_, err = s.tick(ctx, 0, 0, false)
		} else {
			_, err = s.ticked(r)
		}
		return err
	})
}

// ticked learns from the reply of due.lua.
func (s *Store) ticked(r rueidis.RedisResult) ([]isa95.JobOrderID, error) {
	reply, err := r.AsStrSlice()
	if err != nil {
		return nil, err
	}
	var ms [3]int64
	for i := range ms {
		if len(reply) < len(ms) {
			return nil, fmt.Errorf("script replied %q", reply)
		}
		if ms[i], err = strconv.ParseInt(reply[i], 10, 64); err != nil {
			return nil, fmt.Errorf("time %q: %w", reply[i], err)
		}
	}
	var resumed time.Time
	if ms[2] != 0 {
		resumed = time.UnixMilli(ms[2])
	}
	received := time.Now()
	s.wall.Learn(time.UnixMilli(ms[0]), received)
	s.installation.Learn(time.UnixMilli(ms[1]), resumed, received)
	all := make([]isa95.JobOrderID, 0, len(reply)-len(ms))
	for _, id := range reply[len(ms):] {
		all = append(all, isa95.JobOrderID(id))
	}
	return all, nil
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
	if _, err := s.tick(ctx, 0, 0, false); err != nil {
		return fmt.Errorf("jobstore: read installation time: %w", s.alarm.Note(err))
	}
	return nil
}

// clockOffset is how far the clock of Redis is ahead of installation time.
func (s *Store) clockOffset(ctx context.Context) (time.Duration, error) {
	offset, err := offsetOf(s.rdb.Do(ctx, s.rdb.B().Hget().Key(s.keys.SfcClock()).Field("offset").Build()))
	if err != nil {
		return 0, fmt.Errorf("jobstore: %s: %w", s.keys.SfcClock(), err)
	}
	return offset, nil
}

func offsetOf(r rueidis.RedisResult) (time.Duration, error) {
	ms, err := r.AsInt64()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return time.Duration(ms) * time.Millisecond, err
}
