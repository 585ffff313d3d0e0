package stream

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// line is the connection on which the reader blocks. It is the reader's alone, so that its end can be asked for by name.
type line struct {
	conn    rueidis.DedicatedClient
	release func()
	id      int64 // of CLIENT ID; 0 = the server does not say, reads then end by themselves
}

// block waits for new entries of open streams, for at most block. It ends earlier when the loop is to stop or the token is lost: the server is
// asked to end the wait, and what it had given before that is still read. So nothing is given to us unseen.
func (s *session) block(run context.Context, block time.Duration, count int, open []int) error {
	ctx, cancel := call(run, block)
	defer cancel()
	l, err := s.dial(ctx)
	if err != nil {
		return err
	}
	if l.id != 0 {
		for _, c := range []context.Context{run, s.epoch.ctx} {
			finished := make(chan struct{})
			stop := context.AfterFunc(c, func() { defer close(finished); s.unblock(l.id) })
			defer func() {
				if !stop() {
					<-finished
				}
			}()
		}
	}
	if run.Err() != nil || s.epoch.ctx.Err() != nil {
		return nil
	}
	b := s.g.Worker.rdb.B()
	ids, keys := make([]string, len(open)), make([]string, len(open))
	for i, stream := range open {
		ids[i], keys[i] = ">", s.g.Streams[stream]
	}
	reply, err := l.conn.Do(ctx, b.Xreadgroup().Group(s.g.Name, s.g.Worker.id).Count(int64(count)).Block(max(block.Milliseconds(), 1)).
		Streams().Key(keys...).Id(ids...).Build()).ToMessage()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	if err != nil {
		if _, ok := rueidis.IsRedisErr(err); !ok {
			s.hangUp() // the connection is broken
		}
		return err
	}
	return s.takeRead(reply)
}

// dial returns the reader's connection, a new one if there is none.
func (l *loop) dial(ctx context.Context) (*line, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.line != nil {
		return l.line, nil
	}
	rdb := l.g.Worker.rdb
	n := new(line)
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

// hangUp gives the reader's connection back.
func (l *loop) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.line != nil {
		l.line.release()
		l.line = nil
	}
}

// unblock ends a wait on the server; should the id belong to somebody else after a restart of the server, their wait ends early, which is no harm.
func (l *loop) unblock(id int64) {
	ctx, cancel := context.WithTimeout(context.Background(), longestBlock)
	defer cancel()
	rdb := l.g.Worker.rdb
	if err := rdb.Do(ctx, rdb.B().ClientUnblock().ClientId(id).Build()).Error(); err != nil {
		l.log.Debug("stream: the read ends by itself", "error", err)
	}
}
