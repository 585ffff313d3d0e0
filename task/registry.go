package task

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/stream"
)

var (
	registerScript = script.Load(files, "task/register")
	tidyScript     = script.Load(files, "task/tidy")
)

// WorkerInfo is what a worker says of itself, every third of its lease.
type WorkerInfo struct {
	ID      string        `json:"id"`
	Host    string        `json:"host"`
	PID     int           `json:"pid"`
	Version string        `json:"version,omitempty"` // of the program
	Since   time.Time     `json:"since"`             // when it started, by its clock
	Seen    time.Time     `json:"seen,omitzero"`     // when it wrote this, by its clock
	Lease   time.Duration `json:"lease_ns"`
	Slots   map[Size]int  `json:"slots"`
	Types   []string      `json:"types,omitempty"`   // names that it has handlers for, sorted, at most 1,000
	Fetched uint64        `json:"fetched"`           // tasks that it began with
	Ended   uint64        `json:"ended"`             // of those: written to Redis, whatever became of them
	InHand  int           `json:"in_hand"`           // handlers that run
	Running []RunInfo     `json:"running,omitempty"` // at most 1,000 of them, longest first

	Alive bool `json:"alive"` // has a heartbeat now; set by Workers
}

// RunInfo is one run of a handler.
type RunInfo struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Queue    Queue     `json:"queue"`
	Attempt  int       `json:"attempt"`
	Started  time.Time `json:"started"`
	Deadline time.Time `json:"deadline,omitzero"` // when its context ends; zero = never
}

const maxListed = 1000 // runs, and types, of one record

// Workers lists those that are registered, by id. One that died is listed until another tidies up after it, about a lease later. One round trip for each 200 workers, and one more.
func (c *Client) Workers(ctx context.Context) ([]WorkerInfo, error) {
	by := make(map[string]WorkerInfo)
	err := c.hashPairs(ctx, c.keys.TaskWorkers(), func(id, record string) {
		w, failed := readWorker(id, record)
		if failed != nil {
			c.log.Warn("task: the record of a worker cannot be read", "worker", id, "error", failed)
		}
		by[id] = w
	})
	if err != nil {
		return nil, fmt.Errorf("task: workers: %w", err)
	}
	all := slices.SortedFunc(maps.Values(by), func(a, b WorkerInfo) int { return cmp.Compare(a.ID, b.ID) })
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	alive, err := stream.Living(ctx, c.rdb, c.keys, ids)
	if err != nil {
		return nil, fmt.Errorf("task: workers: %w", err)
	}
	for i := range all {
		all[i].Alive = alive[all[i].ID]
	}
	return all, nil
}

func readWorker(id, record string) (WorkerInfo, error) {
	var w WorkerInfo
	err := json.Unmarshal([]byte(record), &w)
	w.ID = id
	return w, err
}

// register keeps the record of this worker until ctx ends, and then deletes it.
func (w *Worker) register(ctx context.Context) {
	tick := time.Tick(w.opts.Lease / 3)
	for {
		if err := w.publish(ctx); err != nil && ctx.Err() == nil {
			w.log.Debug("task: the worker is not registered", "error", err)
		}
		select {
		case <-ctx.Done():
			w.unregister(ctx)
			return
		case <-tick:
		}
	}
}

// publish writes the record, and that there is a worker for its sizes. One of all workers, by lot, tidies up each time, so that many do not ask about each other at once. Two round trips.
func (w *Worker) publish(ctx context.Context) (err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	record, err := json.Marshal(w.info())
	if err != nil {
		return err
	}
	args := []string{w.opts.ID, string(record), ms(w.opts.Lease)}
	for size := range w.opts.Concurrency {
		args = append(args, string(size))
	}
	w.evictions(w.client.rdb.Do(call, w.client.rdb.B().Info().Section("stats").Build()))
	n, err := registerScript.Run(call, w.client.rdb, []string{w.client.keys.TaskWorkers(), w.client.keys.TaskPools()}, args...).AsInt64()
	if err != nil || n < 2 || rand.Int64N(n) > 0 {
		return err
	}
	return w.tidy(call)
}

// evictions reports it when the server has thrown keys away since the last look: each may have been a task, its result, or what keeps it from being two, and no
// one else would say so. A server that does not answer INFO is not judged.
func (w *Worker) evictions(reply rueidis.RedisResult) {
	text, err := reply.ToString()
	if err != nil {
		return
	}
	n := redis.ParseMemory(text).Evicted
	before := w.evicted.Swap(n)
	if before >= 0 && n > before {
		w.log.Error("task: the server has thrown keys away since its memory is full, tasks may be lost: CONFIG SET maxmemory-policy noeviction", "keys", n-before)
	}
}

// tidy deletes the records of dead workers. What they held, and their names in the streams, is the business of those who read these. Two round trips.
func (w *Worker) tidy(ctx context.Context) error {
	k := w.client.keys
	ids, err := w.client.rdb.Do(ctx, w.client.rdb.B().Hkeys().Key(k.TaskWorkers()).Build()).AsStrSlice()
	if err != nil {
		return err
	}
	for part := range slices.Chunk(ids, scanPage) {
		keys := []string{k.TaskWorkers()}
		for _, id := range part {
			keys = append(keys, k.Worker(id))
		}
		if err := tidyScript.Run(ctx, w.client.rdb, keys, part...).Error(); err != nil {
			return err
		}
	}
	return nil
}

func (w *Worker) unregister(ctx context.Context) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(callTimeout, w.opts.Lease))
	defer cancel()
	if err := w.client.rdb.Do(call, w.client.rdb.B().Hdel().Key(w.client.keys.TaskWorkers()).Field(w.opts.ID).Build()).Error(); err != nil {
		w.log.Debug("task: the worker's record stays until others tidy up", "error", err)
	}
}

// info is the record of now.
func (w *Worker) info() WorkerInfo {
	i := WorkerInfo{ID: w.opts.ID, Host: host(), PID: os.Getpid(), Version: version(), Since: w.begun.UTC(), Seen: time.Now().UTC(), Lease: w.opts.Lease,
		Slots: w.opts.Concurrency, Fetched: w.fetched.Load(), Ended: w.ended.Load()}
	for name := range w.handlers {
		i.Types = append(i.Types, name)
	}
	slices.Sort(i.Types)
	i.Types = i.Types[:min(len(i.Types), maxListed)]
	i.Running, i.InHand = w.runs()
	return i
}

// runs lists what runs, the longest first.
func (w *Worker) runs() ([]RunInfo, int) {
	w.mu.Lock()
	all := make([]RunInfo, 0, len(w.running))
	for r := range w.running {
		all = append(all, RunInfo{ID: r.msg.ID, Name: r.msg.Name, Queue: r.queue, Attempt: r.attempt(), Started: r.begun.UTC(), Deadline: r.until.UTC()})
	}
	w.mu.Unlock()
	slices.SortFunc(all, func(a, b RunInfo) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	return all[:min(len(all), maxListed)], len(all)
}

// ownID is the id of a worker or scheduler that was given none.
func ownID() string {
	return fmt.Sprintf("%s:%d:%08x", cmp.Or(host(), "host"), os.Getpid(), rand.Uint32())
}

// host is the name of the machine, "" if it has none.
func host() string { name, _ := os.Hostname(); return name }

var version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return info.Main.Version
})
