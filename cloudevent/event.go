package cloudevent

import (
	"cmp"
	"strings"
	"time"

	"github.com/google/uuid"
)

// SpecVersion is the version of CloudEvents that Takt speaks.
const SpecVersion = "1.0"

// ContentTypeJSON is the content type of every body Takt makes.
const ContentTypeJSON = "application/json; charset=utf-8"

// ContentTypeStructured is that of a message whose payload is a whole event in JSON (structured mode).
const ContentTypeStructured = "application/cloudevents+json; charset=utf-8"

// Event is one CloudEvent. Absent text is "". The zero Event has no attribute and fails Check. Copies share
// Extensions, ErrorContext and Data; whoever changes those of a copy replaces them.
type Event struct {
	ID, Source, SpecVersion, Type, DataContentType, DataSchema, Subject string

	Time, ExpiryTime, RecordedTime string // opaque text; ours are UTC RFC 3339 with Z
	TraceParent, TraceState        string
	ExpiryInterval                 int64 // seconds, 0 = none
	CorrelationID, CausationID     string
	Method                         string // DELETE deletes, anything else is PUT (configuration events)

	ErrorKind    ErrorKind         // "" = no error
	ErrorMessage string            // never "" on the wire when ErrorKind is set
	ErrorContext map[string]string // keys without "," and "=": see Attributes

	Extensions map[string]string // custom metadata: attributes this package has no field for
	Data       []byte            // the body in DataContentType; nil = none

	Delivery Delivery // how it came or goes; never serialized
}

// Delivery holds transport facts of an event that came or shall go over MQTT. They are never serialized.
type Delivery struct {
	Topic           string
	ResponseTopic   string
	CorrelationData []byte // echoed verbatim, any bytes
	Form            string // media type of the form of the message: "" = binary mode, application/cloudevents+json = structured mode
	Retained        bool
	Duplicate       bool
	QoS             byte

	// Deadline of an event that came with a MessageExpiryInterval: its arrival and what was left of the interval then, by this process' clock. Zero: none.
	Deadline time.Time

	// Unreadable says why the message could not be read, for a handler that gives no replies and is handed what could be read. nil: it was read.
	Unreadable *Error `json:"-"`
}

// NewID makes an event id: UUID version 7, so ids sort by the time they were made.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// New makes an event with a new id, a new correlation id and now as its recorded time.
func New(typeID, source, subject string, now time.Time) Event {
	return Event{CorrelationID: NewID()}.followUp(typeID, source, subject, now)
}

// followUp is a new event with the correlation and trace of request, and its id as the cause.
func (request Event) followUp(typeID, source, subject string, now time.Time) Event {
	return Event{
		ID: NewID(), Source: source, SpecVersion: SpecVersion, Type: typeID, Subject: subject, RecordedTime: FormatTime(now),
		CausationID: request.ID, CorrelationID: request.CorrelationID, TraceParent: request.TraceParent, TraceState: request.TraceState,
	}
}

// FormatTime writes a time as Takt's events carry it: UTC, RFC 3339 with microseconds and Z.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// WithData returns e with a JSON body and its schema. data is kept, not copied; empty data means no body.
func (e Event) WithData(data []byte, schema string) Event {
	e.Data, e.DataSchema, e.DataContentType = data, schema, ContentTypeJSON
	return e
}

// Scope is the subject up to its first "/", "" when there is no subject. It is not checked: see isa95.ParseScope.
func (e Event) Scope() string {
	scope, _, _ := strings.Cut(e.Subject, "/")
	return scope
}

// Caused makes an event that happened because of request: same scope, correlation and trace, and request's id as the
// cause. Any sub-path of the subject is left out (spec 2.5).
func (request Event) Caused(typeID string, data []byte, schema, source string, now time.Time) Event {
	return request.followUp(typeID, source, request.Scope(), now).WithData(data, schema)
}

// Reply makes the answer to request: same type, subject, correlation and trace, request's id as the cause, a new id.
// Its Delivery.Topic is the request's ResponseTopic, "" if the request named none;
// CorrelationData and Form are the request's.
func (request Event) Reply(data []byte, schema, source string, now time.Time) Event {
	return request.answer(source, now).WithData(data, schema)
}

// Refusal is Reply for a request that failed: it has the error's attributes (nil: UNKNOWN_ERROR) and no body. Add a body with WithData
// where the type of the request has one for failures.
func (request Event) Refusal(err *Error, source string, now time.Time) Event {
	if err == nil {
		err = &Error{}
	}
	e := request.answer(source, now)
	e.ErrorKind, e.ErrorMessage, e.ErrorContext = cmp.Or(err.Kind, KindUnknownError), cmp.Or(err.Message, defaultMessage), err.Context
	return e
}

func (request Event) answer(source string, now time.Time) Event {
	e := request.followUp(request.Type, source, request.Subject, now)
	e.Delivery = Delivery{Topic: request.Delivery.ResponseTopic, CorrelationData: request.Delivery.CorrelationData, Form: request.Delivery.Form}
	return e
}

// Err is the error an answer carries, nil when it is none.
func (e Event) Err() *Error {
	if e.ErrorKind == "" {
		return nil
	}
	return &Error{Kind: e.ErrorKind, Message: cmp.Or(e.ErrorMessage, defaultMessage), Context: e.ErrorContext}
}
