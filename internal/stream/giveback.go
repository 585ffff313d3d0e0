package stream

import (
	"context"
	"strconv"
	"strings"
	"time"
)

const (
	hoarded   = 100 * time.Millisecond // after that what was fetched to be begun soon is given back, when handlers turn out to take long
	lookAgain = hoarded / 2            // at what waits, while nothing is to be read
	backMark  = ":back"                // after the worker's name: the consumer that has what it gave back; it never has a heartbeat
)

// GivenBack says whether a consumer is no worker, but has what one gave back: that waits for any worker with room.
func GivenBack(consumer string) bool { return strings.HasSuffix(consumer, backMark) }

// giveBack gives entries that waited for too long to whoever has a slot for them, this worker included. They have not begun, and are not counted as if they had.
func (s *session) giveBack(run context.Context, entries []*Entry) error {
	s.held.letGo(entries...) // if the script fails they are pending for us, and found again
	s.sweep = time.Now()     // they come before what is new
	for stream := range s.g.Streams {
		if err := s.giveBackOf(run, stream, entries); err != nil {
			return err
		}
	}
	s.log.Debug("stream: entries given back that were fetched too early", "entries", len(entries))
	return nil
}

// handBack gives back, at the stop, all that was never begun: what runs may go on for long.
func (s *session) handBack(run context.Context) {
	unbegun := s.held.rest()
	if len(unbegun) == 0 {
		return
	}
	if err := s.giveBack(run, unbegun); err != nil {
		s.log.Warn("stream: entries that were never begun go to others only when the heartbeat has ended", "entries", len(unbegun), "error", err)
	}
}

func (s *session) giveBackOf(run context.Context, stream int, entries []*Entry) error {
	w := s.g.Worker
	args := []string{s.epoch.token, s.g.Name, w.id, w.id + backMark}
	for _, e := range entries {
		if e.stream == stream {
			args = append(args, e.ID, strconv.FormatInt(e.starts()-1-e.before, 10))
		}
	}
	if len(args) == 4 {
		return nil
	}
	ctx, cancel := call(run, 0)
	defer cancel()
	ok, err := isOK(giveBackScript.Run(ctx, w.rdb, []string{s.epoch.key, s.g.Streams[stream]}, args...))
	if err == nil && !ok {
		return errStale
	}
	return err
}
