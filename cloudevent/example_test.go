package cloudevent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/taktworks/takt/cloudevent"
)

func ExampleEvent_SetAttribute() {
	var e cloudevent.Event
	for _, property := range [][2]string{
		{"specversion", "1.0"}, {"id", "req-1"}, {"source", "urn:example:mes"}, {"type", "org.example.Start.v2"},
		{"subject", "m42"}, {"plant", "north"}, {"data", "{}"},
	} {
		err := e.SetAttribute(property[0], property[1])
		if refused, ok := errors.AsType[*cloudevent.Error](err); ok {
			fmt.Println(refused.Kind, refused.Message)
		}
	}
	fmt.Println(e.Scope(), e.Extensions, e.Check())
	// Output:
	// USER_PROPERTY_INVALID attribute data must not be the name of an extension
	// m42 map[plant:north] <nil>
}

func ExampleEvent_Reply() {
	request := cloudevent.Event{ID: "req-1", Type: "org.example.Start.v2", Subject: "m42", CorrelationID: "c-1"}
	now := time.Date(2026, 11, 21, 0, 29, 34, 0, time.UTC)
	reply := request.Reply([]byte(`{"ReturnStatus":1}`), "urn:schema", "urn:example:takt", now)
	reply.ID = "reply-1" // a new UUID otherwise
	for a := range reply.Attributes() {
		fmt.Printf("%s=%s\n", a.Name, a.Value)
	}
	// Output:
	// id=reply-1
	// source=urn:example:takt
	// specversion=1.0
	// type=org.example.Start.v2
	// datacontenttype=application/json; charset=utf-8
	// dataschema=urn:schema
	// subject=m42
	// recordedtime=2026-11-21T00:29:34.000000Z
	// correlationid=c-1
	// causationid=req-1
}

func ExampleEvent_Refusal() {
	request := cloudevent.Event{ID: "req-1", Type: "org.example.Start.v2", Subject: "m42"}
	refusal := request.Refusal(&cloudevent.Error{
		Kind: cloudevent.KindPropertyInvalid, Message: "JobOrderID must not be empty",
		Context: map[string]string{"pointer": "/JobOrderID"},
	}, "urn:example:takt", time.Now())
	fmt.Println(refusal.Err())
	// Output: PROPERTY_INVALID: JobOrderID must not be empty (pointer="/JobOrderID")
}

func ExampleEvent_MarshalJSON() {
	text, err := json.Marshal(cloudevent.Event{
		ID: "1", Source: "urn:example:mes", SpecVersion: "1.0", Type: "org.example.Start.v2",
		DataContentType: cloudevent.ContentTypeJSON, Data: []byte(`{"JobOrderID": "JO-7"}`),
	})
	fmt.Println(string(text), err)
	var e cloudevent.Event
	err = json.Unmarshal(text, &e)
	fmt.Println(e.ID, string(e.Data), err)
	// Output:
	// {"data":{"JobOrderID":"JO-7"},"id":"1","source":"urn:example:mes","specversion":"1.0","type":"org.example.Start.v2","datacontenttype":"application/json; charset=utf-8"} <nil>
	// 1 {"JobOrderID":"JO-7"} <nil>
}
