package jobstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
)

// StoredOrder is a job order with what belongs to it: its state, and the scope that stored it.
type StoredOrder struct {
	JobOrder *isa95.JobOrder
	State    isa95.State
	Scope    isa95.Scope

	Event EventMark // the last status event

	Station Station // how far a station has it that runs it without a recipe

	text []byte // of JobOrder in the document, if it is as Takt writes it; nil: not known

	// JudgedBy is the SHA of the recipe that the parameters of the order were checked against when it was accepted, or
	// JudgedByNone when it names a work master and none was known to have a recipe of ours. It is "" when the order names no work
	// master.
	JudgedBy string
}

// Text is JobOrder as JSON, as it stands in the stored document: an order is encoded when it comes and when it is updated, and its bytes stay the same
// until then. Where another program wrote the document, it is encoded anew. It must not be changed.
func (o *StoredOrder) Text() ([]byte, error) {
	if o.text != nil {
		return o.text, nil
	}
	return isa95.Marshal(o.JobOrder)
}

// JudgedByNone is StoredOrder.JudgedBy of an order whose work master had no recipe when it was accepted.
const JudgedByNone = "none"

// EventMark is the last status event of a job order. It stands in the order's document, which each event is committed with. It counts on
// when the id is stored again while the old document is there.
type EventMark struct {
	Sequence     int64  `json:"sequence"`     // from 1; 0 = not known
	RecordedTime string `json:"recordedtime"` // as in the event
}

// nextEvent is the mark of the event that follows job, nil: the first of its id. Where another program wrote the document, the number of
// its events is lost; then the Unix time in seconds is higher than any number before.
func nextEvent(job *StoredOrder, now time.Time) EventMark {
	mark := EventMark{Sequence: 1, RecordedTime: cloudevent.FormatTime(now)}
	if job == nil {
		return mark
	}
	mark.Sequence = now.Unix()
	if last := job.Event; last.Sequence > 0 {
		mark.Sequence = last.Sequence + 1
		mark.RecordedTime = max(mark.RecordedTime, last.RecordedTime) // clocks of processes run apart
	}
	return mark
}

// storedOrder is the storage form: metadata at the root only.
type storedOrder struct {
	isa95.JobOrderAndState
	DataSchema string      `json:"_dataschema"`
	Scope      isa95.Scope `json:"_scope"`
	Event      EventMark   `json:"_event,omitzero"`
	Station    Station     `json:"_station,omitzero"`
	JudgedBy   string      `json:"_judged_by,omitempty"`
}

type storedResponse struct {
	isa95.JobResponse
	DataSchema      string      `json:"_dataschema"`
	Scope           isa95.Scope `json:"_scope"`
	NormalizedState string      `json:"_normalized_state,omitempty"`
}

type storedWorkMaster struct {
	isa95.WorkMaster
	DataSchema string `json:"_dataschema"`
}

// encodeOrder makes the document of an order; text is the order in JSON, rest has the members that depend on neither.
func encodeOrder(text []byte, state isa95.State, rest storedOrder) ([]byte, error) {
	rest.State, rest.DataSchema = state.Elements(), isa95.SchemaJobOrderAndState
	doc, err := withOrder(text, rest)
	if err == nil && len(doc) > maxDocument {
		err = fmt.Errorf("must not be larger than %d bytes: %w", maxDocument, isa95.ErrLimit)
	}
	return doc, err
}

// maxDocument is what isa95.UnmarshalStored reads.
const maxDocument = 2 << 20

const (
	beforeOrder = `{"JobOrder":`
	afterOrder  = `,"State":[`
)

// withOrder is rest, a value without the member JobOrder, in JSON with an order as that member, the first.
func withOrder(text []byte, rest any) ([]byte, error) {
	tail, err := isa95.Marshal(rest)
	if err != nil {
		return nil, err
	}
	doc := make([]byte, 0, len(beforeOrder)+len(text)+len(tail))
	doc = append(append(doc, beforeOrder...), text...)
	if len(tail) > len("{}") {
		doc = append(doc, ',')
	}
	return append(doc, tail[1:]...), nil
}

