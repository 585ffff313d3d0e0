package board

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/lifecycle"
)

const (
	// The board is read at most this often for all who wait, however much happens on it, and in no more than every fifth moment.
	minInterval = 20 * time.Millisecond
	maxInterval = 5 * time.Second
	readShare   = 5
	// It is read once in a while although nobody said that it changed.
	readAnyway = 30 * time.Second
	// A claim that runs out is looked for this long after its time.
	afterExpiry = 2 * time.Millisecond
)

// hub reads the board for everybody in this process who waits for something on it. It listens and reads only while somebody does.
type hub struct {
	b       *Board
	ctx     context.Context
	cancel  context.CancelFunc
	changed chan struct{} // the board is to be read

	mu      sync.Mutex
	waiters map[chan *snapshot]bool // true = waits for something else than what is free, too
	stop    context.CancelFunc
	ended   chan struct{} // when the last loop has; nil = there was none

	noted sync.Map // refs of malformed records that the log was told of
}

// snapshot is the board at one moment, or why it could not be read.
type snapshot struct {
	at   time.Time // when the reading began
	rows []Row     // in order
	err  error
}

func newHub(b *Board) *hub {
	h := &hub{b: b, changed: make(chan struct{}, 1), waiters: map[chan *snapshot]bool{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// join subscribes to snapshots, all = also of changes that make nothing free: of those that come while the receiver is busy it gets the last. leave must be called.
func (h *hub) join(all bool) (snapshots <-chan *snapshot, leave func()) {
	ch := make(chan *snapshot, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters[ch] = all
	if len(h.waiters) == 1 {
		ctx, stop := context.WithCancel(h.ctx)
		before, ended := h.ended, make(chan struct{})
		h.stop, h.ended = stop, ended
		go func() {
			defer close(ended)
			if before != nil {
				<-before
			}
			h.run(ctx)
		}()
	} else {
		lifecycle.Poke(h.changed)
	}
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if delete(h.waiters, ch); len(h.waiters) == 0 {
			h.stop()
		}
	}
}

// change asks for a reading, if anybody waits for such a change: who waits for work is not to read the board because others do theirs.
func (h *hub) change(free bool) {
	h.mu.Lock()
	wanted := free
	for _, all := range h.waiters {
		wanted = wanted || all
	}
	h.mu.Unlock()
	if wanted {
		lifecycle.Poke(h.changed)
	}
}

// run listens and reads until ctx ends.
func (h *hub) run(ctx context.Context) {
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		_ = repeat(ctx, func() error { // it gives up at the end only
			return h.b.store.Watch(ctx, h.change)
		})
	}()
	defer func() { <-watching }()
	for away := false; ; {
		s := &snapshot{at: time.Now()}
		s.rows, s.err = h.b.List(ctx, ListOptions{})
		if ctx.Err() != nil {
			return
		}
		if now := errors.Is(s.err, driver.ErrAway); now != away {
			away = now // who waits is not told
			if away {
				h.b.log.Warn("board: the board cannot be read, waiting for the server", "err", s.err)
			} else {
				h.b.log.Info("board: the server answers again")
			}
		}
		h.tell(s)
		took := time.Since(s.at)
		if !lifecycle.Sleep(ctx, min(max(minInterval, readShare*took), maxInterval)) {
			continue
		}
		lifecycle.Pause(ctx, s.next(), h.changed)
	}
}

// next is when to read again although nothing was heard.
func (s *snapshot) next() time.Duration {
	if s.err != nil {
		return maxPause
	}
	next := readAnyway
	for i := range s.rows {
		if d := s.rows[i].ExpiresIn; d > 0 {
			next = min(next, d)
		}
	}
	return max(time.Until(s.at.Add(next+afterExpiry)), 0)
}

func (h *hub) tell(s *snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.waiters {
		select {
		case <-ch: // an older one that nobody took
		default:
		}
		ch <- s
	}
}

func (h *hub) close() {
	h.mu.Lock()
	ended := h.ended
	h.mu.Unlock()
	h.cancel()
	if ended != nil {
		<-ended
	}
}

// await shows done the board as it is after now, and again whenever it has changed, until that says true. While the server is away it waits on.
func (h *hub) await(ctx context.Context, all bool, done func(*snapshot) bool) error {
	since := time.Now()
	snapshots, leave := h.join(all)
	defer leave()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.ctx.Done():
			return driver.ErrClosed
		case s := <-snapshots:
			switch {
			case s.err != nil && !errors.Is(s.err, driver.ErrAway):
				return s.err
			case s.err == nil && !s.at.Before(since) && done(s):
				return nil
			}
		}
	}
}
