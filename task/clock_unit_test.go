package task

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/task/internal/wire"
)

// Whether the deadline of a requeued task is over is for the server's clock to say, however wrong ours is.
func TestRequeueJudgesDeadlinesByTheServer(t *testing.T) {
	srv := miniredis.RunT(t)
	rdb, err := redis.Connect(t.Context(), redis.Options{URL: "redis://" + srv.Addr(), Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	c, err := New(rdb, Options{Prefix: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	local := time.Now()
	for name, apart := range map[string]time.Duration{"our clock is late": 3 * time.Hour, "our clock is early": -3 * time.Hour} {
		server := local.Add(apart)
		srv.SetTime(server)
		for _, left := range []time.Duration{-time.Hour, time.Hour} {
			deadline := server.Add(left).UnixMilli()
			m := wire.Message{ID: "a", Name: "n", Meta: wire.Meta{Deadline: deadline}}
			raw, err := m.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
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
	raw, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	l := ReadDeadLetter("a", encodeLetter(letter{Readable: true, Message: raw}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.Resubmit(ctx, l); err == nil || errors.Is(err, ErrUnreadable) {
		t.Errorf("while the server is away: %v", err)
	}
}
