package stream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	ackBatch   = 256              // ids of one script
	ackLinger  = time.Millisecond // how long the first of a batch waits for others, when the batch before was of ackBusy or more
	ackBusy    = 8
	ackFlights = 4 // scripts in flight
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
	last := 0
	for {
		first, ok := <-a.in
		if !ok {
			return
		}
		batch := append(make([]*Entry, 0, max(16, last)), first)
		batch = a.more(batch)
		if free <- struct{}{}; last >= ackBusy { // others come soon, and fewer scripts are cheaper
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
		}
		batch = a.more(batch)
		last = len(batch)
		flights.Go(func() {
			defer func() { <-free }()
			a.flush(batch)
		})
	}
}

// more adds what is there already.
func (a *acker) more(batch []*Entry) []*Entry {
	for len(batch) < ackBatch {
		select {
		case e, ok := <-a.in:
			if !ok {
				return batch
			}
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
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
	finish := a.s.g.Finish
	if finish == nil {
		finish = a.acknowledge
	}
	slices.SortFunc(entries, func(a, b *Entry) int { return compareIDs(a.ID, b.ID) })
	batch := Batch{Stream: e.Stream, Group: e.group, Consumer: a.s.g.Worker.id, Heartbeat: e.worker, Token: e.token, Entries: entries}
	var b backoff
	for {
		// Not the handlers' context: what they have done is settled even when the time to drain is over.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.s.ctx), callTimeout)
		_, err := guard(func() (Result, error) { return Ack, finish(ctx, batch) })
		cancel()
		if errors.Is(err, ErrLost) { // no longer ours to care for
			a.s.g.Worker.doubt()
			return
		}
		if err == nil {
			return
		}
		a.s.log.Warn("stream: acknowledgement failed, trying again", "stream", e.Stream, "entries", len(entries), "error", err)
		a.s.g.trouble(err)
		if !pause(b.next(), a.s.ctx) {
			return
		}
	}
}

// acknowledge is the Finish of a group that has none.
func (a *acker) acknowledge(ctx context.Context, b Batch) error {
	args := make([]string, 2, 2+len(b.Entries))
	args[0], args[1] = b.Token, b.Group
	for _, e := range b.Entries {
		args = append(args, e.ID)
	}
	ok, err := isOK(ackScript.Run(ctx, a.s.g.Worker.rdb, []string{b.Heartbeat, b.Stream}, args...))
	if err == nil && !ok {
		return ErrLost
	}
	return err
}
