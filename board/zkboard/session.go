package zkboard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board/driver"
)

const (
	firstPause = 10 * time.Millisecond // between attempts to reach a server
	maxPause   = time.Second
	minGreet   = time.Second // for a server to answer the request for a session
)

// session is one session with the servers, with the client on which it lives. It begins once and ends once: the client would go on with another session by itself, and carry out in it what was asked in this one.
type session struct {
	s       *Store
	conn    *zk.Conn
	gone    <-chan zk.Event // closed when the client has ended
	ended   chan struct{}   // claims are lost
	finish  sync.Once
	quit    chan struct{} // no server is to be dialled any more
	greeted chan struct{} // there is an id

	mu      sync.Mutex
	id      int64
	timeout time.Duration // as the server granted it
	heard   time.Time     // when the last request was sent that was answered
	down    chan struct{} // closed when the connection breaks; nil = there is none
	wire    net.Conn      // the connection
	known   atomic.Bool   // the server knows the user
	slots   []*slot       // for calls of Post, free ones
	made    int           // slots so far
	doubts  map[string]*slot
}

// run keeps a session until the store is closed.
func (s *Store) run() {
	for s.ctx.Err() == nil {
		x, err := s.newSession()
		if err != nil {
			s.log.Error("board: no client for ZooKeeper", "err", err) // there are no hosts, which parse refuses
			return
		}
		s.setCurrent(x)
		select {
		case <-x.ended:
		case <-s.ctx.Done():
		}
		s.setCurrent(nil)
		x.close()
	}
}

func (s *Store) setCurrent(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = x
	s.turn()
}

// turn tells all who wait for it that something about the session has changed. s.mu is held.
func (s *Store) turn() {
	close(s.turned)
	s.turned = make(chan struct{})
}

func (s *Store) newSession() (*session, error) {
	x := &session{s: s, ended: make(chan struct{}), quit: make(chan struct{}), greeted: make(chan struct{}), timeout: s.session, doubts: map[string]*slot{}}
	hosts := &hosts{all: s.hosts, next: rand.IntN(len(s.hosts)), quit: x.quit}
	var err error
	ready := make(chan struct{}) // x.conn is set
	x.conn, x.gone, err = zk.Connect(s.hosts, s.session, zk.WithHostProvider(hosts), zk.WithLogger(silent{}), zk.WithLogInfo(false),
		zk.WithDialer(func(network, addr string, timeout time.Duration) (net.Conn, error) {
			return x.dial(hosts, network, addr, timeout)
		}),
		zk.WithEventCallback(func(e zk.Event) { <-ready; x.event(e) }))
	close(ready)
	if err == nil {
		s.wait.Go(x.guard)
	}
	return x, err
}

type silent struct{}

func (silent) Printf(string, ...any) {}

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
		x.isDown()
	case zk.StateExpired:
		x.end("the server has ended it")
	}
}

func (x *session) up() {
	x.mu.Lock()
	x.down = make(chan struct{})
	x.mu.Unlock()
	x.s.tell()
}

func (x *session) isDown() {
	x.mu.Lock()
	if x.down != nil {
		close(x.down)
		x.down = nil
	}
	x.mu.Unlock()
	x.s.tell()
}

func (s *Store) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn()
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
func (x *session) end(why string) {
	x.finish.Do(func() {
		if x.s.ctx.Err() == nil && x.sessionID() != 0 {
			x.s.log.Warn("board: session with ZooKeeper lost, and all claims with it", "session", fmt.Sprintf("%#x", x.sessionID()), "err", why)
		}
		close(x.ended)
	})
}

func (x *session) sessionID() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.id
}

// close ends the client: with a word to the server, if the session has not ended and the server is there.
func (x *session) close() {
	x.mu.Lock()
	up := x.down != nil
	x.mu.Unlock()
	select {
	case <-x.ended:
		up = false
	default:
	}
	if up {
		x.conn.Close()
	}
	x.end("closed")
	close(x.quit)
	x.drop()
	x.conn.Close()
	x.drop() // one that was dialled meanwhile
	for range x.gone {
	}
}

// guard ends the session when it cannot be trusted any more: the server counts its time from the last request that it got, so from when it was sent, less a tenth for clocks that run apart.
func (x *session) guard() {
	select {
	case <-x.ended:
		return
	case <-x.greeted:
	}
	timer := time.NewTimer(x.left())
	defer timer.Stop()
	for {
		select {
		case <-x.ended:
			return
		case <-timer.C:
		}
		left := x.left()
		if left <= 0 {
			x.end("nothing was heard in time")
			return
		}
		timer.Reset(left)
	}
}

