package mqtt

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
)

// captured reads the messages recorded from the Python system.
func captured(t testing.TB) []Message {
	t.Helper()
	f, err := os.Open("testdata/captured.jsonl")
	testenv.Must(t, err)
	defer f.Close()
	var list []Message
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c struct {
			Topic, Payload, ContentType, ResponseTopic, CorrelationData string

			QoS                    byte
			Retain                 bool
			PayloadFormatIndicator byte
			MessageExpiryInterval  int
			UserProperty           [][2]string
		}
		testenv.Must(t, json.Unmarshal(lines.Bytes(), &c))
		m := Message{
			Topic: c.Topic, Payload: []byte(c.Payload), QoS: c.QoS, Retain: c.Retain,
			ContentType: c.ContentType, ResponseTopic: c.ResponseTopic,
			Expiry: time.Duration(c.MessageExpiryInterval) * time.Second, UTF8: c.PayloadFormatIndicator == 1,
		}
		if c.CorrelationData != "" {
			m.CorrelationData, err = hex.DecodeString(c.CorrelationData)
			testenv.Must(t, err)
		}
		for _, u := range c.UserProperty {
			m.User = append(m.User, UserProperty{u[0], u[1]})
		}
		list = append(list, m)
	}
	if len(list) == 0 {
		t.Fatal("nothing captured")
	}
	return list
}

