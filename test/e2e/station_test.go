package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/test/rig"
)

// A station that is not used any more is retired at once: orders that are in the way are named, and the next order brings it back.
func TestStationRetire(t *testing.T) {
	t.Parallel()
	s := &shell{rig.New(t, rig.Options{Takes: "1ms..5ms"}), t}
	s.Serve("a")
	m := s.QuietMES()
	m.Order(rig.Orders("JO", 1))
	s.state("JO-001", "Ended_Completed")
	s.run(ok, "job store "+s.order("DRAFT", false)+" --scope test-cell")

	s.run(refused, "station retire test-cell", "test-cell has job orders: ", "DRAFT (NotAllowedToStart_Ready)", "JO-001 (Ended_Completed)")
	s.run(failed, "station retire never", "no scope never")
	s.run(usage, "station retire a/b", "a/b")
	s.state("JO-001", "Ended_Completed")

	retires := func() {
		t.Helper()
		s.Until("the topics of the orders are deleted", func() bool { return s.Takt("station", "retire", "test-cell").Code == ok })
	}
	s.run(ok, "job cancel DRAFT --scope test-cell")
	s.run(ok, "job clear JO-001 --scope test-cell")
	retires()
	s.run(failed, "station retire test-cell", "no scope test-cell: it has retired")
	s.run(ok, "job store "+s.order("JO-2", true)+" --scope test-cell") // what the station has stays
	s.run(ok, "job cancel JO-2 --scope test-cell")
	retires()
	s.AtRest()
	s.Check()
}

// A program of the plant is the machine of an order without a recipe: it gets Start, says Run and hands in its response; the Stop of the MES reaches it, and the MES gets
// the response with the program's id and data.
func TestStationOfTheUser(t *testing.T) {
	t.Parallel()
	s := &shell{rig.New(t, rig.Options{NoStation: true}), t}
	s.Serve("a")
	s.Configure(s.QuietMES())
	ctx := testenv.Within(t)
	recv, err := mqtt.New(mqtt.Options{URL: s.Broker.URL, ClientID: "press-recv"})
	testenv.Must(t, err)
	pub := rig.Connect(t, mqtt.Options{URL: s.Broker.URL, ClientID: "press-pub"})
	commands := make(chan cloudevent.Event, 100)
	equipment := s.TopicPrefix + "/equipment/" + string(rig.Scope)
	err = recv.Subscribe(ctx, mqtt.Subscription{Filter: equipment + "/commands", QoS: 1, Handle: func(ctx context.Context, in *mqtt.Inbound) {
		e, err := mqtt.Decode(in.Message)
		if err != nil {
			t.Error(err)
		}
		commands <- e
		_ = in.Ack()
	}})
	testenv.Must(t, err)
	client, err := mqtt.NewClient(recv, pub, mqtt.ClientOptions{ResponseTopic: s.TopicPrefix + "/" + string(rig.Scope) + "/replies/press"})
	testenv.Must(t, err)
	testenv.Run(t, recv.Run)
	takes := func(m isa95.Method, body string) {
		t.Helper()
		for e := range commands {
			answer := e.Reply([]byte(`{"ReturnStatus":1}`), "", "urn:press", time.Now())
			testenv.Must(t, pub.PublishEvent(ctx, answer.Delivery.Topic, answer))
			if e.Type != m.TypeID() { // a repetition of the one before
				continue
			}
			if got := string(e.Data); body != "" && got != body {
				t.Errorf("%s: %s, want %s", m, got, body)
			}
			return
		}
	}
	says := func(m isa95.Method, body string, want isa95.ReturnStatus) {
		t.Helper()
		e := cloudevent.New(m.TypeID(), "urn:press", string(rig.Scope), time.Now())
		e.Data = []byte(body)
		reply, err := client.Request(ctx, equipment+"/events", e)
		var result isa95.MethodResult
		if err != nil || isa95.Unmarshal(reply.Data, &result) != nil || result.ReturnStatus != want {
			t.Errorf("%s %s: %s %s %v, want %s", m, body, reply.Data, reply.ErrorMessage, err, want)
		}
	}
	s.run(ok, "job store-and-start "+s.order("JO-1", false)+" --scope test-cell")
	takes(isa95.Start, "")
	says(isa95.End, `{"JobOrderID":"JO-1"}`, isa95.InvalidStatus)
	s.run(ok, "job show JO-1", "its station was asked to start it, and has not said Run")
	says(isa95.Run, `{"JobOrderID":"JO-1"}`, isa95.NoError)
	s.run(ok, "job show JO-1", "its station runs it since 20")
	says(isa95.ReceiveJobResponse, `{"JobResponse":{"JobResponseID":"JR-1","JobOrderID":"JO-1","JobResponseData":[{"ID":"torque","Value":12.50}]}}`, isa95.NoError)
	says(isa95.ReceiveJobResponse, `{"JobResponse":`, isa95.InvalidRequest)
	s.run(ok, "job stop JO-1 --scope test-cell")
	takes(isa95.Stop, `{"JobOrderID":"JO-1"}`)
	s.run(ok, "job show JO-1 --json", `"JR-1"`, "12.50", "Ended_Completed")
	s.run(ok, "job clear JO-1 --scope test-cell")
	says(isa95.ReceiveJobResponse, fmt.Sprintf(`{"JobResponse":{"JobOrderID":%q}}`, "JO-1"), isa95.UnknownJobOrder)
	s.AtRest()
	s.Check()
}
