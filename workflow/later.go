package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/taktworks/takt/internal/stream"
)

// version is that of documents and events as this program writes them. A later one that an earlier program must not touch says so in a field "version"; one that only adds fields does not,
// and those fields outlive what earlier programs write.
const version = 1

// errVersion: a later program wrote it, in a way that this one does not understand.
var errVersion = errors.New("workflow: written by a later version")

// strictly decodes text and says whether it has fields that v has not.
func strictly(text string, v any) (more bool, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(v) == nil {
		return false, nil
	}
	var says struct {
		Version int `json:"version"`
	}
	if json.Unmarshal([]byte(text), &says) == nil && says.Version > version {
		return true, fmt.Errorf("%w: %d, this one knows %d", errVersion, says.Version, version)
	}
	return true, json.Unmarshal([]byte(text), v)
}

// changed are the fields of a document that change after its start.
var changed = []string{"state", "outcome", "ended", "last_sequence", "last_event"}

// over is text, a document or an event, with the fields of fresh in it: those that are named, which it loses if fresh has none, or all that fresh has.
func over(text, fresh string, named ...string) (string, error) {
	var all, with map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal([]byte(text), &all), json.Unmarshal([]byte(fresh), &with)); err != nil {
		return "", err
	}
	if len(named) == 0 {
		maps.Copy(all, with)
	}
	for _, name := range named {
		delete(all, name)
		if value, ok := with[name]; ok {
			all[name] = value
		}
	}
	b, err := json.Marshal(all)
	return string(b), err
}

// encodeOver is after as it is stored in the place of doc, which it was decided on; more: it has what this version does not know, and that stays.
func encodeOver(doc string, more bool, after Info) (string, error) {
	text, err := encodeInfo(after)
	if err != nil || !more {
		return text, err
	}
	return over(doc, text, changed...)
}

// setAside leaves an entry alone that only a later version understands: it stays with this worker until that ends, and goes to another then.
func (q *queue) setAside(e *stream.Entry, err error) (stream.Result, error) {
	q.w.c.log.Error("workflow: a task is left alone until this process ends, it takes a later version", "instance", e.Fields["i"], "queue", q.name, "error", err)
	q.w.mu.Lock()
	run := q.w.run
	q.w.mu.Unlock()
	if run == nil { // it has stopped to read
		e.End(false)
		return stream.Later, nil
	}
	context.AfterFunc(run, func() { e.End(false) })
	return stream.Later, nil
}
