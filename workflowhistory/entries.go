package workflowhistory

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/taktworks/takt/workflow"
)

// eventData is what the events of go-workflows have in common.
type eventData struct {
	Name      string                          `json:"name"`
	Inputs    []payload                       `json:"inputs"`
	Result    payload                         `json:"result"`
	Arg       payload                         `json:"arg"`
	At        time.Time                       `json:"at"`
	Reason    string                          `json:"reason"`
	Continued string                          `json:"continued_execution_id"`
	Child     map[string]any                  `json:"sub_workflow_instance"`
	Error     *struct{ Type, Message string } `json:"error"`
}

// payload is a value: base64 of JSON as go-workflows writes it, or JSON.
type payload string

func (p *payload) UnmarshalJSON(text []byte) error {
	var raw []byte
	if json.Unmarshal(text, &raw) == nil && json.Valid(raw) {
		text = raw
	}
	*p = payload(text)
	return nil
}

func read(e *workflow.Event) (d eventData) {
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &d) != nil {
		d = eventData{} // of another library
	}
	return d
}

// value is what came with an event, whole; that of an event of another library is its data.
func (d *eventData) value(data json.RawMessage) string {
	var all []string
	for _, in := range d.Inputs {
		all = append(all, string(in))
	}
	text := cmp.Or(strings.Join(all, ", "), string(d.Result), string(d.Arg), d.Reason)
	switch id, _ := d.Child["instance_id"].(string); {
	case d.Error != nil:
		text = strings.TrimPrefix(d.Error.Type+": "+d.Error.Message, ": ")
	case text == "" && id != "":
		text = id
	case text == "" && !d.At.IsZero():
		text = "at " + d.At.UTC().Format("2006-01-02 15:04:05.000")
	case text == "" && d.Name == "" && d.Continued == "":
		text = Decoded(data)
	}
	return text
}

// Entry is an event for people.
type Entry struct {
	Sequence, Ref int64 // as in workflow.Event
	Time          time.Time
	Type          string
	Name          string // of the activity, timer, signal or workflow; of an end that of what ends; "" = none, or it is not known
	Value         string // whole: inputs, result, error, time of a timer, or instance that was started; the data of an event of another library; "" = none
}

// Reader reads the events of one history in their order. The zero value has read none.
type Reader struct{ names map[int64]string }

// Entry is the next event.
func (r *Reader) Entry(e *workflow.Event) Entry {
	entry := EntryOf(e)
	switch {
	case ends[e.Type] != "":
		entry.Name = cmp.Or(entry.Name, r.names[e.Ref])
	case kinds[e.Type] != "":
		if r.names == nil {
			r.names = make(map[int64]string)
		}
		r.names[e.Ref] = entry.Name
	}
	return entry
}

// EntryOf is one event without the others of its history.
func EntryOf(e *workflow.Event) Entry {
	d := read(e)
	return Entry{Sequence: e.Sequence, Ref: e.Ref, Time: e.Time, Type: e.Type, Name: d.Name, Value: d.value(e.Data)}
}

// Decoded is JSON on a line, with texts that are base64 of JSON replaced by that. What is no JSON stays as it is.
func Decoded(data json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	lines.SetEscapeHTML(false)
	if d.Decode(&v) != nil || lines.Encode(decoded(v)) != nil {
		return string(data)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

func decoded(v any) any {
	switch v := v.(type) {
	case string:
		raw, err := base64.StdEncoding.DecodeString(v)
		if err == nil && len(raw) > 0 && json.Valid(raw) {
			return json.RawMessage(raw)
		}
	case []any:
		for i := range v {
			v[i] = decoded(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = decoded(v[key])
		}
	}
	return v
}
