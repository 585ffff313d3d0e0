package publisher_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/publisher"
)

// captured is one message on a retained topic, recorded from MicroDCS; line is that of the recording.
type captured struct {
	Line    int    `json:"line"`
	Topic   string `json:"topic"`
	QoS     byte   `json:"qos"`
	Retain  bool   `json:"retain"`
	Expiry  int    `json:"MessageExpiryInterval"`
	Payload string `json:"payload"`
}

// microDCS are the options with which the bytes are those of MicroDCS.
func microDCS(s *setup) {
	s.StateIndexKeys, s.OrderPayload = isa95.Wire, publisher.OrderWithState
}

// What MicroDCS was seen to publish and Takt does not, and why.
var notCompared = map[int]string{
	55: "has_result of a job that did not begin: its response was stored early, and the topic never published",
	70: "a Start under a foreign scope moved the job order there; Takt refuses it",
	71: "has_result of a job that did not begin, as in line 55, and the job order of two scopes",
}

// Everything else is compared byte for byte, but for the time and the number in the index: MicroDCS counts what did not change
// too. The step of each line is the state of the store after which Takt publishes the same.
func TestCapturedMessages(t *testing.T) {
	p := newPlant(t)
	p.start(microDCS)
	jobOrder := func(text string) *isa95.JobOrder {
		o := new(isa95.JobOrder)
		testenv.Must(t, isa95.Unmarshal([]byte(text), o))
		return o
	}
	put := func(m isa95.Method, state isa95.State, id, order, response string) func() {
		return func() {
			p.change(scope, isa95.JobOrderID(id), func(*jobstore.Snapshot) jobstore.Change {
				c := jobstore.Change{Transition: &jobstore.Transition{Method: m, State: state}, Now: p.store.Now()}
				if order != "" {
					c.Transition.Order = jobOrder(order)
				}
				if response != "" {
					c.Response = new(isa95.JobResponse)
					testenv.Must(t, isa95.Unmarshal([]byte(response), c.Response))
				}
				return c
			})
		}
	}
	var (
		ready   = isa95.State{Top: isa95.NotAllowedToStart, Sub: isa95.Ready}
		started = isa95.State{Top: isa95.AllowedToStart, Sub: isa95.Ready}
		aborted = isa95.State{Top: isa95.Aborted}
		gone    = isa95.State{Top: isa95.EndState}
	)
	messages := make(map[int]captured)
	text, err := os.ReadFile("testdata/captured.jsonl")
	testenv.Must(t, err)
	for line := range bytes.Lines(text) {
		var c captured
		testenv.Must(t, json.Unmarshal(line, &c))
		messages[c.Line] = c
	}
	compared := make(map[int]bool)
	for _, step := range []struct {
		do    func()
		lines []int
	}{
		{put(isa95.Store, ready, "JO-7", `{"JobOrderID":"JO-7","Description":[{"Locale":"en","Text":"Batch 7"}],"WorkMasterID":[{"ID":"WM-1"}],"StartTime":"2026-05-04T06:00:00Z",`+
			`"Priority":3,"JobOrderParameters":[{"ID":"P1","Value":42.5}],"EquipmentRequirements":[{"ID":"EQ-1","Quantity":"1"}]}`, ""), []int{8, 39, 40}},
		{put(isa95.Cancel, gone, "JO-7", "", ""), nil},
		{put(isa95.Store, ready, "JO-20", `{"JobOrderID":"JO-20","Priority":1}`, ""), []int{42, 43}},
		{put(isa95.Abort, aborted, "JO-20", "", ""), []int{45}},
		{put("ResultUpdate", aborted, "JO-20", "", `{"JobResponseID":"JR-20","JobOrderID":"JO-20","JobState":[{"StateText":{"Locale":"en","Text":"Ended"},"StateNumber":5},`+
			`{"StateText":{"Locale":"en","Text":"Completed"},"StateNumber":1}],"JobResponseData":[{"ID":"torque","Value":12.5}]}`), []int{46, 47}},
		{put(isa95.Clear, gone, "JO-20", "", ""), []int{48, 50, 51}},
		{put(isa95.Store, ready, "JO-21", `{"JobOrderID":"JO-21","Priority":2}`, ""), []int{53, 54}},
		{put(isa95.Abort, aborted, "JO-21", "", `{"JobOrderID":"JO-21"}`), []int{57}},
		{put(isa95.Store, ready, "JO-22", `{"JobOrderID":"JO-22"}`, ""), []int{58, 60}},
		{put(isa95.Cancel, gone, "JO-22", "", ""), []int{62}},
		{put(isa95.StoreAndStart, started, "JO-23", `{"JobOrderID":"JO-23"}`, ""), []int{64, 65}},
		{put(isa95.RevokeStart, ready, "JO-23", "", ""), []int{67, 68}}, // MicroDCS: a second Store, which Takt refuses
	} {
		p.forget()
		step.do()
		p.inSync(microDCS)
		for _, line := range step.lines {
			compared[line] = true
			want := messages[line]
			if got := p.messages(strings.TrimPrefix(want.Topic, prefix+"/")); len(got) != 1 {
				t.Errorf("line %d, %s: %d messages", line, want.Topic, len(got))
			} else {
				compareCaptured(t, want, got[0])
			}
		}
	}
	for line := range messages {
		if why, skipped := notCompared[line]; compared[line] == skipped || skipped && why == "" {
			t.Errorf("line %d: compared %v, or else needs a reason: %q", line, compared[line], why)
		}
	}
}

