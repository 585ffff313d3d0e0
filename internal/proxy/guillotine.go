package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Guillotine is a Proxy between one process and Redis that cuts it off for good at its n-th command: before the command is
// carried out or, with lose, after that but before its reply. The others cut between pieces of a connection; this one knows
// where a command ends, so that every step of a run can be the last. To cut it off by hand, Refuse and Cut.
type Guillotine struct {
	*Proxy
	Fell chan struct{} // closed when it has fallen

	// Guarded by the lock of the proxy.
	at     int                       // 0 = only count
	only   func(words []string) bool // what counts; nil = all
	lose   bool
	armed  bool
	onFall func()
	fallen bool
	log    [][]string // commands that counted since it was armed
}

// NewGuillotine starts one before the Redis at target, a URL. It runs until Close.
func NewGuillotine(target string) (*Guillotine, error) {
	g := &Guillotine{Fell: make(chan struct{})}
	var err error
	g.Proxy, err = start(target, g)
	return g, err
}

// Arm begins to count, and lets it fall at the command of that number; 0 = at none. onFall is called once, before anything else can pass.
func (g *Guillotine) Arm(at int, lose bool, onFall func()) {
	g.turn(func() { g.at, g.lose, g.armed, g.onFall = at, lose, true, onFall })
}

// Only lets commands count for which f says so, and no others; nil = all do.
func (g *Guillotine) Only(f func(words []string) bool) { g.turn(func() { g.only = f }) }

// Disarm lets it fall no more; false if it has fallen.
func (g *Guillotine) Disarm() (whole bool) {
	g.turn(func() { g.at, whole = 0, !g.fallen })
	return whole
}

// Commands are the words of those that counted since it was armed, the one it fell on last.
func (g *Guillotine) Commands() (words [][]string) {
	g.turn(func() { words = slices.Clone(g.log) })
	return words
}

// Count is how many they are.
func (g *Guillotine) Count() int { return len(g.Commands()) }

// Where says where it fell.
func (g *Guillotine) Where() (where string) {
	g.turn(func() {
		where = "nowhere"
		if g.fallen {
			last := g.log[len(g.log)-1]
			where = fmt.Sprintf("at command %d, lost reply %v: %s", len(g.log), g.lose, strings.Join(last[:min(len(last), 6)], " "))
		}
	})
	return where
}

// pass forwards a command, unless it is the last. The proxy is locked, so commands pass one by one over all connections.
func (g *Guillotine) pass(l *link, raw []byte, words []string) error {
	if g.fallen {
		return errCut
	}
	if g.armed && (g.only == nil || g.only(words)) {
		g.log = append(g.log, words)
		g.fallen = len(g.log) == g.at
	}
	if !g.fallen {
		_, err := l.server.Write(raw)
		return err
	}
	g.refuse = true
	for other := range g.links {
		if other != l {
			other.close()
		}
	}
	l.client.Close() // no reply comes through any more
	if g.lose {
		if _, err := l.server.Write(raw); err == nil {
			_ = l.server.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, l.server) // until it has carried out what it got
		}
	}
	l.close()
	g.onFall()
	close(g.Fell)
	return errCut
}

// readCommand reads one command: an array of bulk strings.
func readCommand(in *bufio.Reader) (raw []byte, words []string, err error) {
	for left := 1; left > 0; left-- {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, nil, err
		}
		raw = append(raw, line...)
		n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
		switch {
		case err == nil && line[0] == '*':
			left += n
		case err == nil && line[0] == '$':
			bulk := make([]byte, n+len("\r\n"))
			if _, err := io.ReadFull(in, bulk); err != nil {
				return nil, nil, err
			}
			raw = append(raw, bulk...)
			words = append(words, string(bulk[:n]))
		default:
			return nil, nil, fmt.Errorf("%q begins no part of a command", line)
		}
	}
	return raw, words, nil
}
