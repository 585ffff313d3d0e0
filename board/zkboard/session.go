package zkboard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/lease"
	"github.com/taktworks/takt/internal/lifecycle"
)

const sessionAgain = time.Second // after names of servers that cannot be resolved

// session is one session with the servers, with the client on which it lives. It begins once and ends once: the client would go on with another session by itself, and carry out in it what was asked in this one.
type session struct {
	s      *Store
	conn   *zk.Conn
	gone   <-chan zk.Event // closed when the client has ended
	ctx    context.Context // ends with the session: claims are lost
	cancel context.CancelFunc
	trust  *lease.Lease // what is left of its time

	known   atomic.Bool  // the server knows the user
	refused atomic.Int32 // dials in a row

	mu      sync.Mutex
	id      int64
	timeout time.Duration // as the server granted it
	dialed  time.Time     // when the connection was made, before anything was sent on it
	down    chan struct{} // closed when the connection breaks; nil = there is none
	wire    net.Conn      // the connection
}

// run keeps a session until the store is closed.
func (s *Store) run() {
	for s.ctx.Err() == nil {
		x, err := s.newSession()
		if err != nil {
			s.setRefused(err)
			lifecycle.Sleep(s.ctx, sessionAgain)
			continue
		}
		s.turn(func() { s.current = x })
		// The server counts the time of the session from the last request that it got.
		if err := x.trust.Keep(x.ctx, x.look); err != nil {
			x.end(err)
		}
		s.turn(func() { s.current = nil })
		x.close()
	}
}

// turn changes something about the session and tells all who wait for that.
func (s *Store) turn(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.turned)
	s.turned = make(chan struct{})
}

func (s *Store) newSession() (*session, error) {
	x := &session{s: s, timeout: s.session, trust: lease.New(time.Now(), s.session)}
	x.ctx, x.cancel = context.WithCancel(s.ctx)
	hosts := zk.NewDNSHostProvider()
	var err error
	ready := make(chan struct{}) // x.conn is set
	x.conn, x.gone, err = zk.Connect(s.hosts, s.session, zk.WithHostProvider(hosts), zk.WithLogger(log.New(io.Discard, "", 0)), zk.WithLogInfo(false),
		zk.WithDialer(func(network, addr string, timeout time.Duration) (net.Conn, error) {
			return x.dial(hosts.Len(), network, addr, timeout)
		}),
		zk.WithEventCallback(func(e zk.Event) { <-ready; x.event(e) }))
	close(ready)
	return x, err
}

// event is told by the client, which waits.
func (x *session) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	switch e.State {
	case zk.StateHasSession:
		if x.s.auth == "" || x.known.Load() { // the client repeats it by itself
			x.up()
			return
		}
		x.s.wait.Go(func() {
			if err := x.conn.AddAuth("digest", []byte(x.s.auth)); err != nil {
				x.drop() // and again
				return
			}
			x.known.Store(true)
			x.up()
		})
	case zk.StateDisconnected:
		x.s.turn(func() {
			x.mu.Lock()
			defer x.mu.Unlock()
			if x.down != nil {
				close(x.down)
				x.down = nil
			}
		})
	case zk.StateExpired:
		x.end(zk.ErrSessionExpired)
	}
}

// up notes that the server can be asked. It has counted the time of the session from a request that came after the dial.
func (x *session) up() {
	x.refused.Store(0)
	x.s.turn(func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.id = x.conn.SessionID()
		x.trust.Given(x.dialed, x.timeout)
		x.down = make(chan struct{})
	})
}

// look asks the server something.
func (x *session) look(ctx context.Context, _ time.Duration, _ bool) error {
	return x.s.change(ctx, func(c *zk.Conn) error {
		_, _, err := c.Exists(x.s.path)
		return err
	})
}

// drop breaks the connection.
func (x *session) drop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.wire != nil {
		_ = x.wire.Close()
	}
}

// end is the end of the session for us, whether or not the server knows it yet.
func (x *session) end(why error) {
	if x.ctx.Err() == nil && x.sessionID() != 0 {
		x.s.log.Warn("board: session with ZooKeeper lost, and all claims with it", "session", fmt.Sprintf("%#x", x.sessionID()), "err", why)
	}
	x.cancel()
}

