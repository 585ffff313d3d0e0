package console

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/sampling"
)

// sample adds one, and waits until the console has it.
func (p *plant) sample(s sampling.Sample) Overview {
	p.Helper()
	text, err := json.Marshal(s)
	testenv.Must(p, err)
	testenv.Must(p, p.db.AddSample(p.Context(), text))
	var o Overview
	testenv.Eventually(p, "the console has the sample", func() bool {
		o = p.overview()
		return o.State.Last != nil && cmp.Equal(*o.State.Last, s)
	})
	return o
}

// The overview begins with whether the plant is fine, and names each thing that is not, with a link. Without a sample it says what makes one.
func TestVerdict(t *testing.T) {
	p := newPlant(t)
	page := p.get("/", http.StatusOK)
	for _, want := range []string{"No process of takt serve has made a sample yet", "No sample yet. A process of <code>takt serve</code>", "The plant is not fine."} {
		if !strings.Contains(page, want) {
			t.Errorf("without a sample the page does not say %q", want)
		}
	}
	events := p.stream(p.eventsOf(page), "")
	fine := sampling.Sample{By: "a", Engines: 1, Instances: 1}
	if o := p.sample(fine); len(o.State.Problems) > 0 || !o.State.Known {
		t.Errorf("%+v", o.State)
	}
	testenv.Take(t, "the page is told of a sample", events)
	if page := p.get("/", http.StatusOK); !strings.Contains(page, "The plant is fine:") || strings.Contains(page, "Tasks done") {
		t.Error("a plant without tasks is not shown as fine, or has charts of tasks")
	}
	for want, bad := range map[Trouble]sampling.Sample{
		{"No process with the role engine is up: no recipe goes on.", "#h-servers"}:            {},
		{"The oldest of commands to equipment has waited for 2 min 0 s.", "/system#h-streams"}: {Engines: 1, Backlog: map[string]sampling.Backlog{"commands": {Entries: 3, Oldest: 2 * time.Minute}}},
		{"Time-outs of recipes are late by 1 min 0 s.", "/system"}:                             {Engines: 1, TimerLate: time.Minute},
		{"Schedules of tasks are late by 1 min 0 s.", "/tasks"}:                                {Engines: 1, Tasks: sampling.Tasks{Schedule: time.Minute}},
		{"Job order <b>/1 has been in its state for 2 d 0 h.", "/orders/%3Cb%3E%2F1"}:          {Engines: 1, Oldest: "<b>/1", Waiting: 48 * time.Hour},
		{"Tasks wait in a queue for which no worker has slots.", "/tasks"}:                     {Engines: 1, Tasks: sampling.Tasks{Unserved: true}},
		{"Dead letters of workflows: 7. They wait for a decision.", "/workflows"}:              {Engines: 1, Dead: sampling.Letters{Workflows: 7}},
		{"Figures of tasks cannot be read: NOPERM <script>", ""}:                               {Engines: 1, Unread: map[string]string{"tasks": "NOPERM <script>"}},
	} {
		if o := p.sample(bad); len(o.State.Problems) != 1 || o.State.Problems[0] != want {
			t.Errorf("%+v, want %+v", o.State.Problems, want)
		}
		if page := p.get("/", http.StatusOK); !strings.Contains(page, "The plant is not fine.") || strings.Contains(page, "<b>/1") || strings.Contains(page, "NOPERM <script>") {
			t.Errorf("%s: the page", want.Text)
		}
	}
	p.sample(fine)
	p.redis.Refuse(true)
	p.redis.Cut()
	p.up("Redis", false)
	if o := p.overview(); len(o.State.Problems) != 1 || o.State.Problems[0].Text != "Redis does not answer." || o.State.Last == nil {
		t.Errorf("%+v", o.State)
	}
}

// A full day of samples is read once and takes no command of a page.
func TestDayOfSamples(t *testing.T) {
	p := newPlant(t)
	text, err := json.Marshal(sampling.Sample{By: "a", Engines: 1, Tasks: sampling.Tasks{Workers: 2, Done: 1e6}})
	testenv.Must(t, err)
	for range jobstore.KeptSamples {
		testenv.Must(t, p.db.AddSample(t.Context(), text))
	}
	p.sample(sampling.Sample{By: "b", Engines: 1})
	p.sent()
	body := p.get("/", http.StatusOK)
	if sent := p.sent(); len(sent) > 2 || len(body) > 60_000 {
		t.Errorf("%d bytes, commands %v", len(body), sent)
	}
}
