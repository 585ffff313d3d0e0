// Package proxy is a TCP proxy that counts round trips and makes trouble, and one that ends at a given command of Redis; for tests and for measuring on the wire.
package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Proxy is a TCP proxy that counts round trips and makes trouble. Its methods are safe for concurrent use.
type Proxy struct {
	Addr string // host:port to connect to
	URL  string // the target's URL with Addr in it, if the target was given as a URL

	target string
	listen net.Listener
	stop   context.CancelFunc
	wait   sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and renewed when a switch is turned
	links   map[*link]struct{}
	trips   int
	dials   int
	refuse  bool
	stall   bool
	drop    bool
	lose    int
	loseTo  string
	delay   time.Duration
	piece   int
	rate    int // bytes per second of each connection and direction, 0 = unbounded
	tap     func(fromClient bool, data []byte)
	blade   *Guillotine // reads commands; nil = the proxy knows nothing of what it carries
}

// link is one proxied connection.
type link struct {
	client, server net.Conn
	asked          bool // the last bytes seen came from the client
	doomed         bool // its next reply is to be lost
	lost           bool // bytes of the server were swallowed: the stream is no longer whole
}

// New starts a proxy to target, a host:port or a URL, on a free port of 127.0.0.1. It runs until Close.
func New(target string) (*Proxy, error) { return start(target, nil) }

func start(target string, blade *Guillotine) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{Addr: l.Addr().String(), target: target, listen: l, stop: cancel, links: map[*link]struct{}{}, changed: make(chan struct{}), blade: blade}
	if strings.Contains(target, "://") {
		u, err := url.Parse(target)
		if err != nil {
			cancel()
			l.Close()
			return nil, errors.New("proxy: the URL of the target cannot be read") // it may hold a password
		}
		p.target, u.Host = u.Host, p.Addr
		p.URL = u.String()
	}
	p.wait.Go(func() { p.accept(ctx) })
	return p, nil
}

// Close ends the proxy and every connection through it.
func (p *Proxy) Close() {
	p.stop()
	p.listen.Close()
	p.Cut()
	p.wait.Wait()
}

// Trips is the number of round trips since the last Reset: how often bytes of a client followed bytes of its server,
// or opened the connection, summed over the connections. Commands sent together are one trip.
func (p *Proxy) Trips() int { return p.read(&p.trips) }

// Reset begins a new count.
func (p *Proxy) Reset() { p.turn(func() { p.trips = 0 }) }

// Conns is the number of connections that are open now.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Dials is the number of connections that were asked for since the start, refused ones too.
func (p *Proxy) Dials() int { return p.read(&p.dials) }

func (p *Proxy) read(count *int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *count
}

// Cut breaks every connection that is open now.
func (p *Proxy) Cut() {
	p.turn(func() {
		for l := range p.links {
			l.cut()
		}
	})
}

// Refuse breaks new connections at once while on.
func (p *Proxy) Refuse(on bool) { p.turn(func() { p.refuse = on }) }

// Stall holds everything back while on, in both directions; turned off, it goes on where it was.
func (p *Proxy) Stall(on bool) { p.turn(func() { p.stall = on }) }

// DropReplies swallows what the server sends while on. Turned off, connections that missed something are cut.
func (p *Proxy) DropReplies(on bool) {
	p.turn(func() {
		p.drop = on
		if !on {
			for l := range p.links {
				if l.lost {
					l.cut()
				}
			}
		}
	})
}

// LoseReplies makes each of the next n replies disappear together with its connection: the command was carried out and
// nobody hears of it.
func (p *Proxy) LoseReplies(n int) { p.turn(func() { p.lose = n }) }

// LoseReplyTo is LoseReplies for the reply to the next piece of a client in which text is, such as the hash of a script; "" = to none. If others are on
// their way on that connection, theirs are lost with it.
func (p *Proxy) LoseReplyTo(text string) { p.turn(func() { p.loseTo = text }) }

// Delay holds every piece back for d, in both directions.
func (p *Proxy) Delay(d time.Duration) { p.turn(func() { p.delay = d }) }

// Fragment forwards in pieces of n bytes; 0 = as they come.
func (p *Proxy) Fragment(n int) { p.turn(func() { p.piece = n }) }

