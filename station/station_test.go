package station_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/golden"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/station"
)

const simple = `
scope: cell-07
commands:
  - type: press
    result: {order: "${order}", force_kn: "${parameters.force_kn}"}
    events:
      - {type: pressed, asset: camera-2, body: {ok: true, of: "${result.order}"}}
    cases:
      - {orders: [JO-bad*], refuse: {kind: STATE_INVALID, message: jammed}}
      - {orders: [JO-mute], unanswered: 2}
`

// TestAnswerOnTheWire: answer, event and log of a command.
func TestAnswerOnTheWire(t *testing.T) {
	b := newBench(t)
	b.start(simple)
	b.send(command("c-1", "press", "JO-1", "press_bearings", 2, `{"force_kn":12.50}`))
	a := take(t, "answer", b.answers)
	got := []string{a.Type, a.CausationID, a.CorrelationID, a.Subject, a.Source, string(a.Data), a.DataContentType, string(a.ErrorKind), a.Delivery.Topic, string(a.Delivery.CorrelationData)}
	want := []string{"press", "c-1", "run-of-JO-1", "cell-07", "urn:takt:station:cell-07", `{"order":"JO-1","force_kn":12.50}`,
		"application/json; charset=utf-8", "", "takt/responses/takt-1", "\x00\x01\x02"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	e := take(t, "event", b.events)
	got = []string{e.Type, e.CausationID, e.CorrelationID, e.Subject, e.Source, string(e.Data), e.Delivery.Topic}
	want = []string{"pressed", "c-1", "run-of-JO-1", "cell-07/camera-2", "urn:takt:station:cell-07", `{"ok":true,"of":"JO-1"}`, "takt/equipment/cell-07/events"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if a.ID == "" || e.ID == "" || a.ID == e.ID {
		t.Errorf("ids %q %q", a.ID, e.ID)
	}
	for _, want := range []station.Kind{station.Received, station.Executed} {
		entry := take(t, "entry", b.log)
		if entry.Kind != want || entry.Command != "c-1" || entry.Order != "JO-1" || entry.Action != "press_bearings" || entry.Attempt != 2 || entry.Type != "press" || entry.Scope != "cell-07" || entry.Time.IsZero() {
			t.Errorf("%+v", entry)
		}
	}
}

// TestRefusalsOnTheWire: negative answers carry mdcserrorkind and mdcserrormessage; a refused command has no events.
func TestRefusalsOnTheWire(t *testing.T) {
	b := newBench(t)
	b.start(simple)
	broken := command("c-3", "press", "JO-1", "press_bearings", 1, "")
	broken.Data = []byte(`{"JobOrderID":7}`)
	noID := command("", "press", "JO-1", "press_bearings", 1, "")
	text := command("c-5", "press", "JO-1", "press_bearings", 1, "")
	text.DataContentType = "text/plain"
	for name, row := range map[string]struct {
		e    cloudevent.Event
		kind cloudevent.ErrorKind
	}{
		"by the file":  {command("c-2", "press", "JO-bad-1", "press_bearings", 1, ""), cloudevent.KindStateInvalid},
		"body":         {broken, cloudevent.KindPayloadInvalid},
		"no id":        {noID, cloudevent.KindMissingUserProperty},
		"content type": {text, cloudevent.KindUnsupportedContentType},
	} {
		t.Run(name, func(t *testing.T) {
			b.send(row.e)
			a := take(t, "answer", b.answers)
			if a.ErrorKind != row.kind || a.ErrorMessage == "" || a.CausationID != row.e.ID {
				t.Errorf("%+v", a)
			}
		})
	}
	b.send(command("c-9", "other", "JO-1", "x", 1, "")) // for other equipment: no answer
	b.send(command("c-1", "press", "JO-1", "press_bearings", 1, ""))
	if a := take(t, "answer", b.answers); a.CausationID != "c-1" {
		t.Errorf("%+v", a)
	}
	if e := take(t, "event", b.events); e.CausationID != "c-1" {
		t.Errorf("an event of a refused command: %+v", e)
	}
}

// TestRepeatedCommand: the same answer again, to where the repeat wants it, and the work once.
func TestRepeatedCommand(t *testing.T) {
	b := newBench(t)
	b.start(simple)
	c := command("c-1", "press", "JO-1", "press_bearings", 1, `{"force_kn":1}`)
	b.send(c)
	first := take(t, "answer", b.answers)
	c.Delivery.ResponseTopic = "takt/responses/takt-2"
	c.Source = "urn:other:takt"
	b.send(c)
	second := take(t, "answer", b.answers)
	if second.Delivery.Topic != "takt/responses/takt-2" || string(second.Data) != string(first.Data) || second.CausationID != "c-1" {
		t.Errorf("%+v", second)
	}
	b.send(command("c-2", "press", "JO-2", "press_bearings", 1, ""))
	take(t, "answer", b.answers)
	var kinds []string
	for !slices.Contains(kinds, "executed c-2") || !slices.Contains(kinds, "event c-1") {
		e := take(t, "entry", b.log)
		kinds = append(kinds, string(e.Kind)+" "+e.Command)
	}
	for want, n := range map[string]int{"received c-1": 1, "executed c-1": 1, "repeated c-1": 1, "event c-1": 1} {
		count := 0
		for _, k := range kinds {
			if k == want {
				count++
			}
		}
		if count != n {
			t.Errorf("%s: %d times in %v", want, count, kinds)
		}
	}
	events := []string{take(t, "event", b.events).CausationID, take(t, "event", b.events).CausationID} // of two orders, in any order
	slices.Sort(events)
	if !slices.Equal(events, []string{"c-1", "c-2"}) {
		t.Errorf("events of %v, want one of each command", events)
	}
}

// TestCancel: a command that names another one ends its work, which is then refused and has no events; one that comes before the other has it refused when it comes.
func TestCancel(t *testing.T) {
	b := newBench(t)
	b.start(`
scope: cell-07
commands:
  - {type: press, takes: 1h, result: {ok: true}, events: [{type: pressed}]}
  - {type: retract, result: {at: home}}
`)
	cancel := func(id, of string) cloudevent.Event {
		c := command(id, "retract", "JO-1", "press_bearings", 1, "")
		c.CausationID = of
		return c
	}
	b.send(command("c-1", "press", "JO-1", "press_bearings", 1, ""))
	b.send(cancel("x-1", "c-1"))
	b.send(cancel("x-2", "c-2"))
	b.send(command("c-2", "press", "JO-1", "press_bearings", 2, ""))
	got := map[string]cloudevent.ErrorKind{}
	for range 4 {
		a := take(t, "answer", b.answers)
		got[a.CausationID] = a.ErrorKind
	}
	if diff := cmp.Diff(map[string]cloudevent.ErrorKind{"c-1": cloudevent.KindCancellation, "c-2": cloudevent.KindCancellation, "x-1": "", "x-2": ""}, got); diff != "" {
		t.Error(diff)
	}
	if len(b.events) > 0 {
		t.Errorf("an event of a command that was called off: %+v", <-b.events)
	}
}

// TestUnanswered: so many deliveries meet silence, the work is done all the same.
func TestUnanswered(t *testing.T) {
	b := newBench(t)
	b.start(simple)
	c := command("c-1", "press", "JO-mute", "press_bearings", 1, "")
	b.send(c)
	b.expect(station.Executed)
	b.send(c)
	b.expect(station.Repeated)
	b.send(command("c-2", "press", "JO-2", "press_bearings", 1, "")) // an answer to one before would come before this one
	if a := take(t, "answer", b.answers); a.CausationID != "c-2" {
		t.Fatalf("answered: %+v", a)
	}
	b.send(c)
	if a := take(t, "answer", b.answers); a.CausationID != "c-1" {
		t.Errorf("%+v", a)
	}
}

// TestCommandsWhileAway: the session at the broker keeps them.
func TestCommandsWhileAway(t *testing.T) {
	b := newBench(t)
	stop := b.start(simple)
	stop()
	b.send(command("c-1", "press", "JO-1", "press_bearings", 1, ""))
	b.send(command("c-2", "press", "JO-2", "press_bearings", 1, ""))
	b.start(simple)
	ids := []string{take(t, "answer", b.answers).CausationID, take(t, "answer", b.answers).CausationID}
	slices.Sort(ids)
	if !slices.Equal(ids, []string{"c-1", "c-2"}) {
		t.Error(ids)
	}
}

// TestOpenBeforeConnected: no command comes before the station takes work. It would be left, and not come again.
func TestOpenBeforeConnected(t *testing.T) {
	b := newBench(t)
	s := b.equip(simple)
	release := s.Hold()
	run(t, s.Run)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if s.Ready(ctx) == nil {
		t.Error("ready, and does not take work")
	}
	release()
	if err := s.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	b.send(command("c-1", "press", "JO-1", "press_bearings", 1, ""))
	take(t, "answer", b.answers)
}

// TestMemoryOverRestart: a new station with the same log file answers what was answered, does what was not done, and
// sends what was not sent, each once.
func TestMemoryOverRestart(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(t.TempDir(), "station.jsonl")
	withLog := func(o *station.Options) { o.LogFile = file }
	slow := strings.Replace(simple, "    result:", "    takes: 1h\n    result:", 1)

	stop := b.start(simple, withLog)
	done := command("c-done", "press", "JO-1", "press_bearings", 1, `{"force_kn":1}`)
	b.send(done)
	first := take(t, "answer", b.answers)
	take(t, "event", b.events)
	b.expectAll("c-done", station.Answered, station.Event)
	stop()
	stop = b.start(slow, withLog) // dies in the middle of an hour's work
	b.send(command("c-begun", "press", "JO-2", "press_bearings", 1, ""))
	b.expectAll("c-begun", station.Received)
	stop()
	stop = b.start(strings.Replace(simple, "asset: camera-2", "after: 1h, asset: camera-2", 1), withLog) // dies before the event
	if a := take(t, "answer", b.answers); a.CausationID != "c-begun" {
		t.Errorf("%+v", a)
	}
	b.expectAll("c-begun", station.Answered)
	stop()
	b.start(simple, withLog)
	if e := take(t, "event", b.events); e.CausationID != "c-begun" {
		t.Errorf("%+v", e)
	}
	b.send(done)
	if a := take(t, "answer", b.answers); a.CausationID != "c-done" || string(a.Data) != string(first.Data) {
		t.Errorf("%+v", a)
	}
	b.expectAll("c-begun", station.Event)
	entries, err := station.ReadLog(file)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range entries {
		count[string(e.Kind)+" "+e.Command]++
	}
	for _, what := range []string{"received c-done", "executed c-done", "event c-done", "repeated c-done", "received c-begun", "executed c-begun", "answered c-begun", "event c-begun"} {
		if count[what] != 1 {
			t.Errorf("%s: %d times", what, count[what])
		}
	}
	if info, _ := os.Stat(file); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// TestTornLog: a last line without an end is cut off; a file that is no log is left alone.
func TestTornLog(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(t.TempDir(), "station.jsonl")
	whole := `{"time":"2026-11-21T09:00:00Z","kind":"event","scope":"cell-07","type":"pallet","subject":"cell-07","event":"e-1","n":3}` + "\n"
	if err := os.WriteFile(file, []byte(whole+`{"time":"2026-11-2`), 0o600); err != nil {
		t.Fatal(err)
	}
	stop := b.start("scope: cell-07\nsources: [{type: pallet, every: 1ms, limit: 5, body: {pallet: 'P-${n}'}}]", func(o *station.Options) { o.LogFile = file })
	for _, want := range []string{`{"pallet":"P-4"}`, `{"pallet":"P-5"}`} {
		if e := take(t, "event", b.events); string(e.Data) != want || e.CorrelationID != "" {
			t.Errorf("%s, want %s", e.Data, want)
		}
		b.expect(station.Event)
	}
	stop()
	if entries, err := station.ReadLog(file); err != nil || len(entries) != 3 {
		t.Error(len(entries), err)
	}
	for name, text := range map[string]string{"text": "hello\n", "other JSON": "{}\n"} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := b.equip(simple, func(o *station.Options) { o.LogFile = file }).Run(within(t))
			if err == nil || !strings.Contains(err.Error(), "no entry") {
				t.Error(err)
			}
			if got, _ := os.ReadFile(file); string(got) != text {
				t.Errorf("changed to %q", got)
			}
		})
	}
}