// What the Python system sends is read, and written again it is the same message. It leaves out
// the content type among the user properties of its commands, and writes QoS 0 where nobody
// answers; the remaining lifetime has run on (metadata).
func TestCaptured(t *testing.T) {
	for _, m := range captured(t) {
		t.Run(m.Topic, func(t *testing.T) {
			e, err := Decode(m)
			switch {
			case len(m.User) == 0: // a retained topic, not an event
				return
			case strings.HasSuffix(m.Topic, "/metadata"): // has no type
				if kind(err) != cloudevent.KindMissingUserProperty {
					t.Fatal(err)
				}
			case err != nil:
				t.Fatal(err)
			}
			if e.DataContentType != "application/json; charset=utf-8" || e.CorrelationID == "" || e.Delivery.Topic != m.Topic ||
				e.Delivery.ResponseTopic != m.ResponseTopic || !bytes.Equal(e.Delivery.CorrelationData, m.CorrelationData) || !bytes.Equal(e.Data, m.Payload) {
				t.Errorf("%+v", e)
			}
			e.Delivery.CorrelationData = nil // so that it is made of the correlation id
			got := Encode(m.Topic, e)
			want := m
			want.QoS, want.Retain = 1, false
			if strings.HasSuffix(m.Topic, "/commands") {
				want.UTF8 = true
				for a := range e.Attributes() {
					if !cmp.Equal(property(m, a.Name), property(got, a.Name)) && property(m, a.Name) != nil {
						t.Errorf("%s: %v, was %v", a.Name, property(got, a.Name), property(m, a.Name))
					}
				}
				want.User, got.User = nil, nil
			}
			if strings.HasSuffix(m.Topic, "/metadata") {
				want.Expiry = 60 * time.Second
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func property(m Message, name string) *string {
	for _, u := range m.User {
		if u.Name == name {
			return &u.Value
		}
	}
	return nil
}

func kind(err error) cloudevent.ErrorKind {
	if e, ok := errors.AsType[*cloudevent.Error](err); ok {
		return e.Kind
	}
	return ""
}

// A Store command and its reply.
func TestReplyGolden(t *testing.T) {
	request, err := Decode(captured(t)[4])
	testenv.Must(t, err)
	reply := request.Reply([]byte(`{"ReturnStatus":1}`), "J#StoreResponse", "urn:example:dcs", time.Date(2026, 11, 21, 0, 29, 34, 191354000, time.UTC))
	reply.ID = "41592ae6-2aed-401e-92b6-d7a5efa25c2a"
	s := &Server{o: ServerOptions{ResponseTopic: "app/jobs/responses/pod-1", Expiry: time.Minute}}
	want := Message{
		Topic: "mes/resp/mes-1", Payload: []byte(`{"ReturnStatus":1}`), QoS: 1,
		ContentType: "application/json; charset=utf-8", ResponseTopic: "app/jobs/responses/pod-1",
		CorrelationData: captured(t)[4].CorrelationData, Expiry: time.Minute, UTF8: true,
		User: []UserProperty{
			{"id", "41592ae6-2aed-401e-92b6-d7a5efa25c2a"}, {"source", "urn:example:dcs"}, {"specversion", "1.0"},
			{"type", "org.opcfoundation.ISA95-JOBCONTROL_V2.Store.v2"}, {"datacontenttype", "application/json; charset=utf-8"},
			{"dataschema", "J#StoreResponse"}, {"subject", "m42"}, {"expiryinterval", "60"},
			{"recordedtime", "2026-11-21T00:29:34.191354Z"}, // UTC
			{"correlationid", "aaaaaaaa-0000-4000-8000-000000000001"}, {"causationid", "req-1"},
		},
	}
	if diff := cmp.Diff(want, s.replyMessage(request, reply)); diff != "" {
		t.Error(diff)
	}
}

// message is a complete command with further user properties.
func message(more ...UserProperty) Message {
	return Message{
		Topic: "takt/m42/commands", Payload: []byte(`{}`), ContentType: "application/json", ResponseTopic: "r",
		User: append([]UserProperty{{"id", "1"}, {"source", "urn:s"}, {"specversion", "1.0"}, {"type", "t"}}, more...),
	}
}

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct {
		m     Message
		check func(e cloudevent.Event) bool
	}{
		"prefix ce-":            {message(UserProperty{"ce-subject", "m42"}), func(e cloudevent.Event) bool { return e.Subject == "m42" }},
		"last duplicate wins":   {message(UserProperty{"subject", "a"}, UserProperty{"subject", "b"}), func(e cloudevent.Event) bool { return e.Subject == "b" }},
		"unknown is kept":       {message(UserProperty{"x_y", "z"}), func(e cloudevent.Event) bool { return e.Extensions["x_y"] == "z" }},
		"expiry of the message": {with(message(), func(m *Message) { m.Expiry = time.Minute }), func(e cloudevent.Event) bool { return e.ExpiryInterval == 60 }},
		"user property wins": {with(message(UserProperty{"expiryinterval", "30"}, UserProperty{"correlationid", "x"}), func(m *Message) {
			m.Expiry, m.CorrelationData = time.Minute, []byte("y")
		}), func(e cloudevent.Event) bool {
			return e.ExpiryInterval == 30 && e.CorrelationID == "x" && string(e.Delivery.CorrelationData) == "y"
		}},
		"retained":                {with(message(), func(m *Message) { m.Retain, m.QoS = true, 1 }), func(e cloudevent.Event) bool { return e.Delivery.Retained && e.Delivery.QoS == 1 }},
		"no content type":         {with(message(), func(m *Message) { m.ContentType = "" }), func(e cloudevent.Event) bool { return e.DataContentType == cloudevent.ContentTypeJSON }},
		"no specversion":          {with(message(), func(m *Message) { m.User = append(m.User[:2:2], m.User[3]) }), func(e cloudevent.Event) bool { return e.SpecVersion == "1.0" }},
		"no body":                 {with(message(), func(m *Message) { m.Payload = nil }), func(e cloudevent.Event) bool { return len(e.Data) == 0 }},
		"D1: JSON array body":     {with(message(), func(m *Message) { m.Payload = []byte("[]") }), func(e cloudevent.Event) bool { return string(e.Data) == "[]" }},
		"D1: 16 bytes are UUID":   {with(message(), func(m *Message) { m.CorrelationData = []byte("0123456789abcdef") }), func(e cloudevent.Event) bool { return e.CorrelationID == "30313233-3435-3637-3839-616263646566" }},
		"D1, A13: others are hex": {with(message(), func(m *Message) { m.CorrelationData = []byte{0, 255} }), func(e cloudevent.Event) bool { return e.CorrelationID == "00ff" }},
		"A13: very long": {with(message(), func(m *Message) { m.CorrelationData = make([]byte, 65535) }), func(e cloudevent.Event) bool {
			return e.CorrelationID == "" && len(e.Delivery.CorrelationData) == 65535
		}},
		"D1: correlationid that is no UUID": {message(UserProperty{"correlationid", "no uuid"}), func(e cloudevent.Event) bool { return e.CorrelationID == "no uuid" }},
		"correlationid that is empty":       {with(message(UserProperty{"correlationid", ""}), func(m *Message) { m.CorrelationData = []byte{0, 255} }), func(e cloudevent.Event) bool { return e.CorrelationID == "00ff" }},
		"byte order mark":                   {with(message(), func(m *Message) { m.Payload = []byte("\xef\xbb\xbf{}") }), func(e cloudevent.Event) bool { return string(e.Data) == "{}" }},
		"structured": {structured(`{"id":"1","source":"urn:s","specversion":"1.0","type":"t","subject":"m42","data":{"a" : 1}}`), func(e cloudevent.Event) bool {
			return e.Subject == "m42" && string(e.Data) == `{"a":1}` && e.Delivery.ResponseTopic == "r" && e.DataContentType == cloudevent.ContentTypeJSON
		}},
		"structured, body in Base64": {structured(`{"id":"1","source":"urn:s","type":"t","datacontenttype":"application/json","data_base64":"e30="}`), func(e cloudevent.Event) bool { return string(e.Data) == "{}" }},
		"structured, no body":        {structured(`{"id":"1","source":"urn:s","type":"t"}`), func(e cloudevent.Event) bool { return len(e.Data) == 0 && e.SpecVersion == "1.0" }},
		"structured, parameters": {with(structured("\xef\xbb\xbf"+`{"id":"1","source":"urn:s","type":"t"}`), func(m *Message) { m.ContentType = "Application/CloudEvents+JSON; charset=UTF-8; profile=x" }),
			func(e cloudevent.Event) bool { return e.ID == "1" }},
		"structured, user properties mean nothing": {with(structured(`{"id":"1","source":"urn:s","type":"t"}`), func(m *Message) { m.User = message(UserProperty{"id", "2"}, UserProperty{"subject", "x"}).User }),
			func(e cloudevent.Event) bool { return e.ID == "1" && e.Subject == "" }},
		"structured, native properties": {with(structured(`{"id":"1","source":"urn:s","type":"t"}`), func(m *Message) { m.Expiry, m.Retain, m.CorrelationData = time.Minute, true, []byte{0, 255} }),
			func(e cloudevent.Event) bool {
				return e.ExpiryInterval == 60 && e.Delivery.Retained && e.CorrelationID == "00ff" && len(e.Delivery.CorrelationData) == 2
			}},
		"structured, attributes win": {with(structured(`{"id":"1","source":"urn:s","type":"t","expiryinterval":30,"correlationid":"x"}`), func(m *Message) { m.Expiry, m.CorrelationData = time.Minute, []byte("y") }),
			func(e cloudevent.Event) bool { return e.ExpiryInterval == 30 && e.CorrelationID == "x" }},
		"structured, expiry from time": {with(structured(`{"id":"1","source":"urn:s","type":"t","time":"2026-11-28T11:00:00Z"}`), func(m *Message) { m.Expiry = time.Minute }), func(e cloudevent.Event) bool { return e.ExpiryInterval == 0 }},
		"largest body":                 {with(message(), func(m *Message) { m.Payload = bytes.Repeat([]byte(" "), MaxPayload) }), func(e cloudevent.Event) bool { return len(e.Data) == MaxPayload }},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := Decode(c.m)
			if err != nil || !c.check(e) {
				t.Errorf("%v %+v", err, e)
			}
			want := cloudevent.ContentTypeJSON // of the answer
			if strings.HasPrefix(name, "structured") {
				want = cloudevent.ContentTypeStructured
			}
			if answer := Encode("r", e.Reply([]byte("{}"), "s", "urn:takt", time.Unix(0, 0))); answer.ContentType != want || (len(answer.User) == 0) != (want == cloudevent.ContentTypeStructured) {
				t.Errorf("answered as %+v", answer)
			} else if back, err := Decode(answer); err != nil || back.CausationID != "1" || string(back.Data) != "{}" {
				t.Errorf("answered %+v, %v", back, err)
			}
		})
	}
}

// structured is a message whose payload is the whole event.
func structured(payload string) Message {
	return Message{Topic: "takt/m42/commands", Payload: []byte(payload), ContentType: "application/cloudevents+json", ResponseTopic: "r"}
}

func with(m Message, change func(*Message)) Message {
	change(&m)
	return m
}

// What cannot be taken is answered, so the error has a kind and the event what an answer needs.
func TestDecodeRefuses(t *testing.T) {
	many := make([]UserProperty, 200)
	for i := range many {
		many[i] = UserProperty{"x" + strings.Repeat("y", i%60), "v"}
	}
	for name, c := range map[string]struct {
		m    Message
		kind cloudevent.ErrorKind
		text string // in the error
	}{
		"no id":                      {with(message(), func(m *Message) { m.User = m.User[1:] }), cloudevent.KindMissingUserProperty, "id"},
		"no source":                  {with(message(), func(m *Message) { m.User = append(m.User[:1:1], m.User[2:]...) }), cloudevent.KindMissingUserProperty, "source"},
		"no type":                    {with(message(), func(m *Message) { m.User = m.User[:3] }), cloudevent.KindMissingUserProperty, "type"},
		"specversion":                {message(UserProperty{"specversion", "0.3"}), cloudevent.KindUnsupportedVersion, "specversion"},
		"D1, D32: data":              {message(UserProperty{"data", "x"}), cloudevent.KindUserPropertyInvalid, "data"},
		"D32: ce-data":               {message(UserProperty{"ce-data", "x"}), cloudevent.KindUserPropertyInvalid, "data"},
		"D1: custommetadata":         {message(UserProperty{"custommetadata", "x"}), cloudevent.KindUserPropertyInvalid, "custommetadata"},
		"D1: transportmetadata":      {message(UserProperty{"transportmetadata", "x"}), cloudevent.KindUserPropertyInvalid, "transportmetadata"},
		"D1: octet-stream":           {with(message(), func(m *Message) { m.ContentType = "application/octet-stream" }), cloudevent.KindUnsupportedContentType, "octet-stream"},
		"msgpack":                    {with(message(), func(m *Message) { m.ContentType = "application/msgpack; charset=utf-8" }), cloudevent.KindUnsupportedContentType, "msgpack"},
		"content type as attribute":  {message(UserProperty{"datacontenttype", "text/plain"}), cloudevent.KindUnsupportedContentType, "text/plain"},
		"expiry":                     {message(UserProperty{"expiryinterval", "soon"}), cloudevent.KindUserPropertyInvalid, "expiryinterval"},
		"value with NUL":             {message(UserProperty{"subject", "a\x00"}), cloudevent.KindUserPropertyInvalid, "subject"},
		"long value":                 {message(UserProperty{"subject", strings.Repeat("x", 10000)}), cloudevent.KindUserPropertyInvalid, "subject"},
		"many properties":            {message(many...), cloudevent.KindResourceExhausted, "128"},
		"big properties":             {message(UserProperty{"subject", strings.Repeat("x", 65000)}, UserProperty{"x", strings.Repeat("x", 65000)}), cloudevent.KindUserPropertyInvalid, ""},
		"cloudevents in latin1":      {with(message(), func(m *Message) { m.ContentType = "application/cloudevents+json; charset=latin1" }), cloudevent.KindUnsupportedContentType, "latin1"},
		"batch of events":            {with(message(), func(m *Message) { m.ContentType = "application/cloudevents-batch+json" }), cloudevent.KindUnsupportedContentType, "batch"},
		"content type before names":  {Message{ResponseTopic: "r", ContentType: "application/msgpack"}, cloudevent.KindUnsupportedContentType, "msgpack"},
		"structured, no JSON":        {structured(`{"id":"1",`), cloudevent.KindPayloadInvalid, "CloudEvent in JSON"},
		"structured, an array":       {structured(`[]`), cloudevent.KindPayloadInvalid, "CloudEvent in JSON"},
		"structured, empty":          {structured(``), cloudevent.KindPayloadInvalid, "CloudEvent in JSON"},
		"structured, no source":      {structured(`{"id":"1","type":"t"}`), cloudevent.KindMissingUserProperty, "source"},
		"structured, specversion":    {structured(`{"id":"1","source":"urn:s","type":"t","specversion":"0.3"}`), cloudevent.KindUnsupportedVersion, "specversion"},
		"structured, content type":   {structured(`{"id":"1","source":"urn:s","type":"t","datacontenttype":"text/plain","data":"x"}`), cloudevent.KindUnsupportedContentType, "text/plain"},
		"structured, reserved":       {structured(`{"id":"1","source":"urn:s","type":"t","custommetadata":"x"}`), cloudevent.KindUserPropertyInvalid, "custommetadata"},
		"structured, NUL":            {structured(`{"id":"1","source":"urn:s","type":"t","subject":"a\u0000"}`), cloudevent.KindUserPropertyInvalid, "subject"},
		"structured, long value":     {structured(`{"id":"1","source":"urn:s","type":"t","subject":"` + strings.Repeat("x", 10000) + `"}`), cloudevent.KindUserPropertyInvalid, "subject"},
		"structured, many":           {structured(`{"id":"1","source":"urn:s","type":"t"` + extensions(65) + `}`), cloudevent.KindResourceExhausted, "64"},
		"structured, two bodies":     {structured(`{"id":"1","source":"urn:s","type":"t","data":1,"data_base64":"MQ=="}`), cloudevent.KindPayloadInvalid, "both"},
		"structured, body not UTF-8": {structured(`{"id":"1","source":"urn:s","type":"t","data_base64":"/w=="}`), cloudevent.KindPayloadInvalid, "UTF-8"},
		"structured, not UTF-8":      {structured("{\"id\":\"\xff\"}"), cloudevent.KindPayloadInvalid, "UTF-8"},
		"structured, UTF-16":         {structured("{\x00}\x00"), cloudevent.KindPayloadInvalid, "UTF-16"},
		"structured, big":            {structured(strings.Repeat(" ", MaxPayload+1)), cloudevent.KindPayloadInvalid, "1048577"},
		"big body":                   {with(message(), func(m *Message) { m.Payload = make([]byte, MaxPayload+1) }), cloudevent.KindPayloadInvalid, "1048577"},
		"UTF-16":                     {with(message(), func(m *Message) { m.Payload = []byte("{\x00}\x00") }), cloudevent.KindPayloadInvalid, "UTF-16"},
		"body not UTF-8":             {with(message(), func(m *Message) { m.Payload = []byte{'"', 0xff, '"'} }), cloudevent.KindPayloadInvalid, "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := Decode(c.m)
			if kind(err) != c.kind || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %s with %q", err, c.kind, c.text)
			}
			unread := name == "no id" || name == "many properties" || c.m.User == nil && !strings.Contains(string(c.m.Payload), `"id":"1","`)
			if e.Delivery.ResponseTopic != "r" || !unread && e.ID != "1" {
				t.Errorf("cannot be answered: %+v", e)
			}
			if form := map[bool]string{true: "application/cloudevents+json"}[strings.HasPrefix(name, "structured")]; e.Delivery.Form != form {
				t.Errorf("to be answered as %q", e.Delivery.Form)
			}
		})
	}
}

