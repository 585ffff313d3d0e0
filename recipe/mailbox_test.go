package recipe

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// An event goes to its own job by correlation id, else by asset, else to the
// oldest job.
func TestMatch(t *testing.T) {
	old := Waiting{JobID: "old", Action: "e", CorrelationID: "c-old", Since: 1}
	cam1 := Waiting{JobID: "cam1", Action: "e", Asset: "cam-1", CorrelationID: "c-cam1", Since: 2}
	cam2 := Waiting{JobID: "cam2", Action: "e", Asset: "cam-2", CorrelationID: "c-cam2", Since: 0}
	young := Waiting{JobID: "young", Action: "e", CorrelationID: "c-young", Since: 9}
	for name, c := range map[string]struct {
		waiting []Waiting
		ev      PullEvent
		belongs string
		want    string
	}{
		"nobody waits":                            {nil, PullEvent{Subject: "cell"}, "", ""},
		"the oldest":                              {[]Waiting{young, old, cam1}, PullEvent{Subject: "cell"}, "", "old"},
		"the oldest names an asset":               {[]Waiting{young, cam2}, PullEvent{Subject: "cell"}, "", "cam2"},
		"of one age, the first to wait":           {[]Waiting{{JobID: "a", Since: 5}, {JobID: "b", Since: 5}}, PullEvent{Subject: "cell"}, "", "a"},
		"correlation before age":                  {[]Waiting{old, young}, PullEvent{Subject: "cell", CorrelationID: "c-young"}, "young", "young"},
		"correlation before asset":                {[]Waiting{cam1, young}, PullEvent{Subject: "cell/cam-1", CorrelationID: "c-young"}, "", "young"},
		"of a job that does not wait yet":         {[]Waiting{old, young}, PullEvent{Subject: "cell", CorrelationID: "c-later"}, "later", ""},
		"correlation of nobody is none":           {[]Waiting{old, young}, PullEvent{Subject: "cell", CorrelationID: "trace"}, "", "old"},
		"asset":                                   {[]Waiting{old, cam2, cam1}, PullEvent{Subject: "cell/cam-1"}, "", "cam1"},
		"asset of nobody, to one that names none": {[]Waiting{cam2, young, old}, PullEvent{Subject: "cell/cam-3"}, "", "old"},
		"asset of nobody":                         {[]Waiting{cam2, cam1}, PullEvent{Subject: "cell/cam-3"}, "", ""},
		"another scope's subject":                 {[]Waiting{cam1, old}, PullEvent{Subject: "cells/cam-1"}, "", "old"},
	} {
		m := &Mailbox{Waiting: c.waiting}
		if w, ok := m.Match(c.ev, "cell", c.belongs); w.JobID != c.want || ok != (c.want != "") {
			t.Errorf("%s: %v %v, want %q", name, w, ok, c.want)
		}
	}
}

// An event that comes before the action waits is kept with its payload, and taken
// when the action begins to wait.
func TestEarlyEvent(t *testing.T) {
	const recipe = "step A*\nstep B\nstep C\nA > B\nB > C\ndo a @ A\non e @ B type t time 30\ndo c @ C"
	r := begin(t, recipe, nil).pull("t", `{"pallet":"P-1"}`)
	r.answer("a", "").want("Running C [C]").wantSent("a/1/1", "c/1/1")
	if e := r.x().Action("e"); e.State != ActionCompleted || string(e.Result) != `{"pallet":"P-1"}` || e.Deadline != 0 {
		t.Errorf("%+v", e)
	}
	if len(r.mail) != 0 || len(r.out.ChangedMailboxes) != 1 || r.out.ChangedMailboxes[0] != "t" {
		t.Errorf("left behind: %v, changed %v", r.mail, r.out.ChangedMailboxes)
	}

	// Past its time a run that began after it does not take it, and a tick clears it away once no run can.
	r = newRun(t, recipe, nil)
	r.now = epoch.Add(-MailboxHold)
	r.pull("t", "")
	r.now = epoch
	r.take(r.p.Start(r.o, "WM-1", "1-0", r.docs().Mailboxes, r.now))
	r.now = epoch.Add(time.Minute)
	docs := r.docs()
	r.take(r.p.Answer(r.o, docs, Answer{CommandID: r.last("a").ID}, r.now)).want("Running B [B]").wantDue(30 * time.Second)
	if len(docs.Mailboxes["t"].Waiting) != 0 {
		t.Error("the mailbox decided on was changed")
	}
	if m, _ := DecodeMailbox(r.mail["t"]); len(m.Events) != 1 || len(m.Waiting) != 1 {
		t.Errorf("%+v", m)
	}
	r.take(r.p.Tick(r.o, r.docs(), r.now))
	if m, _ := DecodeMailbox(r.mail["t"]); len(m.Events) != 0 || len(m.Waiting) != 1 || r.out.Stale {
		t.Errorf("%+v %+v", m, r.out)
	}
	r.take(r.p.Tick(r.o, r.docs(), r.now)).wantStale()
}

