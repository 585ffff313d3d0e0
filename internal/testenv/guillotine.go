package testenv

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Guillotine stands between one process and Redis, and cuts it off for good at its n-th command: before the command is
// carried out or, with lose, after that but before its reply. Proxy cuts between pieces of a connection; this one knows
// where a command ends, so that every step of a run can be the last. Its methods are safe for concurrent use.
type Guillotine struct {
	URL  string        // of Redis, for the process
	Fell chan struct{} // closed when it falls

	target string
	onFall func()

	mu    sync.Mutex
	at    int                       // 0 = only count
	only  func(words []string) bool // what counts; nil = all
	lose  bool
	armed bool
	log   [][]string            // commands that counted since it was armed
	links map[net.Conn]net.Conn // client -> server
	wait  sync.WaitGroup
}

// NewGuillotine starts one before the server at target, a host:port. It ends with the test.
func NewGuillotine(t testing.TB, target string) *Guillotine {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &Guillotine{URL: "redis://" + l.Addr().String(), target: target, Fell: make(chan struct{}), links: map[net.Conn]net.Conn{}}
	g.wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			g.wait.Go(func() { g.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		g.mu.Lock()
		g.cutAll(nil)
		g.mu.Unlock()
		g.wait.Wait()
	})
	return g
}

// Arm begins to count, and lets it fall at the command of that number; 0 = at none. onFall is called once, before anything else can pass.
func (g *Guillotine) Arm(at int, lose bool, onFall func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at, g.lose, g.armed, g.onFall = at, lose, true, onFall
}

// Only lets commands count for which f says so, and no others; nil = all do.
func (g *Guillotine) Only(f func(words []string) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.only = f
}

// Disarm lets it fall no more; false if it has fallen.
func (g *Guillotine) Disarm() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = 0
	return !g.fallen()
}

// Commands are the words of those that counted since it was armed, the one it fell on last.
func (g *Guillotine) Commands() [][]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.log)
}

// Count is how many they are.
func (g *Guillotine) Count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.log)
}

// Seen counts those that name text.
func (g *Guillotine) Seen(text string) int {
	n := 0
	for _, words := range g.Commands() {
		if strings.Contains(strings.Join(words, " "), text) {
			n++
		}
	}
	return n
}

// Names counts them by their first word.
func (g *Guillotine) Names() map[string]int {
	n := map[string]int{}
	for _, words := range g.Commands() {
		n[words[0]]++
	}
	return n
}

// Where says where it fell.
func (g *Guillotine) Where() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.fallen() || len(g.log) == 0 {
		return "nowhere"
	}
	last := g.log[len(g.log)-1]
	return fmt.Sprintf("at command %d, lost reply %v: %s", len(g.log), g.lose, strings.Join(last[:min(len(last), 6)], " "))
}

func (g *Guillotine) fallen() bool {
	select {
	case <-g.Fell:
		return true
	default:
		return false
	}
}

// cutAll breaks all links but that of keep.
func (g *Guillotine) cutAll(keep net.Conn) {
	for c, s := range g.links {
		if c != keep {
			c.Close()
			s.Close()
		}
	}
}

func (g *Guillotine) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	defer server.Close()
	g.mu.Lock()
	if g.fallen() {
		g.mu.Unlock()
		return
	}
	g.links[client] = server
	g.mu.Unlock()
	var replies sync.WaitGroup
	replies.Go(func() {
		_, _ = io.Copy(client, server)
		client.Close()
	})
	defer replies.Wait()
	defer server.Close()
	in := bufio.NewReader(client)
	for {
		raw, words, err := readCommand(in)
		if err != nil || !g.pass(client, server, raw, words) {
			return
		}
	}
}

// pass forwards a command; false if it was the last.
func (g *Guillotine) pass(client, server net.Conn, raw []byte, words []string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fallen() {
		return false
	}
	counts := g.armed && (g.only == nil || g.only(words))
	if counts {
		g.log = append(g.log, words)
	}
	if !counts || g.at == 0 || len(g.log) != g.at {
		_, err := server.Write(raw)
		return err == nil
	}
	close(g.Fell)
	g.cutAll(client)
	client.Close() // no reply comes through any more
	if g.lose {
		if _, err := server.Write(raw); err == nil {
			_ = server.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, server) // until it has carried out what it got
		}
	}
	g.onFall()
	return false
}

// Kill falls now.
func (g *Guillotine) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.fallen() {
		close(g.Fell)
		g.cutAll(nil)
	}
}

// readCommand reads one command: an array of bulk strings.
func readCommand(in *bufio.Reader) (raw []byte, words []string, err error) {
	number := func(mark byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		raw = append(raw, line...)
		if line[0] != mark {
			return 0, fmt.Errorf("%q does not begin with %c", line, mark)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	if err != nil {
		return nil, nil, err
	}
	for range n {
		size, err := number('$')
		if err != nil {
			return nil, nil, err
		}
		bulk := make([]byte, size+2)
		if _, err := io.ReadFull(in, bulk); err != nil {
			return nil, nil, err
		}
		raw = append(raw, bulk...)
		words = append(words, string(bulk[:size]))
	}
	return raw, words, nil
}
