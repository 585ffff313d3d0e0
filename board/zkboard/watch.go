package zkboard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/lifecycle"
)

// While somebody watches, the names on a board are read at most this often, however much happens on it.
const atMostEvery = 50 * time.Millisecond

const rewatch = time.Second // after an error

// watcher tells those who watch. The server tells of one change after a reading that asks for it, so whoever reads the board anyway asks.
type watcher struct {
	mu        sync.Mutex
	listeners map[chan struct{}]bool
	armed     bool // the server tells of the next change
}

// listen registers a channel that is told of changes, at once for the first time.
func (w *watcher) listen() (changes chan struct{}, leave func()) {
	ch := make(chan struct{}, 1)
	ch <- struct{}{}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners == nil {
		w.listeners = map[chan struct{}]bool{}
	}
	w.listeners[ch] = true
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.listeners, ch)
	}
}

// arm says whether a reading is to ask for the next change.
func (w *watcher) arm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed || len(w.listeners) == 0 {
		return false
	}
	w.armed = true
	return true
}

// fire tells all.
func (w *watcher) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	for ch := range w.listeners {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

type children struct {
	names []string
	stat  *zk.Stat
}

// children reads the names of the nodes on the board.
func (s *Store) children(ctx context.Context) ([]string, *zk.Stat, error) {
	c, err := ask(ctx, s, s.readNames)
	if s.looks && errors.Is(err, zk.ErrNoNode) {
		return nil, new(zk.Stat), nil
	}
	if errors.Is(err, zk.ErrNoNode) { // somebody has deleted the board
		if err = s.ensure(ctx); err == nil {
			c, err = ask(ctx, s, s.readNames)
		}
	}
	return c.names, c.stat, err
}

// readNames asks for the next change as well, if somebody watches and nobody has.
func (s *Store) readNames(c *zk.Conn) (children, error) {
	if !s.watcher.arm() {
		names, stat, err := c.Children(s.path)
		return children{names, stat}, err
	}
	names, stat, changed, err := c.ChildrenW(s.path)
	if err != nil || !s.spawn(func() { <-changed; s.watcher.fire() }) {
		s.watcher.disarm()
	}
	return children{names, stat}, err
}

func (w *watcher) disarm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
}

func (w *watcher) isArmed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.armed
}

// Watch implements driver.Store. Whoever is told and then lists the board thereby asks for the next change, so that each change costs one reading.
func (s *Store) Watch(ctx context.Context, changed func(free bool)) error {
	changes, leave := s.watcher.listen()
	defer leave()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return driver.ErrClosed
		case <-changes:
		}
		changed(true)
		if !lifecycle.Sleep(ctx, atMostEvery) {
			return ctx.Err()
		}
		if s.watcher.isArmed() {
			continue
		}
		if _, _, err := s.children(ctx); err != nil { // something may be missed from now on
			_, turned, _ := s.link()
			select {
			case <-turned:
			case <-ctx.Done():
			case <-time.After(rewatch):
			}
			s.watcher.fire()
		}
	}
}
