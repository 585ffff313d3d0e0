package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/stream"
)

// Ended is the end of a run as watchers are told of it.
type Ended struct {
	ID      string        `json:"id"`
	Name    string        `json:"name"` // "" = the message could not be read
	Queue   Queue         `json:"queue"`
	Outcome Outcome       `json:"outcome"`
	Error   string        `json:"error,omitempty"` // the first 512 bytes
	Took    time.Duration `json:"-"`               // in JSON as took_ms, milliseconds
	Attempt int           `json:"attempt"`
}

// Final says that the task has ended, and not only this run of it.
func (e Ended) Final() bool { return e.Outcome == Done || e.Outcome == Dead || e.Outcome == Cancelled }

type (
	endedFields Ended
	endedJSON   struct {
		endedFields
		TookMS float64 `json:"took_ms"`
	}
)

// MarshalJSON implements json.Marshaler.
func (e Ended) MarshalJSON() ([]byte, error) {
	return json.Marshal(endedJSON{endedFields(e), float64(e.Took.Microseconds()) / 1000})
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Ended) UnmarshalJSON(b []byte) error {
	var j endedJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*e = Ended(j.endedFields)
	e.Took = time.Duration(j.TookMS * float64(time.Millisecond))
	return nil
}

const (
	watchedFor   = 10 * time.Second // workers publish for that long after the last sign of a watcher
	watchRenewal = watchedFor / 4
	watchBuffer  = 256 // batches that wait for a slow watcher
	maxEndedText = 512 // bytes of an error
)

// Watch calls f, from one goroutine, with the end of every run of every worker of the prefix until ctx ends, and returns nil then. It is for people who look on, not for
// work that depends on it: what ends in the first moments, while a connection is lost, or while f is slower than the workers is not told, and after a lost reply of Redis
// something may be told twice. Ends of one task may change places, when it runs again at once; Ended.Attempt counts its runs. Workers publish only while somebody watches.
func (c *Client) Watch(ctx context.Context, f func(Ended)) error {
	if f == nil {
		return errors.New("task: Watch: the function is missing")
	}
	batches, subscribed := make(chan string, watchBuffer), make(chan struct{}, 1)
	var missed atomic.Int64
	ctx, cancel := context.WithCancelCause(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel(nil)
	db := redis.Database(ctx, c.rdb)
	helpers.Go(func() {
		redis.Subscribe(ctx, c.rdb, c.keys.TaskEvents(db), func() { poke(subscribed) }, func(batch string) {
			select {
			case batches <- batch:
			default:
				missed.Add(1)
			}
		}, c.log)
	})
	helpers.Go(func() { cancel(c.keepWatched(ctx, subscribed, db)) })
	for {
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); redis.Denied(err) {
				return err
			}
			return nil
		case batch := <-batches:
			c.tellWatcher(ctx, batch, f)
		}
		if n := missed.Swap(0); n > 0 {
			c.log.Warn("task: a watcher is too slow and was not told of everything", "batches_missed", n)
		}
	}
}

func (c *Client) tellWatcher(ctx context.Context, batch string, f func(Ended)) {
	var all []Ended
	if err := json.Unmarshal([]byte(batch), &all); err != nil {
		c.log.Warn("task: what a worker published cannot be read", "error", err)
	}
	for _, e := range all {
		if ctx.Err() != nil {
			return
		}
		f(e)
	}
}

// keepWatched tells workers that somebody watches, again and again until ctx ends. They look every few seconds; after each subscription they are told at once. The error
// is a missing right, or a server that takes no writes: nothing would be told.
func (c *Client) keepWatched(ctx context.Context, subscribed <-chan struct{}, db string) error {
	tick := time.NewTicker(watchRenewal)
	defer tick.Stop()
	told := false
	for {
		first := false
		select {
		case <-ctx.Done():
			return nil
		case <-subscribed:
			first = true
		case <-tick.C:
		}
		err := c.markWatched(ctx, first, db)
		told = told || err == nil
		if redis.Denied(err) {
			return fmt.Errorf("task: Watch: workers publish only while the key %[1]s is there; add to the rights of this user (+set ~%[1]s): %[2]w", c.keys.TaskWatched(), err)
		}
		if _, refused := rueidis.IsRedisErr(err); refused && !told { // a replica, or a full memory
			return fmt.Errorf("task: Watch: workers publish only while the key %s is there, and Redis does not take it; watch on the master, and when it has room: %w", c.keys.TaskWatched(), err)
		}
		if err != nil && ctx.Err() == nil {
			c.log.Debug("task: workers do not know yet that somebody watches", "error", err)
		}
	}
}

// markWatched is one round trip, and one more if workers are to look at once.
func (c *Client) markWatched(ctx context.Context, now bool, db string) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	b := c.rdb.B()
	err := c.rdb.Do(call, b.Set().Key(c.keys.TaskWatched()).Value(db).Px(watchedFor).Build()).Error()
	if err != nil || !now {
		return err
	}
	if err = c.rdb.Do(call, b.Publish().Channel(c.keys.TaskControl()).Message("watched").Build()).Error(); redis.Denied(err) {
		return nil // they find it by themselves, a little later
	}
	return err
}

// finishAndTell is finish, and tells those who watch, if any do, of what is in Redis then.
func (w *Worker) finishAndTell(ctx context.Context, b stream.Batch) error {
	if err := w.finish(ctx, b); err != nil {
		return err
	}
	if db := w.control.watched(); db != "" {
		w.tell(ctx, b, db)
	}
	return nil
}

// tell is one round trip for a batch. It fails in silence: the tasks have ended, told or not.
func (w *Worker) tell(ctx context.Context, b stream.Batch, db string) {
	all := make([]Ended, len(b.Entries))
	for i, e := range b.Entries {
		all[i] = effect(e).ended()
	}
	text, err := json.Marshal(all)
	if err == nil {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		err = w.client.rdb.Do(call, w.client.rdb.B().Publish().Channel(w.client.keys.TaskEvents(db)).Message(string(text)).Build()).Error()
	}
	if err != nil {
		w.log.Debug("task: watchers were not told", "error", err)
	}
}

func (o *outcome) ended() Ended {
	e := Ended{ID: o.task, Name: o.name, Queue: o.queue, Outcome: o.kind, Took: o.run.took, Attempt: o.attempt()}
	if e.Took == 0 { // whoever watches has come in between
		e.Took = time.Since(o.run.begun)
	}
	if o.err != nil {
		e.Error = clip(o.err.Error(), maxEndedText)
	}
	return e
}
