package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// stored is an event as it is in Redis: JSON with short names and times in Unix microseconds, UTC. Most of the memory of an instance is its history, and a third of that would be names.
// It is one line, as await.lua and complete.lua want it.
type stored struct {
	ID       string          `json:"i"`
	Type     string          `json:"t"`
	Sequence int64           `json:"s"`
	Ref      int64           `json:"r"`
	At       int64           `json:"at"`
	Visible  *int64          `json:"v"`
	Data     json.RawMessage `json:"d"`
}

// encode is an event as it is stored.
func (c *Client) encode(field string, e Event) (string, error) {
	switch {
	case e.ID == "" || len(e.ID) > maxName:
		return "", &EventError{field + ".ID", clip(e.ID), fmt.Sprintf("must be 1 to %d bytes", maxName)}
	case e.Type == "" || len(e.Type) > maxName:
		return "", &EventError{field + ".Type", clip(e.Type), fmt.Sprintf("must be 1 to %d bytes", maxName)}
	case len(e.Data) > 0 && !json.Valid(e.Data):
		return "", &EventError{field + ".Data", clip(string(e.Data)), "must be JSON"}
	}
	b := appendEvent(make([]byte, 0, 160+len(e.Data)), e)
	if len(b) > c.opts.MaxEvent {
		return "", &EventError{field, e.Type, fmt.Sprintf("has %d bytes as JSON, at most %d are allowed (Options.MaxEvent)", len(b), c.opts.MaxEvent)}
	}
	return string(b), nil
}

// appendEvent writes what stored reads; Data is JSON. It is written by hand because it is on every hot path, and encoding/json would read Data twice more.
func appendEvent(b []byte, e Event) []byte {
	b = appendText(append(b, `{"i":`...), e.ID)
	b = appendText(append(b, `,"t":`...), e.Type)
	if e.Sequence != 0 {
		b = strconv.AppendInt(append(b, `,"s":`...), e.Sequence, 10)
	}
	if e.Ref != 0 {
		b = strconv.AppendInt(append(b, `,"r":`...), e.Ref, 10)
	}
	b = strconv.AppendInt(append(b, `,"at":`...), e.Time.UnixMicro(), 10)
	if e.VisibleAt != nil {
		b = strconv.AppendInt(append(b, `,"v":`...), e.VisibleAt.UnixMicro(), 10)
	}
	if len(e.Data) > 0 {
		b = append(b, `,"d":`...)
		if bytes.ContainsAny(e.Data, "\n\r") {
			var line bytes.Buffer
			_ = json.Compact(&line, e.Data) // it is valid
			b = append(b, line.Bytes()...)
		} else {
			b = append(b, e.Data...)
		}
	}
	return append(b, '}')
}

// appendText writes a string as JSON.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // strings always can be
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func decodeEvent(text string) (Event, error) {
	var s stored
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Event{}, fmt.Errorf("workflow: an event that is stored cannot be read: %w", err)
	}
	return s.event(), nil
}

// decodeKnown is decodeEvent for those who work on it, and says whether it has what only later versions know.
func decodeKnown(text string) (e Event, more bool, err error) {
	var s stored
	if more, err = strictly(text, &s); err != nil {
		return Event{}, more, fmt.Errorf("workflow: an event that is stored cannot be read: %w", err)
	}
	return s.event(), more, nil
}

func (s stored) event() Event {
	e := Event{ID: s.ID, Type: s.Type, Sequence: s.Sequence, Ref: s.Ref, Time: time.UnixMicro(s.At).UTC(), Data: s.Data}
	if s.Visible != nil {
		at := time.UnixMicro(*s.Visible).UTC()
		e.VisibleAt = &at
	}
	return e
}

func decodeEvents(list []string) ([]Event, error) {
	out := make([]Event, len(list))
	for i, s := range list {
		var err error
		if out[i], err = decodeEvent(s); err != nil {
			return nil, err
		}
	}
	return out, nil
}
