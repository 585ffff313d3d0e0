package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/lease"
)

// DefaultTTL is the time after which a worker that shows no sign of life is dead.
const DefaultTTL = 10 * time.Second

// takeoverMark begins the token that replaces a dead worker's. Own tokens are UUIDs and never begin so.
const takeoverMark = "takeover:"

var (
	// ErrLost is the cause with which a handler's context ends when this worker was, or may have been, declared dead.
	// What it held belongs to others; a Settle of it conflicts.
	ErrLost = errors.New("stream: the worker was declared dead, its entries belong to others")

	// ErrStopped is the cause with which a handler's context ends when the time to drain is over.
	ErrStopped = errors.New("stream: stopped before the handler was done, the entry is handed back")
)

// Worker is this process among those that share the work: one heartbeat, whatever number of groups. Make one per process
// and Redis prefix, and let its Run outlive that of its groups.
type Worker struct {
	rdb  rueidis.Client
	keys keys.Keys
	id   string
	ttl  time.Duration
	log  *slog.Logger

	loops sync.Map // of *Group to its *loop, while it runs

	mu      sync.Mutex
	current *epoch        // nil = not alive
	changed chan struct{} // closed and renewed when current changes
}

// epoch is the time under one token.
type epoch struct {
	key   string // of the heartbeat
	token string
	ctx   context.Context // ends with the token; cause ErrLost or ErrStopped
	end   context.CancelCauseFunc
	trust *lease.Lease
}

// NewWorker makes the worker of this process. id is its name in Redis (heartbeat and consumer): unique among the processes that share
// a prefix, and the same after a restart if what it held is to be resumed at once. ttl 0 = DefaultTTL; a third of it must be ample for a round trip.
func NewWorker(rdb rueidis.Client, k keys.Keys, id string, ttl time.Duration, log *slog.Logger) *Worker {
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Worker{rdb: rdb, keys: k, id: id, ttl: ttl, log: log.With("worker", id), changed: make(chan struct{})}
}

// ID is the worker's name: consumer in every group, and in its heartbeat key.
func (w *Worker) ID() string { return w.id }

// Token is the one under which entries are delivered now, "" while the worker has none.
func (w *Worker) Token() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current == nil {
		return ""
	}
	return w.current.token
}

// Run keeps the heartbeat until ctx ends, then deletes it, so that others take over what this worker still holds. It returns nil; errors
// of Redis are logged and outlived. Another process that starts under the same id takes the name over: this one then waits until it is free.
func (w *Worker) Run(ctx context.Context) error {
	before, losses := "", 0
	var again backoff
	for first := true; ctx.Err() == nil; first = false {
		e := w.acquire(ctx, first, before)
		if e == nil {
			break
		}
		before = e.token
		begun := time.Now()
		err := w.keep(ctx, e)
		if ctx.Err() != nil {
			w.release(ctx, e)
			w.finish(e, ErrStopped)
			break
		}
		if time.Since(begun) >= w.ttl {
			losses = 0
			again.reset()
		}
		// One that is lost at once, such as by eviction, is lost again: not in a hot loop, and not in a line each.
		level := slog.LevelDebug
		if losses++; losses == 1 {
			level = slog.LevelWarn
		}
		w.log.Log(ctx, level, "stream: the heartbeat was lost, what was held is dropped", "losses", losses, "error", err)
		w.finish(e, ErrLost)
		if losses > 1 {
			pause(again.next(), ctx)
		}
	}
	return nil
}

// acquire takes a new token after the one before. nil = ctx ended first.
//
// Redis may execute a try after the worker gave up waiting for its answer. All tries have the same token, so that such a try is not taken
// for another process, and each is valid only while the worker waits for it: until a time by the server's clock, which the first try asks for.
func (w *Worker) acquire(ctx context.Context, first bool, before string) *epoch {
	var b backoff
	force := "0"
	if first {
		force = "1"
	}
	e := &epoch{key: w.key(), token: uuid.NewString()}
	patience := max(w.ttl, time.Second)
	for late := int64(0); ; {
		begun := time.Now()
		call, cancel := context.WithTimeout(ctx, patience)
		answer, now, err := acquired(acquireScript.Run(call, w.rdb, []string{w.key()},
			e.token, milliseconds(w.ttl), force, takeoverMark, before, strconv.FormatInt(late, 10)))
		cancel()
		switch {
		case answer == "ok":
			e.ctx, e.end = context.WithCancelCause(context.WithoutCancel(ctx))
			e.trust = lease.New(begun, w.ttl)
			w.set(e)
			return e
		case ctx.Err() != nil:
			w.release(ctx, e) // the answer may have been lost, and the heartbeat be there
			return nil
		case answer == "late":
			late = now + patience.Milliseconds()
			continue
		case answer == "taken":
			w.log.Error("stream: another process runs under this worker id, waiting until it ends; give every process its own id")
		default:
			w.log.Warn("stream: no heartbeat yet", "error", err)
		}
		if !pause(min(b.next(), w.ttl/3), ctx) {
			return nil
		}
	}
}

// acquired reads a reply of worker_acquire.lua. now is the server's time in ms if the answer is "late".
func acquired(r rueidis.RedisResult) (answer string, now int64, err error) {
	reply, err := r.AsStrSlice()
	if err != nil {
		return "", 0, err
	}
	if len(reply) == 2 && reply[0] == "late" {
		if now, err = strconv.ParseInt(reply[1], 10, 64); err != nil {
			return "", 0, fmt.Errorf("stream: worker_acquire.lua replied %q: %w", reply, err)
		}
	}
	if len(reply) == 0 {
		return "", 0, errors.New("stream: worker_acquire.lua replied nothing")
	}
	return reply[0], now, nil
}

// keep renews the token until it is lost or ctx ends.
func (w *Worker) keep(ctx context.Context, e *epoch) error {
	return e.trust.Keep(ctx, func(ctx context.Context, ttl time.Duration, _ bool) error {
		ok, err := isOK(renewScript.RunApart(ctx, w.rdb, []string{w.key()}, e.token, milliseconds(ttl)))
		if err == nil && !ok {
			err = lease.ErrGone
		}
		return err
	})
}

// doubt lets the heartbeat be looked at now: a script found the token gone, or everything else.
func (w *Worker) doubt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current != nil {
		w.current.trust.Doubt()
	}
}

// release ends the heartbeat; if that fails, it expires.
func (w *Worker) release(ctx context.Context, e *epoch) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(min(w.ttl, 2*time.Second), 100*time.Millisecond))
	defer cancel()
	if err := releaseScript.Run(call, w.rdb, []string{w.key()}, e.token).Error(); err != nil {
		w.log.Warn("stream: heartbeat not deleted, it will expire", "error", err)
	}
}

func (w *Worker) key() string { return w.keys.Worker(w.id) }

func (w *Worker) set(e *epoch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = e
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *Worker) finish(e *epoch, cause error) {
	w.set(nil)
	e.end(cause)
}

// await returns the current epoch, as soon as there is one.
func (w *Worker) await(ctx context.Context) (*epoch, error) {
	for {
		w.mu.Lock()
		e, changed := w.current, w.changed
		w.mu.Unlock()
		if e != nil && e.ctx.Err() == nil && ctx.Err() == nil {
			return e, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("stream: no heartbeat: %w", ctx.Err())
		case <-changed:
		}
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }
