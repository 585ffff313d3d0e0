package mqtt_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/mqtt"
)

func ExampleEncode() {
	m := mqtt.Encode("takt/m42/commands", cloudevent.Event{
		ID: "req-1", Source: "urn:example:mes", SpecVersion: "1.0", Type: "org.opcfoundation.ISA95-JOBCONTROL_V2.Start.v2",
		Subject: "m42", DataContentType: "application/json", CorrelationID: "aaaaaaaa-0000-4000-8000-000000000001",
		Data: []byte(`{"JobOrderID":"JO-7"}`),
	})
	fmt.Printf("%s %s %x\n", m.ContentType, m.Payload, m.CorrelationData)
	for _, u := range m.User {
		fmt.Println(u.Name, "=", u.Value)
	}
	// Output:
	// application/json {"JobOrderID":"JO-7"} aaaaaaaa000040008000000000000001
	// id = req-1
	// source = urn:example:mes
	// specversion = 1.0
	// type = org.opcfoundation.ISA95-JOBCONTROL_V2.Start.v2
	// datacontenttype = application/json
	// subject = m42
	// correlationid = aaaaaaaa-0000-4000-8000-000000000001
}

func ExampleDecode() {
	_, err := mqtt.Decode(mqtt.Message{
		Topic: "takt/m42/commands", Payload: []byte("{}"),
		User: []mqtt.UserProperty{{Name: "source", Value: "urn:example:mes"}, {Name: "type", Value: "Start"}},
	})
	var refusal *cloudevent.Error
	fmt.Println(errors.As(err, &refusal), refusal.Kind)
	// Output: true MISSING_USER_PROPERTY
}

// greeter is a Handler.
type greeter struct{}

func (greeter) Handle(_ context.Context, e cloudevent.Event) (*cloudevent.Event, error) {
	reply := e.Reply([]byte(`"hello"`), "", "urn:example:greeter", time.Now())
	return &reply, nil
}

func (greeter) Refuse(_ context.Context, e cloudevent.Event, why *cloudevent.Error) *cloudevent.Event {
	reply := e.Refusal(why, "urn:example:greeter", time.Now())
	return &reply
}

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	broker, err := embedded.StartMochi(ctx, embedded.MochiOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Stop()

	// Each side has a connection to receive and one to publish, each with a client id of its own.
	running, stop := context.WithCancel(ctx)
	var ended []chan error
	start := func(run func(context.Context) error) {
		done := make(chan error, 1)
		go func() { done <- run(running) }()
		ended = append(ended, done)
	}
	dial := func(id string) *mqtt.Conn {
		c, err := mqtt.New(mqtt.Options{URL: broker.URL(), ClientID: id, SessionExpiry: time.Hour, Log: quiet()})
		if err != nil {
			log.Fatal(err)
		}
		return c
	}
	serverRecv, serverPub := dial("takt-1-recv"), dial("takt-1-pub")
	server, err := mqtt.NewServer(serverRecv, serverPub, mqtt.ServerOptions{Filters: []string{"greetings"}, Handler: greeter{}})
	if err != nil {
		log.Fatal(err)
	}
	clientRecv, clientPub := dial("mes-1-recv"), dial("mes-1-pub")
	client, err := mqtt.NewClient(clientRecv, clientPub, mqtt.ClientOptions{ResponseTopic: "mes/1/answers"})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range []*mqtt.Conn{serverRecv, serverPub, clientRecv, clientPub} {
		start(c.Run)
	}
	start(server.Run)
	if err := serverRecv.Ready(ctx); err != nil {
		log.Fatal(err)
	}

	reply, err := client.Request(ctx, "greetings", cloudevent.Event{Source: "urn:example:me", Type: "greet", Data: []byte(`"hi"`)})
	fmt.Println(string(reply.Data), err)
	stop()
	for _, done := range ended {
		<-done
	}
	// Output: "hello" <nil>
}
