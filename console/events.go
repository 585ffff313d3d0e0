package console

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// heartbeat is how often an event stream without events says that it lives.
const heartbeat = 15 * time.Second

// events is the stream of server-sent events that a page follows: one event whenever what it shows differs from what it had. The id of an event is the content, so a browser that
// comes back is told what it missed.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	status, sent, changed := c.book.now()
	now := func() (string, <-chan struct{}, <-chan struct{}) {
		_, all, changed := c.book.now()
		return all, changed, nil
	}
	if id := r.FormValue("order"); id != "" {
		parsed, err := isa95.ParseJobOrderID(id)
		if err != nil {
			c.fail(w, r, &problem{http.StatusBadRequest, "Not a job order", err.Error()})
			return
		}
		tail, leave := c.tails.join(r.Context(), c, parsed)
		defer leave()
		now = func() (string, <-chan struct{}, <-chan struct{}) {
			status, _, changed = c.book.now()
			last, moved := tail.now()
			if last == "" {
				return "", changed, moved
			}
			return status + "." + last, changed, moved
		}
		sent = ""
	}
	if page := r.FormValue("page"); page != "" {
		poll, leave := c.polls.join(r.Context(), page)
		defer leave()
		now = func() (string, <-chan struct{}, <-chan struct{}) {
			content, moved := poll.now()
			return content, nil, moved
		}
		sent = ""
	}
	if after := r.FormValue("after"); after != "" {
		sent = after
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		sent = last
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	write := func(format string, args ...any) bool {
		_ = out.SetWriteDeadline(time.Now().Add(2 * heartbeat)) // of a recorder in tests: it has none
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil && out.Flush() == nil
	}
	if !write("retry: 1000\n\n") {
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		content, changed, moved := now()
		if content != "" && content != sent {
			if !write("id: %s\nevent: change\ndata: %s\n\n", content, content) {
				return
			}
			sent = content
		}
		select {
		case <-changed:
		case <-moved:
		case <-beat.C:
			if !write(": nothing changed\n\n") {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// tails follow the histories of the orders that browsers look at, each once.
type tails struct {
	mu   sync.Mutex
	of   map[string]*tail
	wait sync.WaitGroup
}

type tail struct {
	stop    context.CancelFunc
	readers int // guarded by tails

	mu    sync.Mutex
	last  string // id of the newest entry; "": not known yet
	moved chan struct{}
}

// noHistory is tail.last of an order that has none.
const noHistory = "0"

func (t *tails) join(ctx context.Context, c *Console, id isa95.JobOrderID) (*tail, func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[string(id)]
	if one == nil {
		one = &tail{moved: make(chan struct{})}
		ctx, one.stop = context.WithCancel(context.WithoutCancel(ctx))
		t.of[string(id)] = one
		t.wait.Go(func() { one.run(ctx, c, id) })
	}
	one.readers++
	return one, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.readers--; one.readers == 0 {
			one.stop()
			delete(t.of, string(id))
		}
	}
}

func (t *tail) now() (last string, moved <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last, t.moved
}

func (t *tail) run(ctx context.Context, c *Console, id isa95.JobOrderID) {
	var reader *jobstore.HistoryReader
	last := noHistory
	for ctx.Err() == nil {
		store := c.store.get()
		if store == nil {
			lifecycle.Sleep(ctx, time.Second/4)
			continue
		}
		if reader == nil {
			reader = store.History(id)
		}
		entries, err := reader.Next(ctx, watchWait)
		if err != nil {
			again := time.Second / 2
			if !jobstore.Away(err) {
				reader, again = nil, heartbeat // an entry cannot be read: nor can it soon
			}
			lifecycle.Sleep(ctx, again)
			continue
		}
		if len(entries) > 0 {
			last = entries[len(entries)-1].ID
		}
		t.mu.Lock()
		if t.last != last {
			t.last = last
			close(t.moved)
			t.moved = make(chan struct{})
		}
		t.mu.Unlock()
	}
}
