package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/taktworks/takt/internal/stream"
)

// deadTask pauses an instance whose task killed worker after worker.
func (q *queue) deadTask(ctx context.Context, e *stream.Entry, cause error) error {
	id := e.Fields["i"]
	q.w.c.log.Error("workflow: the instance is paused, its task killed worker after worker; resume it once that is mended", "instance", id, "error", cause)
	if err := q.release(ctx, e, id, "", "", 0, true); err != nil && !errors.Is(err, ErrLost) {
		return err
	}
	return nil // if it is lost, somebody else sees to it
}

// deadActivity lets an activity fail that killed worker after worker.
func (q *queue) deadActivity(ctx context.Context, e *stream.Entry, cause error) error {
	t, err := q.activity(e)
	if err != nil {
		return err
	}
	text, err := q.w.failed(t, cause)
	if err != nil {
		return err
	}
	return settleScript.Run(ctx, q.s.c.rdb, []string{e.Heartbeat(), q.s.keys.Run(t.Instance.ID)},
		q.s.base, e.Token(), e.Consumer(), e.ID, t.Instance.ID, t.Instance.Execution, t.Queue, t.ref(), text, "0").Error()
}

// failed is the event, as it is stored, that an instance gets of an activity that was given up.
func (w *Worker) failed(t *ActivityTask, cause error) (text string, err error) {
	for _, f := range []func(*ActivityTask, error) Event{w.opts.Failure, failure} { // its instance waits for one
		if f == nil {
			continue
		}
		event := f(t, cause)
		event.ID, event.Ref, event.Time = newID(), t.Event.Ref, time.Now()
		if text, err = w.c.encode("failure", event); err == nil {
			break
		}
		w.c.log.Error("workflow: what WorkerOptions.Failure made cannot be recorded", "instance", t.Instance.ID, "error", err)
	}
	return text, err
}

func failure(_ *ActivityTask, cause error) Event {
	message := "the activity killed worker after worker and was given up: " + cause.Error()
	if errors.Is(cause, errDeleted) {
		message = "the activity was given up: " + cause.Error()
	}
	data, _ := json.Marshal(map[string]any{"error": map[string]string{"type": "*workflow.GivenUp", "message": message}}) // strings always can be
	return Event{Type: EventActivityErr, Data: data}
}
