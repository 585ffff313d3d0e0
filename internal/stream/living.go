package stream

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis/script"
)

// Living says which of these workers have a heartbeat of their own now: not those that are being taken over. One round trip.
func Living(ctx context.Context, rdb rueidis.Client, k keys.Keys, ids []string) (map[string]bool, error) {
	alive := make(map[string]bool, len(ids))
	if len(ids) == 0 {
		return alive, nil
	}
	cmds := make(rueidis.Commands, len(ids))
	for i, id := range ids {
		cmds[i] = rdb.B().Get().Key(k.Worker(id)).Build()
	}
	for i, r := range rdb.DoMulti(ctx, cmds...) {
		token, err := r.ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, err
		}
		alive[ids[i]] = err == nil && !strings.HasPrefix(token, takeoverMark)
	}
	return alive, nil
}

// Shorten is for who looks at heartbeats of others: left says for each worker when its heartbeat expires, in ms, as PTTL does. One that lasts for longer
// than its worker can have set is from before the server's clock stepped back, and would keep a dead worker alive for as long as the step: it now
// ends after its time to live. No round trip if none lasts for longer than this worker's own.
func (w *Worker) Shorten(ctx context.Context, left map[string]int64) error {
	var ids []string
	var calls []script.Call
	for id, ms := range left {
		if id != w.id && ms > w.ttl.Milliseconds() {
			ids = append(ids, id)
			calls = append(calls, script.Call{Keys: []string{w.keys.Worker(id)}, Args: []string{milliseconds(w.ttl)}})
		}
	}
	if len(calls) == 0 {
		return nil
	}
	for i, r := range shortenScript.RunMulti(ctx, w.rdb, calls) {
		reply, err := r.AsStrSlice()
		if err != nil {
			return fmt.Errorf("stream: heartbeat of %s: %w", ids[i], err)
		}
		if slices.Equal(reply, []string{"shortened"}) {
			w.SteppedBack(w.keys.Worker(ids[i]))
		}
	}
	return nil
}

// SteppedBack logs that a key had to be shortened, for the server's clock stepped back: one line a minute at level WARN, whatever number of keys that concerns.
func (w *Worker) SteppedBack(key string) {
	now, before, level := time.Now(), w.warned.Load(), slog.LevelDebug
	if (before == nil || now.Sub(*before) >= time.Minute) && w.warned.CompareAndSwap(before, &now) {
		level = slog.LevelWarn
	}
	w.log.Log(context.Background(), level, script.SteppedBack, "key", key)
}

// Before says whether the entry of id a stands before that of id b.
func Before(a, b string) bool { return compareIDs(a, b) < 0 }
