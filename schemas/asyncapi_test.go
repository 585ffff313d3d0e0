package schemas_test

import (
	"slices"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
)

// message is a message of the AsyncAPI document.
type message struct {
	name  string
	types []string // CloudEvents types; nil = any, for it is the user's
	body  string   // name of its schema; "" = any
	plain bool     // a retained document, which is no event
}

// operation is what Takt receives, or sends.
type operation struct {
	name, action, channel, summary string
	messages                       []message
	reply                          []message
	retained                       bool
}

// channels are the topics of an operation, by name, in their order.
var channels = []struct {
	name, address, description string
	parameters                 []string
}{
	{"commands", "{prefix}/{scope}/commands", "What an MES orders, and configuration.", []string{"prefix", "scope"}},
	{"events", "{prefix}/{scope}/events", "Status events, and events of processors.", []string{"prefix", "scope"}},
	{"stateIndex", "{prefix}/{scope}/state-index", "Retained: the job orders of the scope with their states.", []string{"prefix", "scope"}},
	{"order", "{prefix}/{scope}/order/{id}", "Retained: a job order.", []string{"prefix", "scope", "id"}},
	{"result", "{prefix}/{scope}/result/{id}", "Retained: the job response of an order that can be cleared.", []string{"prefix", "scope", "id"}},
	{"metadata", "{prefix}/{scope}/metadata", "Retained: what Takt understands and sends.", []string{"prefix", "scope"}},
	{"equipmentCommands", "{prefix}/equipment/{scope}/commands", "Commands of recipes, and job methods of orders without a recipe.", []string{"prefix", "scope"}},
	{"equipmentEvents", "{prefix}/equipment/{scope}/events", "What equipment and stations say.", []string{"prefix", "scope"}},
	{"processors", "{prefix}/processors/{name}/{scope}", "Events for a processor.", []string{"prefix", "name", "scope"}},
}

var parameters = map[string]object{
	"prefix": {{"description", "Topic prefix: --topic-prefix."}, {"default", "takt"}},
	"scope":  {{"description", "The station, as in the subject of the event up to its first slash."}},
	"id":     {{"description", "JobOrderID."}},
	"name":   {{"description", "Name of the processor."}},
}

