package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
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
	return encodeWithin(c.opts.MaxEvent, field, e)
}

// encodeWithin is encode for an event of so many bytes at most.
func encodeWithin(most int, field string, e Event) (string, error) {
	switch {
	case e.ID == "" || len(e.ID) > maxName:
		return "", &EventError{field + ".ID", clip(e.ID), fmt.Sprintf("must be 1 to %d bytes", maxName)}
	case e.Type == "" || len(e.Type) > maxName:
		return "", &EventError{field + ".Type", clip(e.Type), fmt.Sprintf("must be 1 to %d bytes", maxName)}
	case len(e.Data) > 0 && !json.Valid(e.Data):
		return "", &EventError{field + ".Data", clip(string(e.Data)), "must be JSON"}
	}
	b := appendEvent(make([]byte, 0, 160+len(e.Data)), e)
	if len(b) > most {
		return "", &EventError{field, e.Type, fmt.Sprintf("has %d bytes as JSON, at most %d are allowed (Options.MaxEvent)", len(b), most)}
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

// scan reads an event as appendEvent writes it; false: it is to be read as JSON, for there is more to it, or another order. It is a hot path, too.
func scan(text string) (e Event, ok bool) {
	e.ID, text, ok = scanText(text, `{"i":"`)
	if ok {
		e.Type, text, ok = scanText(text, `,"t":"`)
	}
	if !ok {
		return e, false
	}
	e.Sequence, text = scanNumber(text, `,"s":`)
	e.Ref, text = scanNumber(text, `,"r":`)
	before := len(text)
	at, text := scanNumber(text, `,"at":`)
	if len(text) == before {
		return e, false
	}
	e.Time = time.UnixMicro(at).UTC()
	before = len(text)
	if at, text = scanNumber(text, `,"v":`); len(text) < before {
		due := time.UnixMicro(at).UTC()
		e.VisibleAt = &due
	}
	if data, found := strings.CutPrefix(text, `,"d":`); found {
		e.Data = json.RawMessage(strings.TrimSuffix(data, "}"))
		return e, len(e.Data) == len(data)-1 && json.Valid(e.Data) // else another field follows
	}
	return e, text == "}"
}

// scanText reads printable ASCII without escapes after key, and the quote that ends it.
func scanText(text, key string) (value, rest string, ok bool) {
	text, ok = strings.CutPrefix(text, key)
	for i := 0; ok && i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return text[:i], text[i+1:], true
		case c < ' ' || c > '~' || c == '\\':
			return "", "", false
		}
	}
	return "", "", false
}

// scanNumber reads a number after key; the rest is text if there is none.
func scanNumber(text, key string) (n int64, rest string) {
	after, ok := strings.CutPrefix(text, key)
	end := strings.IndexAny(after, ",}")
	if !ok || end < 1 {
		return 0, text
	}
	n, err := strconv.ParseInt(after[:end], 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != after[:end] { // +1 and 01 are no JSON
		return 0, text
	}
	return n, after[end:]
}

func decodeEvent(text string) (Event, error) {
	if e, ok := scan(text); ok {
		return e, nil
	}
	var s stored
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Event{}, fmt.Errorf("workflow: an event that is stored cannot be read: %w", err)
	}
	return s.event(), nil
}

// decodeKnown is decodeEvent for those who work on it, and says whether it has what only later versions know.
func decodeKnown(text string) (e Event, more bool, err error) {
	if e, ok := scan(text); ok {
		return e, false, nil
	}
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
