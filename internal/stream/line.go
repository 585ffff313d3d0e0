package stream

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// line is the connection on which the reader blocks. It is the reader's alone, so that its end can be asked for by name.
type line struct {
	conn    rueidis.DedicatedClient
	release func()
	id      int64  // of CLIENT ID; 0 = the server does not say, reads then end by themselves
	at      string // the master when it was made
}

// errReplaced says that another server is the master now. What the one before gives out is of a stream that is not ours any more, and the ids of its entries may be
// those of others there.
var errReplaced = errors.New("stream: the server is not the master any more")

// pending is one wait for new entries.
type pending struct{ line int64 }

// block waits for new entries of open streams, for at most block, unless something has changed since changes were counted. It ends earlier when something
// changes, the loop is to stop or the token is lost: the server is asked to end the wait, and what it had given before that is still read. So nothing is given to us unseen.
func (s *session) block(run context.Context, block time.Duration, count int, open []int, changes uint64) error {
	ctx, cancel := call(run, block)
	defer cancel()
	l, err := s.dial(ctx)
	if err != nil {
		return err
	}
	if l.id != 0 {
		waiting, returned := context.WithCancel(context.Background())
		for _, c := range []context.Context{run, s.epoch.ctx} {
			finished := make(chan struct{})
			stop := context.AfterFunc(c, func() { defer close(finished); s.endWait(waiting, l.id) })
			defer func() {
				if !stop() {
					<-finished
				}
			}()
		}
		defer returned()
	}
	s.reading.Store(&pending{l.id})
	defer s.reading.Store(nil)
	if run.Err() != nil || s.epoch.ctx.Err() != nil || s.changes.Load() != changes || s.held.again.Load() {
		return nil
	}
	b := s.g.Worker.rdb.B()
	ids, keys := make([]string, len(open)), make([]string, len(open))
	for i, stream := range open {
		ids[i], keys[i] = ">", s.g.Streams[stream]
	}
	reply, err := l.conn.Do(ctx, b.Xreadgroup().Group(s.g.Name, s.g.Worker.id).Count(int64(count)).Block(max(block.Milliseconds(), 1)).
		Streams().Key(keys...).Id(ids...).Build()).ToMessage()
	if l.at != s.master() {
		s.hangUp()
		return errReplaced
	}
	none := rueidis.IsRedisNil(err)
	s.empty = none && len(open) == len(s.g.Streams)
	if none {
		return nil
	}
	if err != nil {
		s.hangUp() // the connection is broken, or its server not the right one
		return err
	}
	return s.takeRead(reply, count)
}

// dial returns the reader's connection, a new one if there is none.
func (l *loop) dial(ctx context.Context) (*line, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.line != nil {
		return l.line, nil
	}
	rdb := l.g.Worker.rdb
	n := &line{at: l.master()}
	n.conn, n.release = rdb.Dedicate()
	if rdb.Mode() != rueidis.ClientModeCluster { // there, a connection without a key has no node
		id, err := n.conn.Do(ctx, rdb.B().ClientId().Build()).AsInt64()
		if _, ok := rueidis.IsRedisErr(err); err != nil && !ok {
			n.release()
			return nil, err
		}
		n.id = id
	}
	l.line = n
	return n, nil
}

// master is the server that Sentinel names, "" without Sentinel: a connection to another one breaks or answers MOVED, but an old master may live on.
func (l *loop) master() string {
	if l.g.Worker.rdb.Mode() == rueidis.ClientModeSentinel {
		for addr := range l.g.Worker.rdb.Nodes() {
			return addr
		}
	}
	return ""
}

// hangUp gives the reader's connection back.
func (l *loop) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.line != nil {
		l.line.release()
		l.line = nil
	}
}

const interruptPause = 5 * time.Millisecond // before a wait that had not reached the server yet is interrupted again

// interrupt ends the wait that is going on, if there is one, so that the next one is for the streams that are open now.
func (l *loop) interrupt(ctx context.Context) {
	w := l.reading.Load()
	if w == nil || w.line == 0 {
		return
	}
	for l.reading.Load() == w && !l.unblock(w.line) {
		if !pause(interruptPause, ctx) {
			return
		}
	}
}

// endWait ends the wait that is going on, or has been sent and not reached the server yet, until ctx ends with it.
func (l *loop) endWait(ctx context.Context, id int64) {
	for ctx.Err() == nil && !l.unblock(id) {
		pause(interruptPause, ctx)
	}
}

// unblock ends a wait on the server; false if nobody waited there. Should the id belong to somebody else after a restart of the server, their wait ends
// early, which is no harm.
func (l *loop) unblock(id int64) bool {
	ctx, cancel := context.WithTimeout(context.Background(), longestBlock)
	defer cancel()
	rdb := l.g.Worker.rdb
	n, err := rdb.Do(ctx, rdb.B().ClientUnblock().ClientId(id).Build()).AsInt64()
	if err != nil {
		l.log.Debug("stream: the read ends by itself", "error", err)
	}
	return n > 0
}
