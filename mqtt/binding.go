package mqtt

import (
	"encoding/hex"
	"errors"
	"math"
	"mime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/utf8text"
)

// MaxPayload is the largest body Decode takes, in bytes.
const MaxPayload = 1 << 20

// Limits on user properties besides those cloudevent has on each.
const (
	maxUserProperties = 128      // per message
	maxPropertyBytes  = 64 << 10 // names and values of one message together
)

// A form is a way in which an event stands in a message (MQTT binding of CloudEvents 1.0.2, 3), chosen by the media type of the content type.
type form struct {
	media  string
	decode func(e *cloudevent.Event, m *Message) error // attributes and body, as far as they can be read
	encode func(m *Message, e *cloudevent.Event)       // content type, payload and user properties
}

// forms are those that are read, and in which is answered what came in them. The first, binary mode, is that of every other content type, which is then refused.
var forms = [...]form{
	{"application/json", decodeBinary, encodeBinary},
	{"application/cloudevents+json", decodeStructured, encodeStructured},
}

// formOf is the form for a media type.
func formOf(media string) *form {
	for i := range forms {
		if forms[i].media == media {
			return &forms[i]
		}
	}
	return &forms[0]
}

// Encode writes e as a message in the form of e.Delivery.Form, by default in binary mode: every attribute is a user property under its own name, and some are native properties
// besides. In structured mode the whole event is the payload. Of e.Delivery it also takes ResponseTopic and CorrelationData; without the latter,
// CorrelationData is CorrelationID: the 16 bytes of a UUID, else the text's bytes. QoS is 1.
//
// What MQTT does not allow in text (control characters of an error message, say) becomes
// U+FFFD, so that no event can end the connection.
func Encode(topic string, e cloudevent.Event) Message {
	m := Message{
		Topic: topic, QoS: 1,
		ResponseTopic:   e.Delivery.ResponseTopic,
		CorrelationData: e.Delivery.CorrelationData,
		Expiry:          time.Duration(min(max(e.ExpiryInterval, 0), math.MaxUint32)) * time.Second,
	}
	if len(m.CorrelationData) == 0 {
		m.CorrelationData = correlationData(e.CorrelationID)
	}
	formOf(e.Delivery.Form).encode(&m, &e)
	return m
}

func encodeBinary(m *Message, e *cloudevent.Event) {
	m.Payload = e.Data
	m.ContentType = clean(e.DataContentType, math.MaxUint16)
	m.UTF8 = isText(e.DataContentType) && utf8.Valid(e.Data)
	m.User = make([]UserProperty, 0, usualProperties)
	for a := range e.Attributes() {
		m.User = append(m.User, UserProperty{clean(a.Name, math.MaxUint16), clean(a.Value, math.MaxUint16)})
	}
}

func encodeStructured(m *Message, e *cloudevent.Event) {
	m.Payload, _ = e.MarshalJSON() // it never fails
	m.ContentType, m.UTF8 = cloudevent.ContentTypeStructured, utf8.Valid(m.Payload)
}

// Decode reads a message in binary or structured mode. An error is a *cloudevent.Error to answer with; the
// event then holds all that could be read, so that it can be answered, in the same form.
//
// In binary mode user properties win over native properties, the last of several with one name wins, and the
// prefix "ce-" of other libraries is taken off. A missing content type means JSON. In structured mode (content type application/cloudevents+json) the
// payload of at most MaxPayload bytes has attributes and body, and user properties mean nothing. In both a missing
// specversion means 1.0, so that mosquitto_pub is enough for a command; id, source and type are
// required. A byte order mark before the body is taken off. Correlation data may be any bytes: they stand verbatim in Delivery, and when no
// attribute gives one CorrelationID is their UUID text when they are 16, else their hex text,
// or nothing when that would be too long.
func Decode(m Message) (cloudevent.Event, error) {
	f := formOf(mediaOf(m.ContentType))
	var e cloudevent.Event
	err := f.decode(&e, &m)
	e.Delivery = cloudevent.Delivery{
		Topic: m.Topic, ResponseTopic: m.ResponseTopic, CorrelationData: m.CorrelationData,
		Retained: m.Retain, QoS: m.QoS,
	}
	if f != &forms[0] {
		e.Delivery.Form = f.media
	}
	if e.CorrelationID == "" {
		e.CorrelationID = correlationID(m.CorrelationData)
	}
	if e.SpecVersion == "" {
		e.SpecVersion = cloudevent.SpecVersion
	}
	if e.DataContentType == "" {
		e.DataContentType = cloudevent.ContentTypeJSON
	}
	if err == nil && !isJSON(e.DataContentType) {
		err = cloudevent.Errorf(cloudevent.KindUnsupportedContentType, "content type %.64q: want application/json", e.DataContentType)
	}
	if err == nil && f == &forms[0] && len(m.User) == 0 {
		err = cloudevent.Errorf(cloudevent.KindMissingUserProperty, "the message has no user properties, so no id, source and type: publish with MQTT 5, for MQTT 3.1.1 has none")
	}
	if err == nil {
		err = e.Check()
	}
	if err == nil {
		e.Data, err = text(e.Data)
	}
	return e, err
}