var (
	numbers = regexp.MustCompile(`"seq":\d+,`)
	times   = regexp.MustCompile(`"published_at":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00"`)
)

func compareCaptured(t *testing.T, want captured, got mqtt.Message) {
	t.Helper()
	same := func(s string) string {
		return times.ReplaceAllString(numbers.ReplaceAllString(s, `"seq":0,`), `"published_at":""`)
	}
	if same(want.Payload) != same(string(got.Payload)) {
		t.Errorf("line %d, %s:\n%s\n%s, want", want.Line, want.Topic, got.Payload, want.Payload)
	}
	expiry := time.Duration(want.Expiry) * time.Second
	if want.Retain { // delivered from what was retained, some time later
		expiry = 48 * time.Hour
	}
	if got.Expiry != expiry || got.QoS != want.QoS || got.ContentType != "" || got.UTF8 || !strings.HasSuffix(got.Topic, "/state-index") && got.User != nil {
		t.Errorf("line %d, %s: %+v", want.Line, want.Topic, got)
	}
}

// epochs match the member that the page does not have.
var epochs = regexp.MustCompile(`,"epoch":"[0-9a-f-]{36}"`)

// The forms of the MES Northbound Publishing page, which are the default.
func TestPageForms(t *testing.T) {
	p := newPlant(t)
	p.start()
	p.change("cell-07", "JO-7732", func(*jobstore.Snapshot) jobstore.Change {
		priority := 20
		return jobstore.Change{Now: p.store.Now(), Transition: &jobstore.Transition{
			Method: isa95.Store, State: isa95.State{Top: isa95.Running},
			Order: &isa95.JobOrder{JobOrderID: "JO-7732", WorkMasterID: []isa95.WorkMasterRef{{ID: "WM-GEARBOX-COVER-3"}}, Priority: &priority},
		}}
	})
	p.move("cell-07", "JO-7733", isa95.Store)
	p.inSync()
	has := p.retained()
	for topic, want := range map[string]string{
		"cell-07/order/JO-7732": `{"JobOrderID":"JO-7732","WorkMasterID":[{"ID":"WM-GEARBOX-COVER-3"}],"Priority":20}`,
		"cell-07/state-index": `{"seq":0,"scope":"cell-07","published_at":"","jobs":[` +
			`{"job_order_id":"JO-7733","state":[{"state_text":{"text":"NotAllowedToStart","locale":"en"},"state_number":1},{"state_text":{"text":"Ready","locale":"en"},"state_number":2}],"has_result":false},` +
			`{"job_order_id":"JO-7732","state":[{"state_text":{"text":"Running","locale":"en"},"state_number":3}],"has_result":false}]}`,
	} {
		got := times.ReplaceAllString(numbers.ReplaceAllString(string(has[topic].Payload), `"seq":0,`), `"published_at":""`)
		got = epochs.ReplaceAllString(got, "")
		if got != want {
			t.Errorf("%s:\n%s\n%s, want", topic, got, want)
		}
	}
}

// With the state in the payload, the payload follows the state. And a change of the options changes what is retained, with
// the next start.
func TestFormsFollowStateAndOptions(t *testing.T) {
	p := newPlant(t)
	i := p.start(microDCS)
	p.move(scope, "JO-1", isa95.StoreAndStart)
	p.inSync(microDCS)
	p.move(scope, "JO-1", isa95.Run)
	p.inSync(microDCS)
	if got, want := string(p.retained()["m42/order/JO-1"].Payload), `{"JobOrder":{"JobOrderID":"JO-1"},"State":[{"StateText":{"Locale":"en","Text":"Running"},"StateNumber":3}]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	seq := p.index(scope).Seq
	i.stop()
	p.start()
	p.inSync()
	if got, want := string(p.retained()["m42/order/JO-1"].Payload), `{"JobOrderID":"JO-1"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if x := p.index(scope); x.Seq != seq {
		t.Errorf("seq %d after %d though nothing changed", x.Seq, seq)
	}
	p.eventually("the index in its new form", func() error {
		payload := p.retained()["m42/state-index"].Payload
		return wrongIf(!bytes.Contains(payload, []byte("state_text")), "%s", payload)
	})
}
