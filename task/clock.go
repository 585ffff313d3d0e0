package task

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
)

// serverClock is how far the server's clock is before ours. By it nothing is due, nor too late, before it is by the server's clock: an answer that was slow makes it late by
// that at most, until the next one. Any number of goroutines may use it; the zero value takes the two clocks for one.
type serverClock struct {
	mu    sync.Mutex
	known bool
	ahead atomic.Int64 // ns
}

// hear learns from a TIME that was sent and whose answer was received at these times of our clock. The server read its clock in between: that gives the least and the most by which
// it may be ahead. The least is sure, and the greatest of all is the best of them, as long as no clock was set.
func (s *serverClock) hear(sent, received, server time.Time) {
	least, most := int64(server.Sub(received.Round(0))), int64(server.Sub(sent.Round(0)))
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.ahead.Load(); s.known && before <= most {
		least = max(least, before)
	}
	s.known = true
	s.ahead.Store(least)
}

// at is a time of ours by the server's clock.
func (s *serverClock) at(t time.Time) time.Time {
	return t.Add(time.Duration(s.ahead.Load())).Round(0)
}

// now is the server's time, by what is known of it.
func (s *serverClock) now() time.Time { return s.at(time.Now()) }

// setClock learns from the reply to a TIME that was sent at sent.
func (c *Client) setClock(sent time.Time, reply rueidis.RedisResult) error {
	received := time.Now()
	server, err := redis.ReadTime(reply)
	if err == nil {
		c.clock.hear(sent, received, server)
	}
	return err
}

// serverTime is when the run was begun, by the server's clock: deadlines and waiting times are judged by that, for ours may be wrong.
func (r *run) serverTime() time.Time { return r.worker.client.clock.at(r.begun) }