func operations() []operation {
	var orders, ids, resources []message
	replyTypes := make(map[string][]string)
	for _, m := range isa95.Methods() {
		switch {
		case m.IsQuery():
		case m.TakesJobOrder():
			orders = append(orders, message{name: string(m), types: []string{m.TypeID()}, body: "job-order-call"})
			replyTypes["control"] = append(replyTypes["control"], m.TypeID())
		default:
			ids = append(ids, message{name: string(m), types: []string{m.TypeID()}, body: "job-order-id-call"})
			replyTypes["control"] = append(replyTypes["control"], m.TypeID())
		}
	}
	body := map[isa95.ConfigKind]string{
		isa95.ConfigEquipment: "equipment", isa95.ConfigMaterialClass: "material", isa95.ConfigMaterialDefinition: "material", isa95.ConfigPersonnel: "personnel",
		isa95.ConfigPhysicalAsset: "physical-asset", isa95.ConfigJobAcceptance: "job-acceptance",
	}
	for _, k := range isa95.ConfigKinds() {
		if k == isa95.ConfigWorkMaster {
			continue
		}
		resources = append(resources, message{name: "config-" + string(k), types: []string{k.TypeID()}, body: body[k]})
		replyTypes["config"] = append(replyTypes["config"], k.TypeID())
	}
	query := func(m isa95.Method, call, result string) operation {
		return operation{
			name: "receive" + string(m), action: "receive", channel: "commands", summary: "A query for job responses.",
			messages: []message{{name: string(m), types: []string{m.TypeID()}, body: call}},
			reply:    []message{{name: string(m) + "Reply", types: []string{m.TypeID()}, body: result}},
		}
	}
	var toStation, fromStation []string
	for _, m := range []isa95.Method{isa95.Start, isa95.Update, isa95.RevokeStart, isa95.Pause, isa95.Resume, isa95.Stop, isa95.Abort, isa95.Cancel} {
		toStation = append(toStation, m.TypeID())
	}
	station := []message{{name: "station-ReceiveJobResponse", types: []string{isa95.ReceiveJobResponse.TypeID()}, body: "job-response-call"}}
	for _, m := range isa95.StationMethods() {
		fromStation = append(fromStation, m.TypeID())
		if m != isa95.ReceiveJobResponse {
			station = append(station, message{name: "station-" + string(m), types: []string{m.TypeID()}, body: "job-order-id-call"})
		}
	}
	return []operation{
		{name: "receiveJobMethod", action: "receive", channel: "commands", summary: "A job method of OPC 10031-4. It is answered on the response topic, and a repeated one under the same id gets the same answer.",
			messages: slices.Concat(orders, ids), reply: []message{{name: "JobMethodReply", types: replyTypes["control"], body: "method-result"}}},
		query(isa95.RequestJobResponseByJobOrderID, "job-response-by-id-call", "job-response-result"),
		query(isa95.RequestJobResponseByJobOrderState, "job-response-by-state-call", "job-responses-result"),
		{name: "receiveConfiguration", action: "receive", channel: "commands", summary: "A resource of the station, or the limit of its job orders. The attribute method is DELETE to remove it.",
			messages: resources, reply: []message{{name: "ConfigurationReply", types: replyTypes["config"], body: "method-result"}}},
		{name: "receiveWorkMaster", action: "receive", channel: "commands", summary: "A work master with its recipe.",
			messages: []message{{name: "config-workmaster", types: []string{isa95.ConfigWorkMaster.TypeID()}, body: "work-master"}},
			reply:    []message{{name: "WorkMasterReply", types: []string{isa95.ConfigWorkMaster.TypeID()}, body: "delivery-result"}}},
		{name: "sendStatusEvent", action: "send", channel: "events", summary: "One event for each transition of a job order, in their order, numbered by the attribute sequence.",
			messages: []message{{name: "StatusEvent", types: []string{isa95.StatusEventType}, body: "status-event"}}},
		{name: "sendStateIndex", action: "send", channel: "stateIndex", retained: true, summary: "seq grows by one with each publication.", messages: []message{{name: "StateIndex", body: "state-index", plain: true}}},
		{name: "sendOrder", action: "send", channel: "order", retained: true, summary: "The order, or the order and its state with --order-payload with_state.",
			messages: []message{{name: "JobOrder", body: "job-order", plain: true}, {name: "JobOrderAndState", body: "job-order-and-state", plain: true}}},
		{name: "sendResult", action: "send", channel: "result", retained: true, summary: "It stays until the MES clears the order.", messages: []message{{name: "JobResponse", body: "job-response", plain: true}}},
		{name: "sendMetadata", action: "send", channel: "metadata", retained: true, summary: "An event without a type.", messages: []message{{name: "Metadata", body: "metadata", plain: true}}},
		{name: "sendActionCall", action: "send", channel: "equipmentCommands", summary: "A command of a recipe. type is the TypeId of the action; it is repeated under its id until it is answered.",
			messages: []message{{name: "ActionCall", body: "action-call"}}, reply: []message{{name: "ActionResult", body: "action-result"}}},
		{name: "sendStationCall", action: "send", channel: "equipmentCommands", summary: "A job method of an order without a recipe, repeated under its id until it is answered.",
			messages: []message{{name: "StationCall", types: toStation, body: "station-call"}}, reply: []message{{name: "StationCallReply", types: toStation, body: "method-result"}}},
		{name: "receiveStationMethod", action: "receive", channel: "equipmentEvents", summary: "What a station says of an order without a recipe. Repeat it under its id until it is answered.",
			messages: station, reply: []message{{name: "StationMethodReply", types: fromStation, body: "method-result"}}},
		{name: "receiveEquipmentEvent", action: "receive", channel: "equipmentEvents", summary: "An event for pull_event actions. type is their TypeId; a correlationid says which job order it is for.",
			messages: []message{{name: "EquipmentEvent", body: "action-result"}}},
		{name: "receiveProcessorEvent", action: "receive", channel: "processors", summary: "An event of your own type.",
			messages: []message{{name: "ProcessorEvent"}}, reply: []message{{name: "ProcessorReply"}}},
	}
}

func ref(path string) object { return object{{"$ref", path}} }

