package rig

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/schemas"
)

// documents checks the bodies of all messages of a World against the schemas, without members that the schemas do not name. A request may be no document of its schema if it is
// refused.
type documents struct {
	mu       sync.Mutex
	seen     map[string]int
	broken   []string          // the first of them
	requests map[string]string // those that are no document of their schema, by id, until they are answered
}

// closedSchemas are the schemas by name, with additionalProperties: false.
var closedSchemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	files, err := schemas.Files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	all := make(map[string]*jsonschema.Schema)
	for _, f := range files {
		name, isSchema := strings.CutSuffix(f.Name(), ".json")
		if !isSchema {
			continue
		}
		text, err := schemas.Files.ReadFile(f.Name())
		if err != nil {
			return nil, err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		if name != "event" { // extensions are attributes, too
			closeObjects(doc)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource(name, doc); err != nil {
			return nil, err
		}
		if all[name], err = c.Compile(name); err != nil {
			return nil, err
		}
	}
	return all, nil
})

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
	d := &documents{seen: make(map[string]int), requests: make(map[string]string)}
	w.documents = d
	conn, err := mqtt.New(mqtt.Options{URL: w.Broker.URL, ClientID: "documents", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.T.Fatal(err)
	}
	for _, filter := range []string{w.TopicPrefix + "/#", "mes/#"} {
		err := conn.Subscribe(w.T.Context(), mqtt.Subscription{Filter: filter, Handle: func(_ context.Context, in *mqtt.Inbound) {
			d.check(w.TopicPrefix, in.Message)
			_ = in.Ack()
		}})
		if err != nil {
			w.T.Fatal(err)
		}
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
func (w *World) Documents() (n int) {
	w.documents.mu.Lock()
	defer w.documents.mu.Unlock()
	for _, seen := range w.documents.seen {
		n += seen
	}
	return n
}

func (d *documents) check(prefix string, m mqtt.Message) {
	name := schemaOf(prefix, m)
	if name == "" || len(m.Payload) == 0 {
		return
	}
	all, err := closedSchemas()
	if err == nil {
		var body any
		if body, err = jsonschema.UnmarshalJSON(bytes.NewReader(m.Payload)); err == nil {
			err = all[name].Validate(body)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[name]++
	e, _ := mqtt.Decode(m)
	text := ""
	switch {
	case err == nil:
		text = d.requests[e.CausationID] // an answer
		delete(d.requests, e.CausationID)
		if text == "" || !bytes.Contains(m.Payload, []byte(`"ReturnStatus":1}`)) || e.ErrorKind != "" {
			return
		}
	case name != "action-call" && name != "station-call" && (strings.HasSuffix(m.Topic, "/commands") || strings.HasSuffix(m.Topic, "/events") && name != "status-event"):
		d.requests[e.ID] = fmt.Sprintf("%s is no %s, and is taken: %v\n%.2000s", m.Topic, name, err, m.Payload)
		return
	default:
		text = fmt.Sprintf("%s is no %s: %v\n%.2000s", m.Topic, name, err, m.Payload)
	}
	if len(d.broken) < 3 {
		d.broken = append(d.broken, text)
	}
}

// schemaOf is the name of the schema for the body of a message; "" = it has none.
func schemaOf(prefix string, m mqtt.Message) string {
	typ, refused := "", false
	for _, p := range m.User {
		switch p.Name {
		case "type":
			typ = p.Value
		case "mdcserrorkind":
			refused = true
		}
	}
	method, _ := isa95.MethodByTypeID(typ)
	kind, configured := isa95.ConfigByTypeID(typ)
	rest, ours := strings.CutPrefix(m.Topic, prefix+"/")
	levels := strings.Split(rest, "/")
	_, _, reply := topics.Prefix(prefix).ReplyTo(m.Topic)
	switch {
	case !ours || reply:
		return resultOf(method, kind, configured, refused)
	case levels[0] == "equipment" && levels[2] == "commands" && isa95.IsJobControlType(typ):
		return "station-call"
	case levels[0] == "equipment" && levels[2] == "commands":
		return "action-call"
	case levels[0] == "equipment" && typ == isa95.ReceiveJobResponse.TypeID():
		return "job-response-call"
	case levels[0] == "equipment" && isa95.IsJobControlType(typ):
		return "job-order-id-call"
	case levels[0] == "equipment" || levels[0] == "responses":
		return "action-result"
	}
	switch levels[min(1, len(levels)-1)] {
	case "events":
		if typ == isa95.StatusEventType {
			return "status-event"
		}
	case "state-index":
		return "state-index"
	case "order":
		return "job-order"
	case "result":
		return "job-response"
	case "metadata":
		return "metadata"
	case "commands":
		return callOf(method, kind, configured)
	}
	return ""
}

func callOf(method isa95.Method, kind isa95.ConfigKind, configured bool) string {
	switch {
	case configured:
		return map[isa95.ConfigKind]string{
			isa95.ConfigEquipment: "equipment", isa95.ConfigMaterialClass: "material", isa95.ConfigMaterialDefinition: "material", isa95.ConfigPersonnel: "personnel",
			isa95.ConfigPhysicalAsset: "physical-asset", isa95.ConfigJobAcceptance: "job-acceptance", isa95.ConfigWorkMaster: "work-master",
		}[kind]
	case method == isa95.RequestJobResponseByJobOrderID:
		return "job-response-by-id-call"
	case method == isa95.RequestJobResponseByJobOrderState:
		return "job-response-by-state-call"
	case method.TakesJobOrder():
		return "job-order-call"
	case method != "":
		return "job-order-id-call"
	}
	return ""
}

func resultOf(method isa95.Method, kind isa95.ConfigKind, configured, refused bool) string {
	switch {
	case configured && kind == isa95.ConfigWorkMaster && !refused:
		return "delivery-result"
	case method == isa95.RequestJobResponseByJobOrderID && !refused:
		return "job-response-result"
	case method == isa95.RequestJobResponseByJobOrderState && !refused:
		return "job-responses-result"
	case method != "" || configured:
		return "method-result"
	}
	return ""
}