func (x *session) sessionID() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.id
}

// close ends the client: with a word to the server, if the store is closed and the server is there.
func (x *session) close() {
	x.mu.Lock()
	up := x.down != nil && x.s.ctx.Err() != nil
	x.mu.Unlock()
	x.cancel()
	if !up {
		x.drop()
	}
	x.conn.Close()
	x.drop()
	for range x.gone {
	}
}

// link is the session if its server can be asked now. turned is closed when that changes.
func (s *Store) link() (l link, turned <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return link{}, s.turned, driver.ErrClosed
	case s.current == nil:
		return link{}, s.turned, fmt.Errorf("%w: the session has ended, and another has not begun yet", driver.ErrAway)
	}
	x := s.current
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.down == nil {
		return link{}, s.turned, fmt.Errorf("%w: not connected to ZooKeeper", driver.ErrAway)
	}
	return link{x, x.down}, s.turned, nil
}

// link is a session while it is connected.
type link struct {
	*session
	down <-chan struct{}
}

// reconnected waits until the session is connected; false if it ended.
func (x *session) reconnected() bool {
	for x.ctx.Err() == nil {
		l, turned, err := x.s.link()
		if err == nil && l.session == x {
			return true
		}
		if errors.Is(err, driver.ErrClosed) {
			return false
		}
		select {
		case <-turned:
		case <-x.ctx.Done():
		}
	}
	return false
}

// ask lets do ask the server, until ctx ends or the connection breaks. do may go on then: what it asked for may still happen.
func ask[T any](ctx context.Context, s *Store, do func(*zk.Conn) (T, error)) (T, error) {
	l, _, err := s.link()
	if err != nil {
		var none T
		return none, err
	}
	return askOn(ctx, l, do)
}

func askOn[T any](ctx context.Context, l link, do func(*zk.Conn) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	var none T
	if !l.s.spawn(func() {
		value, err := do(l.conn)
		answers <- answer{value, err}
	}) {
		return none, driver.ErrClosed
	}
	select {
	case a := <-answers:
		return a.value, l.s.failed(a.err)
	case <-ctx.Done():
		return none, fmt.Errorf("%w: %w", driver.ErrAway, context.Cause(ctx))
	case <-l.down:
	}
	select {
	case a := <-answers:
		return a.value, l.s.failed(a.err)
	default:
		return none, l.s.failed(zk.ErrConnectionClosed)
	}
}

// change is ask for what has no answer but its error.
func (s *Store) change(ctx context.Context, do func(*zk.Conn) error) error {
	_, err := ask(ctx, s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, do(c) })
	return err
}

// spawn runs do beside, unless the store is closed. Close waits for it.
func (s *Store) spawn(do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wait.Go(do)
	return true
}

// dial connects to one of so many servers, unless the session is over.
func (x *session) dial(servers int, network, addr string, timeout time.Duration) (net.Conn, error) {
	dialed := time.Now()
	c, err := net.DialTimeout(network, addr, timeout)
	if err != nil {
		if x.refused.Add(1) >= int32(servers) {
			x.s.setRefused(err)
		}
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx.Err() != nil {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	x.dialed, x.wire = dialed, c
	return &wire{Conn: c, x: x}, nil
}

// refused is why no server could be reached in the last round.
func (s *Store) refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal
}

func (s *Store) setRefused(err error) { s.turn(func() { s.refusal = err }) }

// wire reads along in the greeting of the server, for the client does not tell the time that the server grants.
type wire struct {
	net.Conn
	x    *session
	head []byte
}

const greeting = 4 + 4 + 4 // length, protocol, time of the session in ms; 0 = it has ended

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if len(w.head) >= greeting {
		return n, err
	}
	w.head = append(w.head, b[:n]...)
	if len(w.head) >= greeting {
		if ms := binary.BigEndian.Uint32(w.head[8:]); ms > 0 {
			w.x.mu.Lock()
			w.x.timeout = time.Duration(ms) * time.Millisecond
			w.x.mu.Unlock()
		}
	}
	return n, err
}
