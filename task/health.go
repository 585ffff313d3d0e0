package task

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/stream"
)

// Health is how a worker is.
type Health struct {
	OK        bool          `json:"ok"` // Redis answers, and this worker counts as alive there
	Problem   string        `json:"problem,omitempty"`
	Ping      time.Duration `json:"ping_ns"`             // round trip to Redis
	LastFetch time.Time     `json:"last_fetch,omitzero"` // when it last began with a task; zero = never yet
	InFlight  int           `json:"in_flight"`           // handlers that run
	Slots     int           `json:"slots"`               // handlers that may run at once
	Lag       time.Duration `json:"lag_ns"`              // age of the oldest task in its queues that no worker has taken; 0 = there is none
}

// Health asks Redis, and says how this worker is. It never fails: what is wrong is Problem. Up to three round trips, within ctx and at most five seconds.
func (w *Worker) Health(ctx context.Context) Health {
	h := Health{InFlight: w.inFlight()}
	for _, n := range w.opts.Concurrency {
		h.Slots += n
	}
	if at := w.fetchedAt.Load(); at > 0 {
		h.LastFetch = time.Unix(0, at).UTC()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	begun := time.Now()
	now, err := w.client.Now(ctx)
	h.Ping = time.Since(begun)
	if err == nil {
		h.Lag, err = w.lag(ctx, now)
	}
	switch {
	case err != nil:
		h.Problem = "Redis: " + err.Error()
	case w.stream.Token() == "":
		h.Problem = "the worker has no heartbeat: it is starting, stopping, or was declared dead"
	default:
		h.OK = true
	}
	return h
}

func (w *Worker) inFlight() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.running)
}

// lag is the age of the oldest task that nobody has taken. Two round trips.
func (w *Worker) lag(ctx context.Context, now time.Time) (lag time.Duration, err error) {
	c := w.client
	var keys []string
	var asks rueidis.Commands
	for size := range w.opts.Concurrency {
		for _, p := range Priorities() {
			key := c.keys.TaskStream(string(queueOf(p, size)))
			keys = append(keys, key)
			asks = append(asks, c.rdb.B().XinfoGroups().Key(key).Build())
		}
	}
	var heads rueidis.Commands
	for i, r := range c.rdb.DoMulti(ctx, asks...) {
		g, err := parseGroup(r, c.keys.TaskGroup())
		if err != nil && !stream.IsNoGroup(err) {
			return 0, err
		}
		heads = append(heads, c.rdb.B().Xrange().Key(keys[i]).Start(g.undelivered()).End("+").Count(1).Build())
	}
	for _, r := range c.rdb.DoMulti(ctx, heads...) {
		head, err := r.AsXRange()
		if err != nil {
			return 0, err
		}
		if len(head) > 0 {
			lag = max(lag, now.Sub(entryTime(head[0].ID)))
		}
	}
	return lag, nil
}

// HealthHandler answers with Health as JSON, and with status 503 unless it is OK, for probes. With ?max_lag=30s it is 503 also if tasks have waited longer than that.
func (w *Worker) HealthHandler() http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var longest time.Duration
		if text := r.URL.Query().Get("max_lag"); text != "" {
			var err error
			if longest, err = time.ParseDuration(text); err != nil || longest <= 0 {
				http.Error(rw, "max_lag "+strconv.Quote(text)+": want a duration like 30s", http.StatusBadRequest)
				return
			}
		}
		h := w.Health(r.Context())
		if h.OK && longest > 0 && h.Lag > longest {
			h.OK, h.Problem = false, "tasks have waited for "+h.Lag.Round(time.Millisecond).String()
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Cache-Control", "no-store")
		if !h.OK {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(rw).Encode(h) // whoever asked has gone
	})
}
