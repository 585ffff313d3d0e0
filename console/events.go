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
		tail, leave := c.follows.join(r.Context(), "order "+id, c.tail(parsed))
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
		poll, leave := c.follows.join(r.Context(), visitorOf(r.Context()).Role.String()+" "+page, c.poll(page))
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
	if r.Method == http.MethodHead {
		return
	}
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

// follows are looks at what browsers follow, each once however many follow it.
type follows struct {
	mu   sync.Mutex
	of   map[string]*follow
	wait sync.WaitGroup
}

type follow struct {
	stop    context.CancelFunc
	readers int // guarded by follows

	mu      sync.Mutex
	content string // "" = not known yet
	moved   chan struct{}
}

// join is the look of a key, which run does until the last browser has left.
func (f *follows) join(ctx context.Context, key string, run func(context.Context, *follow)) (one *follow, leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one = f.of[key]; one == nil {
		one = &follow{moved: make(chan struct{})}
		ctx, one.stop = context.WithCancel(context.WithoutCancel(ctx))
		f.of[key] = one
		f.wait.Go(func() { run(ctx, one) })
	}
	one.readers++
	return one, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if one.readers--; one.readers == 0 {
			one.stop()
			delete(f.of, key)
		}
	}
}

func (f *follow) now() (content string, moved <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.content, f.moved
}

func (f *follow) set(content string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.content != content {
		f.content = content
		close(f.moved)
		f.moved = make(chan struct{})
	}
}

// noHistory is the newest entry of an order that has none.
const noHistory = "0"

// tail follows the history of an order: its content is the id of the newest entry.
func (c *Console) tail(id isa95.JobOrderID) func(context.Context, *follow) {
	return func(ctx context.Context, f *follow) {
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
			f.set(last)
		}
	}
}