// Throttle lets at most bytesPerSecond pass, on each connection and in each direction; 0 = all.
func (p *Proxy) Throttle(bytesPerSecond int) { p.turn(func() { p.rate = bytesPerSecond }) }

// Tap calls f with everything that passes, one call at a time; nil = none. f must not keep data.
func (p *Proxy) Tap(f func(fromClient bool, data []byte)) { p.turn(func() { p.tap = f }) }

func (p *Proxy) turn(set func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) accept(ctx context.Context) {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		p.wait.Go(func() { p.serve(ctx, client) })
	}
}

func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	l := &link{client: client}
	defer l.cut()
	var refused bool
	p.turn(func() {
		p.dials++
		refused = p.refuse
	})
	if refused {
		return
	}
	var d net.Dialer
	server, err := d.DialContext(ctx, "tcp", p.target)
	if err != nil {
		return
	}
	p.turn(func() {
		l.server = server
		p.links[l] = struct{}{}
		refused = p.refuse
	})
	if refused || ctx.Err() != nil {
		l.cut()
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(ctx, l, true) })
	both.Go(func() { p.pump(ctx, l, false) })
	both.Wait()
	l.close()
	p.turn(func() { delete(p.links, l) })
}

// pump carries one direction until either side ends.
func (p *Proxy) pump(ctx context.Context, l *link, fromClient bool) {
	from, to := l.server, l.client
	if fromClient {
		from, to = l.client, l.server
	}
	buf := make([]byte, 64<<10)
	next := func() (piece []byte, words []string, _ error) {
		n, err := from.Read(buf)
		return buf[:n], nil, err
	}
	if fromClient && p.blade != nil {
		in := bufio.NewReader(from)
		next = func() ([]byte, []string, error) { return readCommand(in) }
	}
	for {
		data, words, err := next()
		if len(data) > 0 && p.hold(ctx, len(data)) {
			forward := true
			if forward, err = p.note(l, fromClient, data, words, err); forward {
				err = errors.Join(err, p.write(to, data))
			}
		}
		if errors.Is(err, io.EOF) { // a clean end of one direction
			_ = to.(*net.TCPConn).CloseWrite()
			return
		}
		if err != nil || ctx.Err() != nil {
			l.cut()
			return
		}
	}
}

// errCut ends a connection whose reply was to be lost, or that is cut off.
var errCut = errors.New("cut on purpose")

// note counts a piece and says what becomes of it; err is handed through if there is nothing to add.
func (p *Proxy) note(l *link, fromClient bool, data []byte, words []string, err error) (forward bool, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if words != nil {
		return false, p.blade.pass(l, data, words)
	}
	if p.tap != nil {
		p.tap(fromClient, data)
	}
	if fromClient {
		if !l.asked {
			p.trips++
		}
		if p.loseTo != "" && bytes.Contains(data, []byte(p.loseTo)) {
			l.doomed, p.loseTo = true, ""
		}
		l.asked = true
		return true, err
	}
	l.asked = false
	switch {
	case l.doomed:
		return false, errCut
	case p.lose > 0:
		p.lose--
		return false, errCut
	case p.drop || l.lost:
		l.lost = true
		return false, err
	}
	return true, err
}

// hold waits for as long as a piece of n bytes is delayed, needs, and is stalled.
func (p *Proxy) hold(ctx context.Context, n int) bool {
	p.mu.Lock()
	wait := p.delay
	if p.rate > 0 {
		wait += time.Duration(n) * time.Second / time.Duration(p.rate)
	}
	p.mu.Unlock()
	if wait > 0 {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
	for {
		p.mu.Lock()
		stall, changed := p.stall, p.changed
		p.mu.Unlock()
		if !stall {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

func (p *Proxy) write(to net.Conn, data []byte) error {
	p.mu.Lock()
	piece := p.piece
	p.mu.Unlock()
	for len(data) > 0 {
		n := len(data)
		if piece > 0 {
			n = min(n, piece)
		}
		if _, err := to.Write(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// cut ends both sides with a reset.
func (l *link) cut() {
	for _, c := range []net.Conn{l.client, l.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	}
	l.close()
}

func (l *link) close() {
	for _, c := range []net.Conn{l.client, l.server} {
		if c != nil {
			c.Close()
		}
	}
}
