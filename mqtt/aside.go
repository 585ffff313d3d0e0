package mqtt

import (
	"context"
	"time"
)

// asideTimeout bounds one call of a Keeper.
const asideTimeout = 5 * time.Second

// watch sets messages of this server aside that hold up others, until ctx ends.
func (s *Server) watch(ctx context.Context) {
	look := time.NewTicker(max(s.o.AsideAfter/60, 10*time.Millisecond))
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		for i := range s.lanes {
			s.desert(&s.lanes[i], s.o.AsideAfter)
		}
		for s.unblock(ctx) {
		}
	}
}

// unblock sets the first message aside if it holds up others for too long. true: look at the next.
func (s *Server) unblock(ctx context.Context) bool {
	l, err := s.recv.current()
	if err != nil {
		return false
	}
	first := l.session.first()
	if first.delivery == nil {
		return false
	}
	next := false
	for _, t := range first.delivery.takers {
		if t.server != s || t.in.aside.Load() || !s.tooLong(first, t.lane.handling()) {
			continue
		}
		if !s.setAside(ctx, l, t, first) {
			return false
		}
		next = true
	}
	return next
}

// tooLong is the rule: no message waits without limit for another, which is being handled for so long.
func (s *Server) tooLong(h holdup, handling time.Duration) bool {
	quarter := max(int(s.recv.o.ReceiveMaximum)/4, 1)
	return h.behind > 0 && handling >= s.o.AsideAfter || h.done >= quarter && handling >= s.o.AsideAfter/12
}

// setAside gives a message to the Keeper and acknowledges it. If it cannot be kept, the connection is closed until it can: the broker has it, and all after it.
func (s *Server) setAside(ctx context.Context, l *link, t taker, h holdup) bool {
	call, cancel := context.WithTimeout(ctx, asideTimeout)
	defer cancel()
	if err := s.o.Aside.Keep(call, t.in.Message); err != nil {
		if ctx.Err() == nil {
			s.recv.rest(rest{link: l, why: err, until: func(ctx context.Context) error {
				call, cancel := context.WithTimeout(ctx, asideTimeout)
				defer cancel()
				return s.o.Aside.Room(call)
			}})
		}
		return false
	}
	s.stats.aside.Add(1)
	s.log.Warn("mqtt: a message that cannot be decided is kept aside, for others wait for it", "topic", s.recv.o.ShownTopic(t.in.Topic),
		"behind", h.behind, "done", h.done)
	s.leave(t.lane, t.in)
	t.in.delivery.release()
	_ = t.in.Ack()
	l.session.acknowledge()
	return true
}
