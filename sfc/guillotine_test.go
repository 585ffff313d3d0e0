package sfc

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// guillotine stands between one process and Redis, and cuts it off for good at its n-th command: before the command is
// carried out or, with lose, after that but before its reply. testenv's proxy cuts between pieces of a connection; this
// one knows where a command ends, so that every step of a run can be the last.
type guillotine struct {
	url    string
	target string
	onFall func() // called once, before anything else can happen

	mu    sync.Mutex
	at    int // 0 = only count
	lose  bool
	armed bool
	n     int
	last  string // the command it fell on
	log   []string
	fell  chan struct{}
	links map[net.Conn]net.Conn // client -> server
	wait  sync.WaitGroup
}

func newGuillotine(t testing.TB, target string) *guillotine {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &guillotine{url: "redis://" + l.Addr().String(), target: target, fell: make(chan struct{}), links: map[net.Conn]net.Conn{}}
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

// arm begins to count; at 0 only counts.
func (g *guillotine) arm(at int, lose bool, onFall func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at, g.lose, g.armed, g.onFall = at, lose, true, onFall
}

// disarm lets it fall no more; false if it has fallen.
func (g *guillotine) disarm() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = 0
	return !g.fallen()
}

func (g *guillotine) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

// seen counts the commands that name text.
func (g *guillotine) seen(text string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, c := range g.log {
		if strings.Contains(c, text) {
			n++
		}
	}
	return n
}

// names counts the commands by their first word.
func (g *guillotine) names() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := map[string]int{}
	for _, c := range g.log {
		word, _, _ := strings.Cut(c, " ")
		n[word]++
	}
	return n
}

func (g *guillotine) where() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return fmt.Sprintf("at command %d, lost reply %v: %s", g.n, g.lose, g.last)
}

func (g *guillotine) fallen() bool {
	select {
	case <-g.fell:
		return true
	default:
		return false
	}
}

// cutAll breaks all links but that of keep.
func (g *guillotine) cutAll(keep net.Conn) {
	for c, s := range g.links {
		if c != keep {
			c.Close()
			s.Close()
		}
	}
}

func (g *guillotine) serve(client net.Conn) {
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
func (g *guillotine) pass(client, server net.Conn, raw []byte, words []string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fallen() {
		return false
	}
	if g.armed {
		g.n++
		g.log = append(g.log, strings.Join(words, " "))
	}
	if g.at == 0 || g.n != g.at || !g.armed {
		_, err := server.Write(raw)
		return err == nil
	}
	if len(words) > 6 {
		words = words[:6]
	}
	g.last = strings.Join(words, " ")
	close(g.fell)
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

// kill falls now.
func (g *guillotine) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.fallen() {
		close(g.fell)
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