// TestSource: events come ahead of the orders by so many and no more, make room when an order takes one up, and count
// no longer when nobody does.
func TestSource(t *testing.T) {
	b := newBench(t)
	b.start(`
scopes: [cell-07, cell-08]
commands: [{type: place}]
sources: [{type: pallet, every: 1ms, ahead: 2, taken_by: place, again: 1h, asset: infeed, body: {pallet: "${scope}-${n}"}}]
`)
	var seen []string
	collect := func(n int) {
		for range n {
			e := take(t, "event", b.events)
			seen = append(seen, string(e.Data))
			if e.Subject != e.Scope()+"/infeed" {
				t.Errorf("subject %s", e.Subject)
			}
		}
	}
	collect(4)
	b.send(command("c-1", "place", "JO-1", "place", 1, ""))
	collect(1)
	b.send(command("c-2", "place", "JO-1", "place", 2, "")) // the same run of the order takes no second one
	b.send(command("c-3", "place", "JO-2", "place", 1, ""))
	collect(1)
	slices.Sort(seen)
	want := []string{`{"pallet":"cell-07-1"}`, `{"pallet":"cell-07-2"}`, `{"pallet":"cell-07-3"}`, `{"pallet":"cell-07-4"}`, `{"pallet":"cell-08-1"}`, `{"pallet":"cell-08-2"}`}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// TestSourceGoesOn: events that nobody takes up stop counting, so orders that come late find new ones.
func TestSourceGoesOn(t *testing.T) {
	b := newBench(t)
	b.start(`
scope: cell-07
commands: [{type: place}]
sources: [{type: pallet, every: 1ms, ahead: 2, taken_by: place, again: 20ms, limit: 7}]
`)
	ids := map[string]bool{}
	for range 7 {
		ids[take(t, "event", b.events).ID] = true
	}
	if len(ids) != 7 {
		t.Errorf("%d ids", len(ids))
	}
}

// TestEventRepeatedUntilSeen: the same event again until a command of the same run shows that it arrived.
func TestEventRepeatedUntilSeen(t *testing.T) {
	b := newBench(t)
	b.start(`
scope: cell-07
commands:
  - {type: place, events: [{type: checked, repeat: 5ms, until: [tighten]}]}
  - {type: tighten}
`)
	b.send(command("c-1", "place", "JO-1", "place", 1, ""))
	id := take(t, "event", b.events).ID
	for range 3 {
		if e := take(t, "event", b.events); e.ID != id {
			t.Errorf("%s, want %s", e.ID, id)
		}
	}
	b.send(command("c-2", "tighten", "JO-other", "tighten", 1, ""))
	take(t, "event", b.events)
	b.send(command("c-3", "tighten", "JO-1", "tighten", 1, ""))
	for e := b.expect(station.Executed); e.Command != "c-3"; e = b.expect(station.Executed) {
	}
}

// TestBrokerLostAndBack: answers and events wait for the broker.
func TestBrokerLostAndBack(t *testing.T) {
	long.Test(t, "kills the broker")
	broker := testenv.StartMosquitto(t, embedded.MosquittoOptions{Dir: t.TempDir()})
	e, err := station.ParseEquipment("equipment.yaml", []byte("scope: cell-07\nsources: [{type: pallet, every: 1ms, limit: 20000}]"))
	if err != nil {
		t.Fatal(err)
	}
	log := make(chan station.Entry, 100_000)
	s, err := station.New(station.Options{Equipment: e, MQTT: mqtt.Options{URL: broker.URL}, Log: quiet(), OnLog: func(e station.Entry) { log <- e }})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s.Run)
	last := take(t, "event", log).N
	if err := broker.Server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := broker.Server.Restart(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	for len(log) > 0 {
		last = take(t, "event", log).N
	}
	for range 5 {
		if e := take(t, "event", log); e.N != last+1 {
			t.Errorf("%d after %d", e.N, last)
		}
		last++
	}
}

// TestOptions: what cannot be is said at once.
func TestOptions(t *testing.T) {
	if _, err := station.New(station.Options{}); err == nil {
		t.Error("no equipment")
	}
	e, err := station.ParseEquipment("equipment.yaml", []byte(simple))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := station.New(station.Options{Equipment: e, MQTT: mqtt.Options{URL: "http://x"}}); err == nil {
		t.Error("no broker")
	}
	s, err := station.New(station.Options{Equipment: e, MQTT: mqtt.Options{URL: "mqtt://127.0.0.1:1"}, LogFile: t.TempDir(), Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(within(t)); err == nil {
		t.Error("a folder as log")
	}
}

// TestEntryGolden: the lines of the log.
func TestEntryGolden(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 14, 5, 120_000_000, time.UTC)
	entry := station.Entry{
		Time: at, Kind: station.Received, Command: "c-1", Scope: "cell-07", Order: "JO-1", Action: "press_bearings", Attempt: 1, Type: "press",
		Correlation: "r-1", Subject: "cell-07", Body: json.RawMessage(`{"force_kn":12.5}`), ResponseTopic: "takt/responses/takt-1", CorrelationData: []byte{1, 2},
	}
	refused := station.Entry{Time: at, Kind: station.Executed, Command: "c-1", Scope: "cell-07", Order: "JO-1", Action: "press_bearings", Attempt: 1, Type: "press", Error: &station.LogError{Kind: "STATE_INVALID", Message: "jammed"}}
	pallet := station.Entry{Time: at, Kind: station.Event, Scope: "cell-07", Type: "pallet", Subject: "cell-07/infeed", Event: "e-1", N: 4, Body: json.RawMessage(`{"pallet":"P-4"}`)}
	var lines string
	for _, e := range []station.Entry{entry, refused, pallet} {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines += string(line) + "\n"
		var back station.Entry
		if err := json.Unmarshal(line, &back); err != nil || cmp.Diff(e, back) != "" {
			t.Error(err, cmp.Diff(e, back))
		}
	}
	golden.Check(t, "testdata/log.golden", lines)
}