// Which of several early events an action takes.
func TestEarlyEventMatching(t *testing.T) {
	r := newRun(t, "step A*\nstep B\nA > B\ndo a @ A\non e @ B type t with {\"asset_id\":\"cam-1\"}", nil)
	corr := CorrelationID("JO-1", "1-0")
	ev := func(id, subject, correlation, job string) PullEvent {
		return PullEvent{ID: id, Subject: subject, CorrelationID: correlation, JobID: job, Data: json.RawMessage(`"` + id + `"`), Until: epoch.Add(time.Hour).UnixMilli()}
	}
	other := ev("other job", "cell-07/cam-1", "c", "JO-2")
	wrong := ev("wrong asset", "cell-07/cam-2", "", "")
	late := ev("late", "cell-07/cam-1", corr, "JO-1")
	late.Until = epoch.UnixMilli()
	for name, c := range map[string]struct {
		events []PullEvent
		want   string
	}{
		"own correlation first": {[]PullEvent{ev("any", "cell-07", "", ""), ev("asset", "cell-07/cam-1", "", ""), ev("own", "cell-07/cam-2", corr, "JO-1")}, `"own"`},
		"then the asset":        {[]PullEvent{ev("any", "cell-07", "", ""), other, ev("asset", "cell-07/cam-1", "trace", ""), ev("second", "cell-07/cam-1", "", "")}, `"asset"`},
		"then any":              {[]PullEvent{other, wrong, late, ev("any", "cell-07", "", ""), ev("second", "cell-07", "", "")}, `"any"`},
		"none fits":             {[]PullEvent{other, wrong, late}, ``},
	} {
		t.Run(name, func(t *testing.T) {
			mail := map[string]*Mailbox{"t": {Events: c.events}}
			out := r.p.Start(r.o, "WM-1", "1-0", mail, epoch)
			out = r.p.Answer(r.o, out.Docs, Answer{CommandID: out.Commands[0].ID}, epoch)
			if got := string(out.Docs.Execution.Action("e").Result); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if out.Docs.Execution.Completed != (c.want != "") {
				t.Errorf("%+v", out)
			}
			left := len(c.events)
			if c.want != "" {
				left--
			}
			if m := out.Docs.Mailboxes["t"]; len(m.Events) != left || len(mail["t"].Events) != len(c.events) {
				t.Errorf("left %+v, before %+v", m, mail["t"])
			}
		})
	}
}

// A waiting action stands in its mailbox with its asset, until its event, its time-out or
// the end of the job.
func TestWaitingInTheMailbox(t *testing.T) {
	r := begin(t, `step A*
		on e @ A type t time 60 with {"asset_id":"cam-1"}
		on f @ A type t time 60
		on g @ A type u time 30`, nil)
	m := r.docs().Mailboxes["t"]
	x := r.x()
	want := []Waiting{
		{JobID: "JO-1", Action: "e", Asset: "cam-1", CorrelationID: x.CorrelationID, Since: x.StartedAt, Recipe: x.Recipe},
		{JobID: "JO-1", Action: "f", CorrelationID: x.CorrelationID, Since: x.StartedAt, Recipe: x.Recipe},
	}
	if diff := cmp.Diff(want, m.Waiting); diff != "" {
		t.Error(diff)
	}
	if x.Action("e").CommandID == "" || x.Action("e").Attempt != 0 {
		t.Errorf("%+v", x.Action("e"))
	}
	r.event("t", PullEvent{ID: "1", Subject: "cell-07/cam-1", Data: json.RawMessage(`{"n": 1}`)}).want("Running A [A]")
	if string(r.x().Action("e").Result) != `{"n":1}` || len(r.docs().Mailboxes["t"].Waiting) != 1 {
		t.Errorf("%+v", r.docs().Mailboxes["t"])
	}
	r.take(r.p.Pulled(r.o, r.docs(), "f", PullEvent{ID: "2", Data: json.RawMessage(`{`)}, r.now)).wantStale() // no JSON
	r.take(r.p.Pulled(r.o, r.docs(), "e", PullEvent{ID: "3"}, r.now)).wantStale()                             // does not wait
	r.wait(30 * time.Second).want("Failed A [A]").wantError("action g timed out: no event u within 30 s")
	if len(r.mail) != 0 {
		t.Errorf("left behind: %v", r.mail)
	}
}

