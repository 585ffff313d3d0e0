package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// EventError says what is wrong with an event.
type EventError struct{ Field, Value, Rule string }

func (e *EventError) Error() string {
	return fmt.Sprintf("workflow: %s %q: %s", e.Field, e.Value, e.Rule)
}

// within puts an error of the n-th of a list into that list. What is right is not named: checkpoints are written all the time.
func within(list string, n int, err error) error {
	if wrong := (*EventError)(nil); errors.As(err, &wrong) {
		wrong.Field = fmt.Sprintf("%s[%d]%s", list, n, wrong.Field)
	}
	if wrong := (*NameError)(nil); errors.As(err, &wrong) {
		wrong.Field = fmt.Sprintf("%s[%d]%s", list, n, wrong.Field)
	}
	return err
}

func decodeInfo(s string) (i Info, err error) {
	if err := json.Unmarshal([]byte(s), &i); err != nil {
		return i, fmt.Errorf("workflow: a document that is stored cannot be read: %w", err)
	}
	return i, nil
}

func encodeInfo(i Info) (string, error) {
	b, err := json.Marshal(i)
	if err != nil {
		return "", fmt.Errorf("workflow: document of %s: %w", i.Instance, err)
	}
	return string(b), nil
}

func clip(s string) string {
	if len(s) > maxName {
		return s[:maxName] + "..."
	}
	return s
}

// check refuses an instance that cannot be part of keys.
func (i Instance) check(field string) error {
	if err := checkName(field+".ID", i.ID); err != nil {
		return err
	}
	switch {
	case i.Execution == "" || len(i.Execution) > maxExecution:
		return &NameError{field + ".Execution", clip(i.Execution), fmt.Sprintf("must be 1 to %d bytes", maxExecution)}
	case strings.Contains(i.Execution, ":"):
		return &NameError{field + ".Execution", i.Execution, "must not have a colon"}
	}
	return checkName(field+".Execution", i.Execution)
}

const maxExecution = 64

// checkOrActive is check where Execution "" stands for the active one, or the newest.
func (i Instance) checkOrActive(field string) error {
	if i.Execution != "" {
		return i.check(field)
	}
	return checkName(field+".ID", i.ID)
}

// document is the first of a new instance.
func (s Start) document() Info {
	return Info{Instance: s.Instance, Queue: s.Queue, Name: s.Name, State: Active, Created: s.Event.Time, Attributes: s.Attributes, Metadata: s.Metadata, Gate: s.Gate}
}

func (c *Client) checkStart(field string, s Start) error {
	name := field + ".Instance"
	for i := &s.Instance; i != nil; i = i.Parent {
		if err := i.check(name); err != nil {
			return err
		}
		name += ".Parent"
	}
	if err := checkQueue(field+".Queue", s.Queue); err != nil {
		return err
	}
	if s.Name != "" {
		if err := checkName(field+".Name", s.Name); err != nil {
			return err
		}
	}
	if len(s.Metadata) > c.opts.MaxEvent {
		return &EventError{field + ".Metadata", clip(string(s.Metadata)), fmt.Sprintf("has %d bytes, at most %d are allowed (Options.MaxEvent)", len(s.Metadata), c.opts.MaxEvent)}
	}
	if len(s.Metadata) > 0 && !json.Valid(s.Metadata) {
		return &EventError{field + ".Metadata", clip(string(s.Metadata)), "must be JSON"}
	}
	if len(s.Attributes) > maxAttributes {
		return &NameError{field + ".Attributes", strconv.Itoa(len(s.Attributes)), fmt.Sprintf("must be at most %d", maxAttributes)}
	}
	for name, value := range s.Attributes {
		if err := checkName(field+".Attributes", name); err != nil {
			return err
		}
		if len(value) > maxName {
			return &NameError{field + ".Attributes." + name, clip(value), fmt.Sprintf("must be at most %d bytes", maxName)}
		}
		if !utf8.ValidString(value) { // the document would have another, and no search find it
			return &NameError{field + ".Attributes." + name, strings.ToValidUTF8(value, "?"), "must be UTF-8"}
		}
	}
	if s.Gate != nil {
		if err := checkName(field+".Gate.Key", s.Gate.Key); err != nil {
			return err
		}
		if s.Gate.Max < 1 {
			return &NameError{field + ".Gate.Max", strconv.Itoa(s.Gate.Max), "must be 1 or more"}
		}
	}
	if s.Event.Time.IsZero() {
		return &EventError{field + ".Event.Time", "0", "must be set: it is when the instance was created"}
	}
	return nil
}

func checkQueue(field, name string) error {
	if err := checkName(field, name); err != nil {
		return err
	}
	switch {
	case strings.ContainsAny(name, " *?[]\\"):
		return &NameError{field, name, "must have no space and none of *?[]\\"}
	case strings.HasSuffix(name, deadSuffix):
		return &NameError{field, name, "must not end with " + deadSuffix + ": that is where dead letters go"}
	}
	return nil
}

// deadSuffix is what the dead letters of a stream end with (internal/keys).
const deadSuffix = ":dead"

// words are those of act for a start, as a message from one shard to another. from is who is told if the instance is active already, with rejected.
func (c *Client) startWords(home *shard, s Start, from *shard, sender Instance, rejected *Event) ([]string, error) {
	doc, err := encodeInfo(s.document())
	if err != nil {
		return nil, err
	}
	event, err := c.encode("Start.Event", s.Event)
	if err != nil {
		return nil, err
	}
	words := []string{"start", s.Instance.ID, s.Instance.Execution, doc, s.Queue, strconv.FormatInt(s.Event.Time.UnixMicro(), 10), event, s.Name, "", "", "", "", "", "", "", ""}
	if s.Gate != nil {
		words[8], words[9], words[10], words[11] = s.Gate.Key, strconv.Itoa(s.Gate.Max), c.of(s.Gate.Key).name(home), gateHome(c.of(s.Gate.Key), home)
	}
	if rejected != nil {
		back, err := c.encode("Message.Rejected", *rejected)
		if err != nil {
			return nil, err
		}
		words[12], words[13], words[14], words[15] = from.name(home), sender.ID, sender.Execution, back
	}
	return words, nil
}

// gateHome is what the shard of a gate calls that of an instance.
func gateHome(gate, home *shard) string { return home.name(gate) }

func unixMilli(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