// splitOrder undoes withOrder for a document of an order: rest has the members that follow it. ok is false if it is not in that form.
// doc is JSON.
func splitOrder(doc []byte) (text, rest []byte, ok bool) {
	at := bytes.LastIndex(doc, []byte(afterOrder))
	if at < 0 || !bytes.HasPrefix(doc, []byte(beforeOrder)) {
		return nil, nil, false
	}
	rest = append([]byte{'{'}, doc[at+1:]...)
	if !json.Valid(rest) { // it stands within the order: then a bracket too many is behind it
		return nil, nil, false
	}
	return doc[len(beforeOrder):at], rest, true
}

// metadata is the members that storage adds at the root of a document.
type metadata struct {
	DataSchema string          `json:"_dataschema"`
	Scope      isa95.Scope     `json:"_scope"`
	Event      json.RawMessage `json:"_event"`
	Station    Station         `json:"_station"`
	JudgedBy   string          `json:"_judged_by"`
}

// event is the mark of the last event, zero if it is of another version: not known.
func (m *metadata) event() EventMark {
	var event EventMark
	if json.Unmarshal(m.Event, &event) != nil {
		return EventMark{}
	}
	return event
}

func (steps Schemas) decodeOrder(key string, doc []byte) (*StoredOrder, error) {
	text, rest, ours := splitOrder(doc)
	if !ours {
		rest = doc
	}
	var m metadata
	broken := json.Unmarshal(rest, &m)
	if now, err := steps.current(doc, m.DataSchema, isa95.SchemaJobOrderAndState); err != nil {
		return nil, &DocumentError{Key: key, Err: err}
	} else if now != nil {
		doc, ours = now, false
		broken = json.Unmarshal(doc, &m)
	}
	var both isa95.JobOrderAndState
	if err := isa95.UnmarshalStored(doc, &both); err != nil {
		return nil, &DocumentError{Key: key, Err: err}
	}
	if both.JobOrder == nil {
		return nil, &DocumentError{Key: key, Err: fmt.Errorf("member JobOrder is missing")}
	}
	state, err := isa95.ParseState(both.State)
	if err != nil {
		return nil, &DocumentError{Key: key, Err: err}
	}
	if broken != nil {
		return nil, &DocumentError{Key: key, Err: broken}
	}
	o := &StoredOrder{JobOrder: both.JobOrder, State: state, Scope: m.Scope, Event: m.event(), Station: m.Station, JudgedBy: m.JudgedBy}
	if ours && o.Event.Sequence > 0 {
		o.text = text
	}
	return o, nil
}

func encodeResponse(r *isa95.JobResponse, state isa95.State, scope isa95.Scope) ([]byte, error) {
	return isa95.Marshal(storedResponse{
		JobResponse: *r, DataSchema: isa95.SchemaJobResponse, Scope: scope, NormalizedState: state.String(),
	})
}

func (steps Schemas) decodeResponse(key string, doc []byte) (*isa95.JobResponse, error) {
	doc, err := steps.upgraded(doc, isa95.SchemaJobResponse)
	r := new(isa95.JobResponse)
	if err == nil {
		err = isa95.Unmarshal(doc, r)
	}
	if err != nil {
		return nil, &DocumentError{Key: key, Err: err}
	}
	return r, nil
}

// ResponseID is the id of the response to a job order. There is one per order, so it is found without an index.
func ResponseID(id isa95.JobOrderID) isa95.JobResponseID {
	return isa95.JobResponseID(string(id) + "-response")
}

// revision tells two contents apart: the first 16 hex digits of their SHA-256.
func revision(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}

// IndexEntry is what the retained topics of one job order shall be: a field of pubidx:{scope}, written by every
// commit that changes the order. The publisher compares it with what the broker acknowledged (Published).
type IndexEntry struct {
	State    []isa95.StateElement `json:"state,omitempty"`
	Priority int                  `json:"priority,omitempty"`
	Order    string               `json:"order,omitempty"`  // revision of the job order
	Result   string               `json:"result,omitempty"` // revision of the response; "" = there is none to publish
	Gone     bool                 `json:"gone,omitempty"`   // EndState: the topics shall be deleted
}

func decodeIndexEntry(key string, raw []byte) (IndexEntry, error) {
	var e IndexEntry
	if err := isa95.Unmarshal(raw, &e); err != nil {
		return e, &DocumentError{Key: key, Err: err}
	}
	return e, nil
}
