package task

import (
	"context"
	"encoding/json"
	"errors"
	"time"

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
	db := redis.Database(ctx, c.rdb)
	w := redis.Watcher{Package: "task", Publishers: "workers", Database: db, Buffer: watchBuffer, Log: c.log}
	watched := redis.Watched{Channel: c.keys.TaskEvents(db), Key: c.keys.TaskWatched(), Told: c.callWorkers}
	return w.Run(ctx, c.rdb, []redis.Watched{watched}, func(batch string) { c.tellWatcher(ctx, batch, f) })
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

// callWorkers has workers look at once for a watcher; else they do every few seconds. One round trip.
func (c *Client) callWorkers(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := c.rdb.Do(call, c.rdb.B().Publish().Channel(c.keys.TaskControl()).Message("watched").Build()).Error(); err != nil {
		c.log.Debug("task: workers find a watcher by themselves, a little later", "error", err)
	}
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
