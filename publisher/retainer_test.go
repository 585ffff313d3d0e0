package publisher_test

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/publisher"
)

// gate is a retainer that a test can hold up and listen in on.
type gate struct {
	*mqtt.Conn

	mu       sync.Mutex
	before   func(ctx context.Context, topic string)              // called before each publish; nil: nothing
	fail     func(topic string, payload []byte) error             // instead of publishing; nil: nothing
	asked    func(filters []string) ([]mqtt.Message, bool, error) // instead of asking the broker; false: ask it
	inFlight int
	most     int // most in flight at once
}

// through makes instances publish through g.
func (g *gate) through(s *setup) {
	s.retainer = func(c *mqtt.Conn) publisher.Retainer {
		g.Conn = c
		return g
	}
}

// set changes what the gate does.
func (g *gate) set(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// refuse lets the broker refuse with err what is published on topics with that ending; nil: nothing any more.
func (g *gate) refuse(ending string, err error) {
	g.set(func() {
		g.fail = func(topic string, _ []byte) error {
			if strings.HasSuffix(topic, ending) {
				return err
			}
			return nil
		}
	})
}

func (g *gate) Retain(ctx context.Context, topic string, payload []byte, expiry time.Duration, user ...mqtt.UserProperty) error {
	g.mu.Lock()
	before, fail := g.before, g.fail
	g.inFlight++
	g.most = max(g.most, g.inFlight)
	g.mu.Unlock()
	defer g.set(func() { g.inFlight-- })
	if before != nil {
		before(ctx, topic)
		if ctx.Err() != nil { // as if the pause had come an instant earlier; what is on its way already is TestAudit's
			return ctx.Err()
		}
	}
	if fail != nil {
		if err := fail(topic, payload); err != nil {
			return err
		}
	}
	return g.Conn.Retain(ctx, topic, payload, expiry, user...)
}

func (g *gate) EachRetained(ctx context.Context, take func(mqtt.Message), filters ...string) error {
	g.mu.Lock()
	asked := g.asked
	g.mu.Unlock()
	if asked != nil {
		if messages, done, err := asked(filters); done {
			for _, m := range messages {
				take(m)
			}
			return err
		}
	}
	return g.Conn.EachRetained(ctx, take, filters...)
}
