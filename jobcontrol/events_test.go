package jobcontrol_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// sender runs the worker and the event sender of a plant until the test, or stop, ends them.
func (p *plant) sender(t testing.TB, publish func(context.Context, string, cloudevent.Event) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	worker, stopWorker := context.WithCancel(context.Background())
	s := &jobcontrol.EventSender{Store: p.store, TopicPrefix: "app/jobs", Publish: publish}
	var all, beat sync.WaitGroup
	beat.Go(func() {
		if err := p.store.RunWorker(worker); err != nil {
			t.Errorf("worker: %v", err)
		}
	})
	all.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("sender: %v", err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
		stopWorker()
		beat.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// Each status event reaches the broker's topic of its scope, verbatim with its dots, and leaves the outbox; what the broker
// does not take is tried again, and what nobody can take is set aside.
func TestEventSenderES19(t *testing.T) {
	p := plantOn(t, testenv.Redis(t), jobstore.Options{MaxDeliveries: 1}, jobcontrol.Options{})
	var mu sync.Mutex
	sent := make(map[string]string) // cause -> topic
	tries := 0
	p.sender(t, func(_ context.Context, topic string, e cloudevent.Event) error {
		mu.Lock()
		defer mu.Unlock()
		tries++
		switch {
		case e.Subject == "poison":
			return fmt.Errorf("publish: %w", &mqtt.MessageError{Field: "topic", Value: topic, Rule: "a rule"})
		case tries <= 3:
			return mqtt.ErrLost
		}
		sent[e.CausationID] = topic
		return nil
	})
	want := make(map[string]string)
	store := func(subject, id string) {
		e := call(isa95.Store, order(id))
		e.Subject, e.Delivery.Topic = subject, ""
		wantStatus(t, p.answer(t, e), isa95.NoError)
		if subject != "poison" {
			want[e.ID] = "app/jobs/" + subject + "/events"
		}
	}
	for i := range 20 {
		store("m42", fmt.Sprintf("JO-a%d", i))
		store("other.line", fmt.Sprintf("JO-b%d", i))
	}
	store("poison", "JO-p")
	testenv.Eventually(t, "an empty outbox", func() bool {
		return len(p.entries(t, p.keys.EventReceiver())) == 0 && len(p.entries(t, p.keys.DeadLetter(p.keys.EventReceiver()))) == 1
	})
	mu.Lock()
	defer mu.Unlock()
	for cause, topic := range want {
		if sent[cause] != topic {
			t.Errorf("%s went to %q, want %q", cause, sent[cause], topic)
		}
	}
}

func TestMetadata(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 29, 31, 871984000, time.UTC)
	m, err := jobcontrol.Options{Source: "urn:example:dcs", TopicPrefix: "app/jobs", MessageExpiry: time.Minute}.Metadata(now, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if m.Topic != "app/jobs/metadata" || !m.Retain || m.QoS != 1 || m.Expiry != 0 {
		t.Errorf("%s retain %v QoS %d expiry %v; the retained copy must not vanish", m.Topic, m.Retain, m.QoS, m.Expiry)
	}
	for _, u := range m.User {
		if u.Name == "type" || u.Name == "dataschema" || u.Name == "subject" {
			t.Errorf("it has %s", u.Name)
		}
	}
	if m, err = (jobcontrol.Options{}).Metadata(now, "", ""); err != nil || m.Topic != "takt/metadata" {
		t.Errorf("default topic %q, %v", m.Topic, err)
	}
	if store, source := jobcontrol.Announced(m); store != "" || source != "urn:takt" {
		t.Errorf("without a store: %q of %q", store, source)
	}
	if m, err = (jobcontrol.Options{Source: "urn:example:dcs"}).Metadata(now, "s1", ""); err != nil {
		t.Fatal(err)
	}
	if store, source := jobcontrol.Announced(m); store != "s1" || source != "urn:example:dcs" {
		t.Errorf("store %q of %q", store, source)
	}
	of, err := jobcontrol.Options{TopicPrefix: "app/jobs"}.Metadata(now, "", "other.line")
	if err != nil || of.Topic != "app/jobs/other.line/metadata" || !of.Retain || !slices.Contains(of.User, mqtt.UserProperty{Name: "subject", Value: "other.line"}) || !bytes.Equal(of.Payload, m.Payload) {
		t.Errorf("of a scope: %+v, %v", of, err)
	}
	if store, source := jobcontrol.Announced(mqtt.Message{Topic: m.Topic}); store != "" || source != "" {
		t.Errorf("a deleted one: %q of %q", store, source)
	}
}

func TestFilters(t *testing.T) {
	if got, want := jobcontrol.Filters("a/b", ""), []string{"a/b/+/commands", "a/b/commands"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got, want := jobcontrol.Filters("a/b", "takt"), []string{"$share/takt/a/b/+/commands", "$share/takt/a/b/commands"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	for _, f := range jobcontrol.Filters("a/b", "takt") {
		if err := mqtt.CheckFilter(f); err != nil {
			t.Error(err)
		}
	}
}

// Commands for one job order share a lane, in whatever form they name it.
func TestLane(t *testing.T) {
	for body, want := range map[string]string{
		`{"JobOrderID":"JO-7"}`: "JO-7", `{"job_order_id":"JO-7"}`: "JO-7", `{ "JobOrderID" : "JO-\u0037" }`: "JO-7", `{"JobOrderID":"\"JO\\"}`: `"JO\`, `{"JobOrderID":null}`: "the/topic", `{"JobOrderID":"\`: "the/topic",
		`{"JobOrder":{"Description":[{"Text":"\"JobOrderID\":\"no\""}],"JobOrderID":"JO-7"},"Comment":[]}`: "JO-7",
		`{"ID":"EQ-1"}`: "the/topic", ``: "the/topic", `{"JobOrderID":7}`: "the/topic", `{"JobOrderID"`: "the/topic", `{"JobOrderID":`: "the/topic",
		`{"JobOrderID":"` + string(make([]byte, 5000)): "the/topic",
	} {
		if got := jobcontrol.Lane(mqtt.Message{Topic: "the/topic", Payload: []byte(body)}); got != want {
			t.Errorf("%.60s: %q, want %q", body, got, want)
		}
	}
}
