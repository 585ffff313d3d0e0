package rig

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/schemas"
)

// documents checks all messages of a World against the AsyncAPI document and its schemas, without members that the schemas do not name. A request may be no document of its schema if it is
// refused.
type documents struct {
	mu       sync.Mutex
	seen     int
	broken   []string          // the first of them
	requests map[string]string // those that are no document of their schema, by id, until they are answered
}

// wire is the AsyncAPI document, as far as a body is judged by it.
type wire struct {
	Channels map[string]struct {
		Address  string // "" = the response topic of the request
		Messages map[string]any
	}
	Components struct {
		Messages map[string]struct {
			Headers struct {
				AllOf []struct {
					Properties struct {
						Type struct{ Enum []string }
					}
				} `yaml:"allOf"`
			}
			Payload struct {
				Schema struct {
					Ref string `yaml:"$ref"`
				}
			}
		}
	}
	bodies map[string]*jsonschema.Schema // by the name of the message, with additionalProperties: false
}

// asyncAPI is the document with its schemas.
var asyncAPI = sync.OnceValues(func() (*wire, error) {
	text, err := schemas.Files.ReadFile("asyncapi.yaml")
	if err != nil {
		return nil, err
	}
	doc := &wire{bodies: make(map[string]*jsonschema.Schema)}
	if err := yaml.Unmarshal(text, doc); err != nil {
		return nil, err
	}
	for name, message := range doc.Components.Messages {
		ref := message.Payload.Schema.Ref
		if ref == "" { // the body is the user's
			continue
		}
		file, err := schemas.Files.ReadFile(strings.TrimPrefix(ref, "./"))
		if err != nil {
			return nil, err
		}
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(file))
		if err != nil {
			return nil, err
		}
		closeObjects(schema)
		c := jsonschema.NewCompiler()
		if err := c.AddResource(ref, schema); err != nil {
			return nil, err
		}
		if doc.bodies[name], err = c.Compile(ref); err != nil {
			return nil, err
		}
	}
	return doc, nil
})

// channelOf is the channel of a topic, "" if it is none of the document's.
func (a *wire) channelOf(prefix, topic string) string {
	rest, ours := strings.CutPrefix(topic, prefix+"/")
	_, _, reply := topics.Prefix(prefix).ReplyTo(topic)
	if !ours || reply || strings.HasPrefix(rest, "responses/") {
		return replies
	}
	for name, c := range a.Channels {
		below, _ := strings.CutPrefix(c.Address, "{prefix}/")
		if c.Address != "" && mqtt.Matches(parameter.ReplaceAllString(below, "+"), rest) {
			return name
		}
	}
	return ""
}

// replies is the channel of what is answered.
const replies = "replies"

var parameter = regexp.MustCompile(`\{[a-z]+\}`)

// messagesOf are the messages that one of a type may be: those that name the type, else those for types of users.
func (a *wire) messagesOf(channel, typ string) []string {
	var named, free []string
	for name := range a.Channels[channel].Messages {
		var types []string
		for _, part := range a.Components.Messages[name].Headers.AllOf {
			types = append(types, part.Properties.Type.Enum...)
		}
		switch {
		case slices.Contains(types, typ):
			named = append(named, name)
		case types == nil:
			free = append(free, name)
		}
	}
	if named != nil {
		return named
	}
	return free
}

func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"].(map[string]any); ok {
			v["additionalProperties"] = false
		}
		for _, value := range v {
			closeObjects(value)
		}
	case []any:
		for _, value := range v {
			closeObjects(value)
		}
	}
}

// watchDocuments looks at all that goes over the broker of w until the test ends.
func (w *World) watchDocuments() {
	w.T.Helper()
	d := &documents{requests: make(map[string]string)}
	w.documents = d
	conn, err := mqtt.New(mqtt.Options{URL: w.Broker.URL, ClientID: "documents", Log: slog.New(slog.DiscardHandler)})
	testenv.Must(w.T, err)
	for _, filter := range []string{w.TopicPrefix + "/#", "mes/#"} {
		err := conn.Subscribe(w.T.Context(), mqtt.Subscription{Filter: filter, Handle: func(_ context.Context, in *mqtt.Inbound) {
			d.check(w.TopicPrefix, in.Message)
			_ = in.Ack()
		}})
		testenv.Must(w.T, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = conn.Run(ctx)
	}()
	w.T.Cleanup(func() {
		stop()
		<-ended
		for _, text := range d.broken {
			w.T.Error(text)
		}
	})
}

// Documents says how many messages were checked against a schema so far.
func (w *World) Documents() int {
	w.documents.mu.Lock()
	defer w.documents.mu.Unlock()
	return w.documents.seen
}

// check judges a message by the channel of its topic and by its type. It must be one of the messages that may be there.
func (d *documents) check(prefix string, m mqtt.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	doc, err := asyncAPI()
	if err != nil {
		d.report(err.Error())
		return
	}
	e, _ := mqtt.Decode(m) // a retained document is none
	channel := doc.channelOf(prefix, m.Topic)
	names := doc.messagesOf(channel, e.Type)
	if len(m.Payload) == 0 || len(names) == 0 {
		return
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(m.Payload))
	if err == nil {
		for _, name := range names {
			if err = nil; doc.bodies[name] != nil {
				err = doc.bodies[name].Validate(body)
			}
			if err == nil {
				break
			}
		}
	}
	d.seen++
	text := fmt.Sprintf("%s is none of %v: %v\n%.2000s", m.Topic, names, err, m.Payload)
	switch {
	case err != nil && (channel == "commands" || channel == "equipmentEvents"):
		d.requests[e.ID] = text
	case err != nil:
		d.report(text)
	case d.requests[e.CausationID] != "" && e.ErrorKind == "" && bytes.Contains(m.Payload, []byte(`"ReturnStatus":1}`)):
		d.report("taken: " + d.requests[e.CausationID])
	}
}

func (d *documents) report(text string) {
	if len(d.broken) < 3 {
		d.broken = append(d.broken, text)
	}
}
