package stream

import (
	"context"
	"sync"
	"time"
)

const (
	ackBatch   = 256              // ids of one script
	ackLinger  = time.Millisecond // how long the first of a batch waits for others
	ackFlights = 4                // scripts in flight
)

// acker settles handled entries in batches.
type acker struct {
	s  *session
	in chan *Entry // closed when nothing more comes
}

func newAcker(s *session) *acker {
	return &acker{s: s, in: make(chan *Entry, ackBatch)}
}

// run collects batches and sends them off until in is closed and everything is settled or given up.
func (a *acker) run() {
	var flights sync.WaitGroup
	defer flights.Wait()
	free := make(chan struct{}, ackFlights)
	timer := time.NewTimer(ackLinger)
	defer timer.Stop()
	for {
		first, ok := <-a.in
		if !ok {
			return
		}
		batch := append(make([]*Entry, 0, 16), first)
		timer.Reset(ackLinger)
	collect:
		for len(batch) < ackBatch {
			select {
			case e, ok := <-a.in:
				if !ok {
					break collect
				}
				batch = append(batch, e)
			case <-timer.C:
				break collect
			}
		}
		free <- struct{}{}
		flights.Go(func() {
			defer func() { <-free }()
			a.flush(batch)
		})
	}
}

// flush settles a batch, stream by stream.
func (a *acker) flush(batch []*Entry) {
	if len(a.s.g.Streams) == 1 {
		a.settle(batch)
		return
	}
	byStream := make([][]*Entry, len(a.s.g.Streams))
	for _, e := range batch {
		byStream[e.stream] = append(byStream[e.stream], e)
	}
	for _, entries := range byStream {
		if len(entries) > 0 {
			a.settle(entries)
		}
	}
}

// settle acknowledges and deletes entries of one stream. It repeats until Redis answers, which is harmless, or until they are
// no longer ours; what is not settled then will be handled again.
func (a *acker) settle(entries []*Entry) {
	defer a.s.held.letGo(entries...)
	e := entries[0]
	args := make([]string, 2, 2+len(entries))
	args[0], args[1] = e.token, e.group
	for _, e := range entries {
		args = append(args, e.ID)
	}
	var b backoff
	for {
		// Not the handlers' context: what they have done is settled even when the time to drain is over.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.s.ctx), callTimeout)
		reply, err := ackScript.Run(ctx, a.s.g.Worker.rdb, []string{e.worker, e.Stream}, args...).AsStrSlice()
		cancel()
		if err == nil { // settled, or lost: in both cases no longer ours to care for
			if len(reply) != 1 || reply[0] != "ok" {
				a.s.g.Worker.doubt()
			}
			return
		}
		a.s.log.Warn("stream: acknowledgement failed, trying again", "stream", e.Stream, "entries", len(entries), "error", err)
		if !pause(b.next(), a.s.ctx) {
			return
		}
	}
}