func (x *session) left() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return time.Until(x.heard.Add(x.timeout - x.timeout/10))
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
	for {
		select {
		case <-x.ended:
			return false
		default:
		}
		l, turned, err := x.s.link()
		if err == nil && l.session == x {
			return true
		}
		if errors.Is(err, driver.ErrClosed) {
			return false
		}
		select {
		case <-turned:
		case <-x.ended:
			return false
		}
	}
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

// hosts says which server to dial. The client's own waits for a second before it dials the only one again.
type hosts struct {
	all   []string
	quit  <-chan struct{}
	next  int
	tried int // since the last connection
}

func (h *hosts) Init([]string) error { return nil }
func (h *hosts) Len() int            { return len(h.all) }
func (h *hosts) Connected()          { h.tried = 0 }

// Next waits between rounds. After the end it says that all were tried, which is when the client looks whether it is to end.
func (h *hosts) Next() (server string, retryStart bool) {
	if round := h.tried / len(h.all); round > 0 && h.tried%len(h.all) == 0 {
		pause := min(firstPause<<min(round-1, 10), maxPause)
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-h.quit:
		}
	}
	server = h.all[h.next]
	h.next = (h.next + 1) % len(h.all)
	h.tried++
	select {
	case <-h.quit:
		return server, true
	default:
		return server, false
	}
}

// dial connects to a server that is to answer soon.
func (x *session) dial(h *hosts, network, addr string, timeout time.Duration) (net.Conn, error) {
	select {
	case <-x.quit:
		return nil, net.ErrClosed
	default:
	}
	c, err := net.DialTimeout(network, addr, timeout)
	if err != nil {
		if h.tried >= len(h.all) {
			x.s.setRefused(err)
		}
		return nil, err
	}
	w := &wire{Conn: c, x: x}
	greet := max(x.s.session*2/3, minGreet)
	if err := c.SetDeadline(time.Now().Add(greet)); err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wire = c
	return w, nil
}

// refused is why no server could be reached in the last round.
func (s *Store) refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal
}

func (s *Store) setRefused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = err
	s.turn()
}

// wire notes when what was answered was sent. The client writes one request at a time, and answers come in the order of the requests.
type wire struct {
	net.Conn
	x *session

	mu   sync.Mutex
	sent []time.Time // requests without an answer yet

	greeted bool   // read: the request for a session is answered
	head    []byte // the beginning of the frame that comes in
	rest    int    // what else there is of it
}

// SetReadDeadline is the client's, who would wait for the greeting of a server that hangs until long after the session is over.
func (w *wire) SetReadDeadline(t time.Time) error {
	if !w.greeted {
		return nil
	}
	return w.Conn.SetReadDeadline(t)
}

func (w *wire) Write(frame []byte) (int, error) {
	w.mu.Lock()
	w.sent = append(w.sent, time.Now())
	w.mu.Unlock()
	return w.Conn.Write(frame)
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	for data := b[:n]; len(data) > 0; {
		data = w.note(data)
	}
	return n, err
}

const (
	greetingHead = 4 + 4 + 4 + 8 // length, protocol, time of the session in ms, session
	answerHead   = 4 + 4         // length, number of the request
	notice       = -1            // as number of the request: something has happened
)

// note reads on in a frame and returns what follows.
func (w *wire) note(data []byte) []byte {
	if w.rest > 0 {
		n := min(w.rest, len(data))
		w.rest -= n
		return data[n:]
	}
	want := answerHead
	if !w.greeted {
		want = greetingHead
	}
	n := min(want-len(w.head), len(data))
	w.head = append(w.head, data[:n]...)
	if len(w.head) < want {
		return nil
	}
	w.rest = max(int(binary.BigEndian.Uint32(w.head))-(want-4), 0)
	if !w.greeted {
		w.greeted = true
		w.answered()
		w.x.greet(int64(binary.BigEndian.Uint64(w.head[12:])), time.Duration(binary.BigEndian.Uint32(w.head[8:]))*time.Millisecond)
		_ = w.Conn.SetDeadline(time.Time{})
	} else if int32(binary.BigEndian.Uint32(w.head[4:])) != notice {
		w.answered()
	}
	w.head = w.head[:0]
	return data[n:]
}

func (w *wire) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sent) == 0 {
		return
	}
	w.x.mu.Lock()
	defer w.x.mu.Unlock()
	if w.sent[0].After(w.x.heard) {
		w.x.heard = w.sent[0]
	}
	w.sent = w.sent[1:]
}

// greet notes what the server said. It gives another session, or none, in place of one that has ended; end is told by the client.
func (x *session) greet(id int64, timeout time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if id == 0 || x.id != 0 && x.id != id {
		return
	}
	if x.id == 0 {
		close(x.greeted)
	}
	x.id, x.timeout = id, timeout
}
