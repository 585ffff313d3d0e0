package mqtt_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/mqtt"
)

// A program that moved subscriptions from one session to another loses nothing at the upgrade: what the old session holds comes, what is sent
// meanwhile comes twice, and once the former subscriptions are taken back, what is new comes by the new session only.
func TestFormerSubscriptions(t *testing.T) {
	long.Test(t, "meets a broker that may lose a message when a session is taken over")
	brokers(t, func(t *testing.T, b *testenv.Broker) {
		const queued = 30
		commandBox, answerBox, formerBox := newInbox(), newInbox(), newInbox()
		before := newConn(t, b.URL, "recv", withSession)
		if err := before.Subscribe(t.Context(), commandBox.sub("$share/g/+/commands"), formerBox.sub("answers/+")); err != nil {
			t.Fatal(err)
		}
		stop := run(t, before.Run)
		ready(t, before)
		stop()
		peer := connected(t, b.URL, "peer")
		for i := range queued {
			publish(t, peer, mqtt.Message{Topic: "answers/a", Payload: fmt.Append(nil, i), QoS: 1})
		}
		handedOut(t, peer)

		recv, answers := newConn(t, b.URL, "recv", withSession), newConn(t, b.URL, "answers", withSession)
		former := formerBox.sub("answers/+")
		former.Former = true
		if err := errors.Join(recv.Subscribe(t.Context(), commandBox.sub("$share/g/+/commands"), former), answers.Subscribe(t.Context(), answerBox.sub("answers/+"))); err != nil {
			t.Fatal(err)
		}
		run(t, answers.Run)
		ready(t, answers)
		run(t, recv.Run)
		ready(t, recv)
		came := map[string]bool{}
		for range queued {
			came[string(formerBox.next(t).Payload)] = true
		}
		if len(came) != queued {
			t.Errorf("%d messages of the old session came, want %d", len(came), queued)
		}
		publish(t, peer, mqtt.Message{Topic: "answers/a", Payload: []byte("both"), QoS: 1})
		for _, box := range []inbox{formerBox, answerBox} {
			if got := string(box.next(t).Payload); got != "both" {
				t.Errorf("%q", got)
			}
		}

		if err := recv.EndFormer(within(t)); err != nil {
			t.Fatal(err)
		}
		publish(t, peer, mqtt.Message{Topic: "answers/a", Payload: []byte("one"), QoS: 1})
		publish(t, peer, mqtt.Message{Topic: "x/commands", Payload: []byte("command"), QoS: 1})
		if got := string(answerBox.next(t).Payload); got != "one" {
			t.Errorf("%q", got)
		}
		if got := string(commandBox.next(t).Payload); got != "command" { // behind all that the broker has for this session
			t.Errorf("%q", got)
		}
		formerBox.empty(t)
	})
}

// There is nothing to take back without a connection, and no wait that does not end with the context.
func TestEndFormerWithoutConnection(t *testing.T) {
	c := newConn(t, "mqtt://127.0.0.1:1", "recv", withSession)
	run(t, c.Run)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.EndFormer(ctx); !errors.Is(err, mqtt.ErrDown) {
		t.Errorf("%v", err)
	}
}