// extensions are n members of a structured event.
func extensions(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"x%d":"v"`, i)
	}
	return b.String()
}

func TestContentTypes(t *testing.T) {
	for contentType, want := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "application/json;charset=utf-8": true,
		"Application/JSON ; Charset=UTF-8": true, "application/json;profile=x": true, "application/json; charset=\"utf-8\"": true, "application/json;": true, "application/json; x": true,
		"application/json; charset=latin1": false, "text/json": false, "application/cloudevents+json": false, "application/msgpack": false, "json": false, "": false, "/": false,
	} {
		if got := isJSON(contentType); got != want {
			t.Errorf("%q: %t", contentType, got)
		}
	}
	for contentType, want := range map[string]bool{"text/plain": true, "application/cloudevents+json": true, "application/msgpack": false, "application/octet-stream": false, "": false} {
		m := Encode("t", cloudevent.Event{DataContentType: contentType, Data: []byte("x")})
		if m.UTF8 != want {
			t.Errorf("%q: payload format %t", contentType, m.UTF8)
		}
	}
	if Encode("t", cloudevent.Event{DataContentType: "application/json", Data: []byte{0xff}}).UTF8 {
		t.Error("bytes that are no text are called text")
	}
}

func TestEncodeCorrelation(t *testing.T) {
	for id, want := range map[string]string{
		"":                                     "",
		"req-1":                                "req-1",
		"2f9d9fc8-119f-45d5-88d2-88eb301857b3": "\x2f\x9d\x9f\xc8\x11\x9f\x45\xd5\x88\xd2\x88\xeb\x30\x18\x57\xb3",
		"2F9D9FC8-119F-45D5-88D2-88EB301857B3": "\x2f\x9d\x9f\xc8\x11\x9f\x45\xd5\x88\xd2\x88\xeb\x30\x18\x57\xb3",
		"urn:uuid:2f9d9fc8-119f-45d5-88d2-88eb301857b3": "urn:uuid:2f9d9fc8-119f-45d5-88d2-88eb301857b3",
		"2f9d9fc8119f45d588d288eb301857b3":              "2f9d9fc8119f45d588d288eb301857b3",
		"2f9d9fc8-119f-45d5-88d2-88eb301857bx":          "2f9d9fc8-119f-45d5-88d2-88eb301857bx",
	} {
		if got := string(Encode("t", cloudevent.Event{CorrelationID: id}).CorrelationData); got != want {
			t.Errorf("%q: %x", id, got)
		}
	}
}

// No event can end a connection: whatever is in it, the message passes the check.
func TestEncodeIsAlwaysSendable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 30), func(b []byte) string { return string(b) })
		e := cloudevent.Event{
			ID: text.Draw(t, "id"), Source: text.Draw(t, "source"), Type: text.Draw(t, "type"), Subject: text.Draw(t, "subject"),
			DataContentType: text.Draw(t, "content type"), CorrelationID: text.Draw(t, "correlation id"),
			ErrorKind: cloudevent.KindUnknownError, ErrorMessage: text.Draw(t, "message"),
			ErrorContext:   map[string]string{text.Draw(t, "key"): text.Draw(t, "value")},
			Extensions:     map[string]string{text.Draw(t, "name"): text.Draw(t, "value")},
			ExpiryInterval: rapid.Int64().Draw(t, "expiry"),
		}
		m := Encode("t", e)
		testenv.Must(t, m.check())
	})
}

// Every attribute round trips.
func TestBindingRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ -~äöü]{0,12}`)
		must := rapid.StringMatching(`[!-~]{1,12}`)
		e := cloudevent.Event{
			ID: must.Draw(t, "id"), Source: must.Draw(t, "source"), SpecVersion: "1.0", Type: must.Draw(t, "type"),
			DataContentType: cloudevent.ContentTypeJSON, DataSchema: text.Draw(t, "schema"), Subject: text.Draw(t, "subject"),
			Time: text.Draw(t, "time"), ExpiryTime: text.Draw(t, "expiry time"), RecordedTime: text.Draw(t, "recorded time"),
			TraceParent: text.Draw(t, "traceparent"), TraceState: text.Draw(t, "tracestate"),
			ExpiryInterval: rapid.Int64Range(0, 1<<32-1).Draw(t, "expiry"),
			CorrelationID:  must.Draw(t, "correlation"), CausationID: text.Draw(t, "causation"), Method: text.Draw(t, "method"),
			Data: []byte(rapid.StringMatching(`\{[a-zä]*\}`).Draw(t, "data")),
		}
		if rapid.Bool().Draw(t, "failed") {
			e.ErrorKind, e.ErrorMessage = cloudevent.ErrorKind(must.Draw(t, "kind")), must.Draw(t, "message")
			e.ErrorContext = map[string]string{"pointer": "/a/b", "rule": "x"}
		}
		if rapid.Bool().Draw(t, "extended") {
			e.Extensions = map[string]string{"x_" + rapid.StringMatching(`[a-z_-]{0,9}`).Draw(t, "name"): text.Draw(t, "value")}
		}
		m := Encode("t", e)
		got, err := Decode(m)
		testenv.Must(t, err)
		if string(got.Delivery.CorrelationData) != string(m.CorrelationData) {
			t.Fatal("correlation data")
		}
		if diff := cmp.Diff(e, got, cmpopts.IgnoreFields(cloudevent.Event{}, "Delivery")); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, m := range captured(f) {
		var user strings.Builder
		for _, u := range m.User {
			user.WriteString(u.Name + "\n" + u.Value + "\n")
		}
		f.Add(m.Payload, m.ContentType, m.ResponseTopic, m.CorrelationData, user.String(), uint32(m.Expiry/time.Second))
	}
	f.Add([]byte(`{"id":"1","source":"urn:s","type":"t","subject":"m42","data":{"a": 1}}`), "application/cloudevents+json; charset=utf-8", "r", []byte{1}, "", uint32(5))
	f.Add([]byte(`{"id":"1","source":"urn:s","type":"t","time":"x","data_base64":"bnVsbA=="}`), "application/cloudevents+json", "", []byte(nil), "id\n2\n", uint32(5))
	f.Fuzz(func(t *testing.T, payload []byte, contentType, responseTopic string, correlation []byte, user string, expiry uint32) {
		m := Message{
			Topic: "t", Payload: payload, ContentType: contentType, ResponseTopic: responseTopic,
			CorrelationData: correlation, Expiry: time.Duration(expiry) * time.Second,
		}
		parts := strings.Split(user, "\n")
		for i := 0; i+1 < len(parts); i += 2 {
			m.User = append(m.User, UserProperty{parts[i], parts[i+1]})
		}
		e, err := Decode(m)
		if !bytes.Equal(e.Delivery.CorrelationData, correlation) || e.Delivery.ResponseTopic != responseTopic {
			t.Fatal("not what came")
		}
		reply := e.Reply([]byte("{}"), "s", "urn:takt", time.Unix(0, 0))
		if err != nil {
			var refusal *cloudevent.Error
			if !errors.As(err, &refusal) || refusal.Kind == "" {
				t.Fatalf("no error to answer with: %#v", err)
			}
			reply = e.Refusal(refusal, "urn:takt", time.Unix(0, 0))
		} else if again, err := Decode(Encode("t", e)); err != nil || !cmp.Equal(e, again, cmpopts.IgnoreFields(cloudevent.Event{}, "Delivery"), cmpopts.EquateEmpty()) {
			t.Fatalf("%v: %s", err, cmp.Diff(e, again))
		}
		answer := Encode("r", reply)
		if err := answer.check(); err != nil && len(correlation) <= 65535 {
			t.Fatalf("the answer cannot be sent: %v", err)
		}
	})
}
