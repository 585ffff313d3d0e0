package jobstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
)

// Pace is how recipes keep up.
type Pace struct {
	At      time.Time     // when it was looked at, by the server's clock
	Recipes int64         // that run
	Late    time.Duration // how long the first time-out of a recipe is overdue, 0 = none is
}

// Pace reads it: four commands in one round trip.
func (s *Store) Pace(ctx context.Context) (p Pace, err error) {
	b, k := s.rdb.B(), s.keys
	var offset time.Duration
	var l loader
	l.add(b.Time().Build(), func(r rueidis.RedisResult) (err error) {
		p.At, err = redis.ReadTime(r)
		return err
	})
	l.add(b.Scard().Key(k.SfcActiveJobs()).Build(), number(&p.Recipes))
	l.add(b.Hget().Key(k.SfcClock()).Field("offset").Build(), func(r rueidis.RedisResult) (err error) {
		offset, err = offsetOf(r)
		return err
	})
	l.add(b.Zrange().Key(k.SfcTimers()).Min("0").Max("0").Withscores().Build(), func(r rueidis.RedisResult) error {
		first, err := r.AsZScores()
		if len(first) > 0 {
			p.Late = max(p.At.Add(-offset).Sub(time.UnixMilli(int64(first[0].Score))), 0)
		}
		return err
	})
	if err := l.run(ctx, s.rdb); err != nil {
		return Pace{}, fmt.Errorf("jobstore: pace: %w", s.alarm.Note(err))
	}
	return p, nil
}

// ChangesAfter returns the changes of all scopes after the entry with an id, "0" = from the oldest that is kept: at most n. One round trip, and it does not wait. missed says that entries between may be gone unread.
func (s *Store) ChangesAfter(ctx context.Context, after string, n int) (changes []ChangeEntry, missed bool, err error) {
	key := s.keys.ChangesAll()
	replies := s.rdb.DoMulti(ctx, s.rdb.B().Xread().Count(int64(n)).Streams().Key(key).Id(after).Build(),
		s.rdb.B().Xrange().Key(key).Start(after).End(after).Build()) // after the read: if it is still there, nothing behind it was trimmed before
	entries, err := replies[0].AsXRead()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	there, errThere := replies[1].AsXRange()
	if err = errors.Join(err, errThere); err != nil {
		return nil, false, fmt.Errorf("jobstore: changes after %s: %w", strconv.Quote(after), s.alarm.Note(err))
	}
	for _, e := range entries[key] {
		changes = append(changes, changeEntry(e))
	}
	return changes, len(there) == 0 && after != "0" && len(changes) > 0, nil
}

// Sample is an entry of the stream of samples.
type Sample struct {
	ID   string // of the entry: the server's time when it was written
	Data []byte
}

// Time is when the sample was written, by the server's clock.
func (s *Sample) Time() time.Time { return entryTime(s.ID).UTC() }

// KeptSamples is how many samples are kept: those of 24 hours, one a minute.
const KeptSamples = 1440

// AddSample appends a sample, and lets the oldest go.
func (s *Store) AddSample(ctx context.Context, data []byte) error {
	err := s.rdb.Do(ctx, s.rdb.B().Xadd().Key(s.keys.Samples()).Maxlen().Threshold(strconv.Itoa(KeptSamples)).Id("*").FieldValue().FieldValue("s", rueidis.BinaryString(data)).Build()).Error()
	if err != nil {
		return fmt.Errorf("jobstore: add a sample: %w", s.alarm.Note(err))
	}
	return nil
}

// Samples returns the samples after the one with an id, "0" = all, the oldest first. It waits up to wait for the first; 0 = not at all. One command.
func (s *Store) Samples(ctx context.Context, after string, wait time.Duration) ([]Sample, error) {
	key := s.keys.Samples()
	read := s.rdb.B().Xread().Count(2 * KeptSamples).Streams().Key(key).Id(after).Build()
	if wait > 0 {
		// No deadline, but an end: the client library does not heed the end of a context that has a deadline while it blocks.
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(wait+answerTimeout, cancel).Stop()
		read = s.rdb.B().Xread().Count(2 * KeptSamples).Block(wait.Milliseconds()).Streams().Key(key).Id(after).Build()
	}
	streams, err := redis.DoBlocking(ctx, s.rdb, read)[0].AsXRead()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, fmt.Errorf("jobstore: samples: %w", s.alarm.Note(err))
	}
	samples := make([]Sample, len(streams[key]))
	for i, e := range streams[key] {
		samples[i] = Sample{e.ID, []byte(e.FieldValues["s"])}
	}
	return samples, nil
}

// LastSample returns the newest sample, nil if there is none. One command.
func (s *Store) LastSample(ctx context.Context) (*Sample, error) {
	last, err := s.rdb.Do(ctx, s.rdb.B().Xrevrange().Key(s.keys.Samples()).End("+").Start("-").Count(1).Build()).AsXRange()
	if err != nil {
		return nil, fmt.Errorf("jobstore: last sample: %w", s.alarm.Note(err))
	}
	if len(last) == 0 {
		return nil, nil
	}
	return &Sample{last[0].ID, []byte(last[0].FieldValues["s"])}, nil
}
