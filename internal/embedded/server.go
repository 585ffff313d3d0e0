package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
)

// Server is a running server of ours. Its methods are safe for concurrent use.
type Server struct {
	Kind string // redis-server, valkey-server, mosquitto, miniredis, mochi, or that of a Program

	url string

	mu   sync.Mutex
	part part
	down bool
	free func() // gives back what the server held beside its process: directory lock, temporary directory
}

// part is what differs between a child and a server in this process.
type part interface {
	start(ctx context.Context) error // on the same address and data as before
	stop() error                     // clean, blocks until it ended
	kill() error                     // at once, blocks until it ended
	pid() int
	done() <-chan struct{}
}

// ErrRunning is returned by Restart of a server that runs.
var ErrRunning = errors.New("the server is running")

// NotFoundError is a program that is not on PATH nor in the usual places.
type NotFoundError struct {
	Programs string // what was looked for
	Where    string // "" = on PATH or in /usr/sbin
	Package  string // the Debian package that brings it, or several
}

func (e *NotFoundError) Error() string {
	where := e.Where
	where = cmp.Or(where, "on PATH or in /usr/sbin")
	return fmt.Sprintf("embedded: no %s found %s: install it with apt-get install %s", e.Programs, where, e.Package)
}

// run starts p as a Server.
func run(ctx context.Context, kind, url string, p part, free func()) (*Server, error) {
	if free == nil {
		free = func() {}
	}
	if err := p.start(ctx); err != nil {
		free()
		return nil, err
	}
	return &Server{Kind: kind, url: url, part: p, free: free}, nil
}

// URL is where the server listens: redis://127.0.0.1:port, unix:///path, mqtt://127.0.0.1:port, or what a Program says. It never changes.
func (s *Server) URL() string { return s.url }

// PID is the process id of a child, 0 for a server in this process.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.part.pid()
}

// Done is closed when the process that runs now has ended; Restart makes a new channel. A server in this process never ends by itself.
func (s *Server) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.part.done()
}

// Stop ends the server cleanly and gives its directory back; a child that does not end in 10 s is killed. A second call does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if !s.down {
		s.down = true
		err = s.part.stop()
	}
	s.free()
	s.free = func() {}
	return err
}

// Kill ends the server as a crash would: SIGKILL for a child; one in this process drops listener and connections, and loses
// what it had only in memory. It blocks until the server is gone.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil
	}
	s.down = true
	return s.part.kill()
}

// Restart starts the server again after Kill or an exit of its own, on the same address and data. It blocks until the server answers or ctx ends.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.part.done():
		s.down = true
	default:
	}
	if !s.down {
		return ErrRunning
	}
	if err := s.part.start(ctx); err != nil {
		return fmt.Errorf("embedded: %s: %w", s.Kind, err)
	}
	s.down = false
	return nil
}