func decodeBinary(e *cloudevent.Event, m *Message) error {
	e.DataContentType, e.Data, e.ExpiryInterval = m.ContentType, m.Payload, int64(m.Expiry/time.Second)
	if e.ExpiryInterval > 0 && slices.ContainsFunc(m.User, func(u UserProperty) bool { return u.Name == "time" }) {
		e.ExpiryInterval = 0 // the native one is what was left on arrival, and would be counted from time
	}
	return setAttributes(e, m.User)
}

func decodeStructured(e *cloudevent.Event, m *Message) error {
	payload, err := text(m.Payload)
	if err == nil {
		err = e.UnmarshalJSON(payload)
	}
	if e.ExpiryInterval == 0 && e.Time == "" {
		e.ExpiryInterval = int64(m.Expiry / time.Second)
	}
	return err
}

// setAttributes sets all it can and returns the first error.
func setAttributes(e *cloudevent.Event, user []UserProperty) (first error) {
	total := 0
	for i, u := range user {
		var err error
		if total += len(u.Name) + len(u.Value); i >= maxUserProperties || total > maxPropertyBytes {
			err = cloudevent.Errorf(cloudevent.KindResourceExhausted,
				"more than %d user properties or %d bytes of them", maxUserProperties, maxPropertyBytes)
		} else {
			err = e.SetAttribute(u.Name, u.Value)
		}
		if first == nil {
			first = err
		}
		if total > maxPropertyBytes {
			break
		}
	}
	return first
}

// text is data without a byte order mark; an error if it is too large or no text.
func text(data []byte) ([]byte, error) {
	if len(data) > MaxPayload {
		return data, cloudevent.Errorf(cloudevent.KindPayloadInvalid, "payload of %d bytes, at most %d are taken", len(data), MaxPayload)
	}
	data, err := utf8text.Of(data)
	if err != nil {
		return data, cloudevent.Errorf(cloudevent.KindPayloadInvalid, "payload: %v", err)
	}
	if !utf8.Valid(data) {
		return data, cloudevent.Errorf(cloudevent.KindPayloadInvalid, "payload is not UTF-8")
	}
	return data, nil
}

// isJSON reports whether contentType is application/json in UTF-8, with parameters and spacing
// as they come.
func isJSON(contentType string) bool { return mediaOf(contentType) == "application/json" }

// mediaOf is the media type of a content type in lower case, "" if it cannot be read or has a charset that is not UTF-8.
func mediaOf(contentType string) string {
	if contentType == cloudevent.ContentTypeJSON || contentType == "application/json" {
		return "application/json"
	}
	media, params, err := mime.ParseMediaType(contentType)
	if errors.Is(err, mime.ErrInvalidMediaParameter) {
		params = nil // a bad parameter says nothing against the type
	} else if err != nil {
		return ""
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "utf8", "us-ascii":
		return media
	}
	return ""
}

func isText(contentType string) bool {
	if isJSON(contentType) {
		return true
	}
	media, _, _ := mime.ParseMediaType(contentType)
	return strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+xml")
}

// correlationData is a correlation id on the wire. Only the canonical form of a UUID is packed:
// other spellings could not be told apart afterwards.
func correlationData(id string) []byte {
	if len(id) == 36 {
		if u, err := uuid.Parse(id); err == nil {
			return u[:]
		}
	}
	if id == "" {
		return nil
	}
	return []byte(id[:min(len(id), math.MaxUint16)])
}

// correlationID is the text for correlation data.
func correlationID(data []byte) string {
	if len(data) == 16 {
		return uuid.UUID(data).String()
	}
	if 2*len(data) > cloudevent.MaxValue {
		return ""
	}
	return hex.EncodeToString(data)
}