// asyncAPI is the document of the topics.
func asyncAPI(t *testing.T) []byte {
	t.Helper()
	inChannel := make(map[string][]message)
	all := make(map[string]bool)
	var messages, ops object
	var replies []message
	add := func(m message) {
		if all[m.name] {
			t.Fatalf("message %s is there twice", m.name)
		}
		all[m.name] = true
		messages = append(messages, member{m.name, m.object()})
	}
	for _, o := range operations() {
		var list, answers []object
		for _, m := range o.messages {
			add(m)
			inChannel[o.channel] = append(inChannel[o.channel], m)
			list = append(list, ref("#/channels/"+o.channel+"/messages/"+m.name))
		}
		for _, m := range o.reply {
			add(m)
			replies = append(replies, m)
			answers = append(answers, ref("#/channels/replies/messages/"+m.name))
		}
		op := object{{"action", o.action}, {"channel", ref("#/channels/" + o.channel)}, {"summary", o.summary}, {"messages", list},
			{"bindings", object{{"mqtt", object{{"qos", 1}, {"retain", o.retained}, {"bindingVersion", "0.2.0"}}}}}}
		if len(answers) > 0 {
			op = append(op, member{"reply", object{
				{"address", object{{"location", "$message.header#/responseTopic"}, {"description", "The MQTT 5 response topic of the request. The reply has its correlation data, and its id as causationid."}}},
				{"channel", ref("#/channels/replies")}, {"messages", answers},
			}})
		}
		ops = append(ops, member{o.name, op})
	}
	var topics object
	for _, c := range channels {
		var own, params object
		for _, m := range inChannel[c.name] {
			own = append(own, member{m.name, ref("#/components/messages/" + m.name)})
		}
		for _, p := range c.parameters {
			params = append(params, member{p, ref("#/components/parameters/" + p)})
		}
		topics = append(topics, member{c.name, object{{"address", c.address}, {"description", c.description}, {"parameters", params}, {"messages", own}}})
	}
	var own, params object
	for _, m := range replies {
		own = append(own, member{m.name, ref("#/components/messages/" + m.name)})
	}
	topics = append(topics, member{"replies", object{{"address", nil}, {"description", "Replies, on the response topic of the request."}, {"messages", own}}})
	for _, name := range sorted(parameters) {
		params = append(params, member{name, parameters[name]})
	}
	text, err := plain(object{
		{"asyncapi", "3.0.0"},
		{"info", object{
			{"title", "Takt"}, {"version", "0.1.0"},
			{"description", "Job orders by CloudEvents over MQTT 5, as Takt receives and sends them. Attributes of an event are user properties, and the payload is its body; or the payload is the whole event, with content type application/cloudevents+json (event.json)."},
			{"license", object{{"name", "Apache-2.0"}}},
		}},
		{"defaultContentType", "application/json"},
		{"servers", object{{"local", object{{"host", "127.0.0.1:1883"}, {"protocol", "mqtt"}, {"protocolVersion", "5.0"}, {"description", "The broker of takt dev."}}}}},
		{"channels", topics}, {"operations", ops},
		{"components", object{{"parameters", params}, {"schemas", object{{"attributes", envelope()}}}, {"messages", messages}}},
	})
	testenv.Must(t, err)
	doc, err := yaml.JSONToYAML(text)
	testenv.Must(t, err)
	return append([]byte("# Generated from the code: go test ./schemas -update. Do not edit.\n"), doc...)
}

func (m message) object() object {
	o := object{{"name", m.name}, {"contentType", "application/json"}}
	if !m.plain {
		var headers any = ref("#/components/schemas/attributes")
		if len(m.types) > 0 {
			headers = object{{"allOf", []any{headers, object{{"properties", object{{"type", object{{"enum", m.types}}}}}}}}}
		}
		o = append(o, member{"headers", headers})
	}
	if m.body != "" {
		o = append(o, member{"payload", object{{"schemaFormat", "application/schema+json;version=draft-07"}, {"schema", ref("./" + m.body + ".json")}}})
	}
	return append(o, member{"bindings", object{{"mqtt", object{{"contentType", "application/json"}, {"bindingVersion", "0.2.0"}}}}})
}
