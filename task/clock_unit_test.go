package task

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/task/internal/wire"
)

// Whether the deadline of a requeued task is over is for the server's clock to say, however wrong ours is.
func TestRequeueJudgesDeadlinesByTheServer(t *testing.T) {
	srv := miniredis.RunT(t)
	rdb := must(redis.Connect(t.Context(), redis.Options{URL: "redis://" + srv.Addr(), Embedded: true}))
	defer rdb.Close()
	c := must(New(rdb, Options{Prefix: "t"}))
	defer c.Close()
	local := time.Now()
	for name, apart := range map[string]time.Duration{"our clock is late": 3 * time.Hour, "our clock is early": -3 * time.Hour} {
		server := local.Add(apart)
		srv.SetTime(server)
		for _, left := range []time.Duration{-time.Hour, time.Hour} {
			deadline := server.Add(left).UnixMilli()
			m := wire.Message{ID: "a", Name: "n", Meta: wire.Meta{Deadline: deadline}}
			raw := must(m.Append(nil))
			l := ReadDeadLetter("a", encodeLetter(letter{Died: server, Readable: true, Message: raw}))
			_, got, err := c.newLife(t.Context(), &l)
			want := deadline
			if left < 0 {
				want = 0
			}
			if err != nil || got.Meta.Deadline != want {
				t.Errorf("%s, deadline in %v: it has the deadline %d, want %d (%v)", name, left, got.Meta.Deadline, want, err)
			}
		}
	}
	srv.Close()
	m := wire.Message{ID: "a", Name: "n", Meta: wire.Meta{Deadline: 1}}
	raw := must(m.Append(nil))
	l := ReadDeadLetter("a", encodeLetter(letter{Readable: true, Message: raw}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.Resubmit(ctx, l); err == nil || errors.Is(err, ErrUnreadable) {
		t.Errorf("while the server is away: %v", err)
	}
}

// However long questions and answers travel, nothing is taken for due, or too late, before it is by the server's clock, nor later than after the time that the quickest answer took.
func TestServerClockIsNeverEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c serverClock
		ahead := time.Duration(rapid.IntRange(-1e7, 1e7).Draw(t, "ahead in µs")) * time.Microsecond
		now, quickest := noon, time.Hour // by our clock
		travel := func(name string) time.Duration {
			return time.Duration(rapid.SampledFrom([]int{0, 50, 1000, 700_000, 3_000_000}).Draw(t, name)) * time.Microsecond
		}
		for range rapid.IntRange(1, 10).Draw(t, "answers") {
			sent := now
			read := sent.Add(travel("question"))
			now = read.Add(travel("answer"))
			c.hear(sent, now, read.Add(ahead))
			quickest = min(quickest, now.Sub(read))
			if late := now.Add(ahead).Sub(c.at(now)); late < 0 || late > quickest {
				t.Fatalf("%v late, the quickest answer took %v", late, quickest)
			}
			now = now.Add(time.Second)
		}
	})
}

// A clock that is set, the server's or ours, is followed with the next answer.
func TestServerClockIsSet(t *testing.T) {
	var c serverClock
	for _, ahead := range []time.Duration{time.Minute, time.Hour, -time.Hour, 0} {
		c.hear(noon, noon.Add(2*time.Millisecond), noon.Add(ahead+time.Millisecond))
		if got := c.at(noon).Sub(noon); got != ahead-time.Millisecond {
			t.Errorf("%v ahead, want %v", got, ahead-time.Millisecond)
		}
	}
}