// Evaluate repairs: a waiting action that its mailbox has lost stands in it again; one
// whose event came meanwhile gets it; an entry of an earlier start goes.
func TestEvaluateRepairsMailboxes(t *testing.T) {
	r := begin(t, "step A*\non e @ A type t\non f @ A type u\non g @ A type v\non h @ A type w", nil)
	delete(r.mail, "t")
	r.mail["u"] = (&Mailbox{
		Waiting: r.docs().Mailboxes["u"].Waiting,
		Events:  []PullEvent{{ID: "1", Subject: "cell-07", Until: epoch.UnixMilli() + 1}},
	}).Encode()
	r.mail["v"] = (&Mailbox{Waiting: []Waiting{{JobID: "JO-1", Action: "g", CorrelationID: "an earlier start"}}}).Encode()
	before := string(r.mail["w"])
	r.take(r.p.Evaluate(r.o, r.docs(), r.now))
	if m := r.docs().Mailboxes["t"]; m == nil || len(m.Waiting) != 1 {
		t.Errorf("%+v", m)
	}
	if r.x().Action("f").State != ActionCompleted || r.mail["u"] != nil {
		t.Errorf("%s", r.mail["u"])
	}
	if m := r.docs().Mailboxes["v"]; len(m.Waiting) != 1 || m.Waiting[0].CorrelationID != r.x().CorrelationID {
		t.Errorf("%+v", m)
	}
	if string(r.mail["w"]) != before || len(r.out.ChangedMailboxes) != 3 {
		t.Errorf("changed %v", r.out.ChangedMailboxes)
	}
}

func TestKeepAndForget(t *testing.T) {
	m := &Mailbox{}
	ev := PullEvent{ID: "1", Source: "s", Subject: "cell", Data: json.RawMessage(` {"n": 1} `), Until: 5}
	if !m.Keep(ev, "JO-9") || m.Keep(ev, "") {
		t.Error("kept twice, or not at all")
	}
	if m.Events[0].JobID != "JO-9" || string(m.Events[0].Data) != `{"n":1}` {
		t.Errorf("%+v", m.Events)
	}
	for _, bad := range []string{"{", strings.Repeat("[", 100) + strings.Repeat("]", 100), `"` + strings.Repeat("x", MaxResultBytes) + `"`} {
		if m.Keep(PullEvent{ID: "2", Data: json.RawMessage(bad)}, "") {
			t.Errorf("kept %.20s", bad)
		}
	}
	for i := range maxEarly + 5 { // the oldest make room
		if !m.Keep(PullEvent{ID: fmt.Sprint("n", i), Source: "s"}, "") {
			t.Error("not kept")
		}
	}
	if len(m.Events) != maxEarly || m.Events[maxEarly-1].ID != fmt.Sprint("n", maxEarly+4) {
		t.Errorf("%d events, the last %v", len(m.Events), m.Events[len(m.Events)-1])
	}
	m.Waiting = []Waiting{{JobID: "a", Action: "1"}, {JobID: "b"}, {JobID: "a", Action: "2"}}
	if !m.Forget("a") || m.Forget("a") || len(m.Waiting) != 1 {
		t.Errorf("%+v", m.Waiting)
	}
}

func TestMailboxDocument(t *testing.T) {
	empty := &Mailbox{}
	if got := string(empty.Encode()); got != `{"waiting":[],"events":[]}` || !empty.Empty() {
		t.Error(got)
	}
	m := &Mailbox{
		Waiting: []Waiting{{JobID: "J<&>", Action: "a", Asset: "c", CorrelationID: "x", Since: 7}},
		Events:  []PullEvent{{ID: "1", Source: "s", Subject: "t", CorrelationID: "c", JobID: "J", Data: json.RawMessage(`{"n":1.50}`), Until: 9}, {ID: "2"}},
	}
	data := m.Encode()
	again, err := DecodeMailbox(data)
	if err != nil || m.Empty() {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, again); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(string(data), `{"job_id":"J<&>","action":"a","asset":"c","correlation_id":"x","since":7}`) {
		t.Errorf("%s", data)
	}
	m.Events[0].Data = json.RawMessage(`{`)
	if again, err = DecodeMailbox(m.Encode()); err != nil || string(again.Events[0].Data) != "null" && again.Events[0].Data != nil {
		t.Errorf("%v %+v", err, again)
	}
	if _, err := DecodeMailbox([]byte(`{"waiting": 5}`)); err == nil {
		t.Error("no error")
	}
}
