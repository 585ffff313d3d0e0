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

// Encode writes e as a message in binary mode (MQTT binding of CloudEvents 1.0.2, 3.1): every attribute is a user property under its own name, and some are native properties
// besides. Of e.Delivery it takes ResponseTopic and CorrelationData; without the latter,
// CorrelationData is CorrelationID: the 16 bytes of a UUID, else the text's bytes. QoS is 1.
//
// What MQTT does not allow in text (control characters of an error message, say) becomes
// U+FFFD, so that no event can end the connection.
func Encode(topic string, e cloudevent.Event) Message {
	m := Message{
		Topic: topic, Payload: e.Data, QoS: 1,
		ContentType:     clean(e.DataContentType, math.MaxUint16),
		ResponseTopic:   e.Delivery.ResponseTopic,
		CorrelationData: e.Delivery.CorrelationData,
		Expiry:          time.Duration(min(max(e.ExpiryInterval, 0), math.MaxUint32)) * time.Second,
		UTF8:            isText(e.DataContentType) && utf8.Valid(e.Data),
	}
	if len(m.CorrelationData) == 0 {
		m.CorrelationData = correlationData(e.CorrelationID)
	}
	m.User = make([]UserProperty, 0, usualProperties)
	for a := range e.Attributes() {
		m.User = append(m.User, UserProperty{clean(a.Name, math.MaxUint16), clean(a.Value, math.MaxUint16)})
	}
	return m
}

// Decode reads a message in binary mode. An error is a *cloudevent.Error to answer with; the
// event then holds all that could be read, so that it can be answered.
//
// User properties win over native properties, the last of several with one name wins, and the
// prefix "ce-" of other libraries is taken off. A missing content type means JSON and a missing
// specversion 1.0, so that mosquitto_pub is enough for a command; id, source and type are
// required. A byte order mark before the body is taken off. Correlation data may be any bytes: they stand verbatim in Delivery, and when no
// user property gives one CorrelationID is their UUID text when they are 16, else their hex text,
// or nothing when that would be too long.
func Decode(m Message) (cloudevent.Event, error) {
	e := cloudevent.Event{
		DataContentType: m.ContentType,
		Data:            m.Payload,
		ExpiryInterval:  int64(m.Expiry / time.Second),
		Delivery: cloudevent.Delivery{
			Topic: m.Topic, ResponseTopic: m.ResponseTopic, CorrelationData: m.CorrelationData,
			Retained: m.Retain, QoS: m.QoS,
		},
	}
	if e.ExpiryInterval > 0 && slices.ContainsFunc(m.User, func(u UserProperty) bool { return u.Name == "time" }) {
		e.ExpiryInterval = 0 // the native one is what was left on arrival, and would be counted from time
	}
	err := setAttributes(&e, m.User)
	if e.CorrelationID == "" {
		e.CorrelationID = correlationID(m.CorrelationData)
	}
	if e.SpecVersion == "" {
		e.SpecVersion = cloudevent.SpecVersion
	}
	if e.DataContentType == "" {
		e.DataContentType = cloudevent.ContentTypeJSON
	}
	if err == nil && len(m.User) == 0 {
		err = cloudevent.Errorf(cloudevent.KindMissingUserProperty, "the message has no user properties, so no id, source and type: publish with MQTT 5, for MQTT 3.1.1 has none")
	}
	if err == nil {
		err = e.Check()
	}
	if err == nil {
		err = checkBody(&e)
	}
	return e, err
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

func checkBody(e *cloudevent.Event) error {
	if len(e.Data) > MaxPayload {
		return cloudevent.Errorf(cloudevent.KindPayloadInvalid, "payload of %d bytes, at most %d are taken", len(e.Data), MaxPayload)
	}
	if !isJSON(e.DataContentType) {
		return cloudevent.Errorf(cloudevent.KindUnsupportedContentType, "content type %.64q: want application/json", e.DataContentType)
	}
	var err error
	if e.Data, err = utf8text.Of(e.Data); err != nil {
		return cloudevent.Errorf(cloudevent.KindPayloadInvalid, "payload: %v", err)
	}
	if !utf8.Valid(e.Data) {
		return cloudevent.Errorf(cloudevent.KindPayloadInvalid, "payload is not UTF-8")
	}
	return nil
}

// isJSON reports whether contentType is application/json in UTF-8, with parameters and spacing
// as they come. application/cloudevents+json would be structured mode, which is another format.
func isJSON(contentType string) bool {
	if contentType == cloudevent.ContentTypeJSON || contentType == "application/json" {
		return true
	}
	media, params, err := mime.ParseMediaType(contentType)
	if errors.Is(err, mime.ErrInvalidMediaParameter) {
		params = nil // a bad parameter says nothing against the type
	} else if err != nil {
		return false
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "utf8", "us-ascii":
		return media == "application/json"
	}
	return false
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
