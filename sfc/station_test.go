package sfc

import (
	"slices"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// commandsOf are the commands that reached the cell for a method, repetitions too.
func (c *cell) commandsOf(m isa95.Method) []cloudevent.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.sent), func(e cloudevent.Event) bool { return e.Type != m.TypeID() })
}

// repeatNow makes the repetition of a command to a station due, as time does.
func (p *plant) repeatNow(id string) {
	p.t.Helper()
	p.redis.Must(p.t, "ZADD", keys.New(p.prefix).SfcTimers(), "XX", "1", "/"+id)
}

// An order without a recipe goes to its station: Start, under one id until it is answered, by whatever instance lives.
func TestStationGetsStart(t *testing.T) {
	for name, order := range map[string]func(p *plant){
		"no work master": func(p *plant) { p.order("JO-1", "") },
		"a foreign recipe": func(p *plant) {
			p.foreign("WM-F")
			p.order("JO-1", "WM-F")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newSilent(t)
			first := p.start("one", setup{})
			order(p)
			eventually(t, "the command Start", func() bool { return len(p.cell.commandsOf(isa95.Start)) == 1 })
			start := p.cell.commandsOf(isa95.Start)[0]
			if want := `{"JobOrder":{"JobOrderID":"JO-1"`; !contains(string(start.Data), want) || start.DataSchema != isa95.Start.CallSchema() || start.Extensions["sequence"] != "0000000001" || start.ExpiryInterval != 5 {
				t.Errorf("%s, schema %s, expires in %d s", start.Data, start.DataSchema, start.ExpiryInterval)
			}
			p.empty(keys.New(p.prefix).SfcOutbox())
			first.stop()
			p.start("two", setup{})
			p.repeatNow(start.ID)
			eventually(t, "its repetition", func() bool { return len(p.cell.commandsOf(isa95.Start)) > 1 })
			again := p.cell.commandsOf(isa95.Start)[1]
			if again.ID != start.ID || string(again.Data) != string(start.Data) {
				t.Errorf("repeated as %s %s", again.ID, again.Data)
			}
			p.cell.mu.Lock()
			p.cell.answers[start.ID] = reaction{result: "{}"}
			p.cell.mu.Unlock()
			p.repeatNow(start.ID)
			p.settled() // its answer ends the repetitions
			if got := p.state("JO-1"); got != "AllowedToStart_Ready" {
				t.Errorf("%s: the station has not said Run", got)
			}
		})
	}
}

// A station that refuses Start gets it no more, and the order stays as it is.
func TestStationRefusesStart(t *testing.T) {
	p := newPlant(t)
	p.cell.react = func(r request) reaction {
		return reaction{refuse: cloudevent.Errorf(cloudevent.KindResourceExhausted, "no room")}
	}
	p.start("one", setup{})
	p.order("JO-1", "")
	p.settled()
	if job := p.load("JO-1").Job; job.State.String() != "AllowedToStart_Ready" || job.Station.Refused != "RESOURCE_EXHAUSTED: no room" {
		t.Errorf("%s, %+v", job.State, job.Station)
	}
}

// A command that the order has overtaken is not sent.
func TestStationCommandOvertaken(t *testing.T) {
	p := newSilent(t)
	p.start("one", setup{})
	p.order("JO-1", "")
	eventually(t, "the command Start", func() bool { return len(p.cell.commandsOf(isa95.Start)) == 1 })
	p.call("JO-1", isa95.Cancel, nil)
	p.repeatNow(p.cell.commandsOf(isa95.Start)[0].ID)
	p.settled()
	if n := len(p.cell.commandsOf(isa95.Start)); n != 1 {
		t.Errorf("%d commands Start", n)
	}
}

// The pause before a repetition grows with the age of the command.
func TestStationPause(t *testing.T) {
	sent := time.UnixMilli(1_800_000_000_000)
	route := jobstore.Route{Since: sent.UnixMilli()}
	for age, want := range map[time.Duration]time.Duration{0: 5 * time.Second, 7 * time.Second: 7 * time.Second, time.Hour: time.Minute} {
		if got := route.StationPause(sent.Add(age)); got != want {
			t.Errorf("after %v: %v, want %v", age, got, want)
		}
	}
}
