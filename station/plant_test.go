package station_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/station"
)

// bareWorld is a time, and what was heard in it.
type bareWorld struct {
	now   time.Time
	due   []dueThing
	heard []string
}

type dueThing struct {
	at time.Time
	do func()
}

func (w *bareWorld) Now() time.Time { return w.now }

func (w *bareWorld) After(d time.Duration, do func()) {
	w.due = append(w.due, dueThing{w.now.Add(d), do})
	slices.SortStableFunc(w.due, func(a, b dueThing) int { return a.at.Compare(b.at) })
}

func (w *bareWorld) hear(what string) {
	w.heard = append(w.heard, fmt.Sprintf("%v %s", w.now.Sub(time.Unix(0, 0)), what))
}

func (w *bareWorld) Answer(a recipe.Answer) {
	what := "answer " + a.CommandID + " " + string(a.Result)
	if a.Error != nil {
		what += a.Error.Message
	}
	w.hear(what)
}

func (w *bareWorld) Event(_ isa95.Scope, typeID string, ev recipe.PullEvent) {
	w.hear(strings.Join(strings.Fields("event "+typeID+" "+ev.CorrelationID+" "+string(ev.Data)), " "))
}

// until lets the time run.
func (w *bareWorld) until(d time.Duration) {
	for end := time.Unix(0, 0).Add(d); len(w.due) > 0 && !w.due[0].at.After(end); {
		next := w.due[0]
		w.due, w.now = w.due[1:], next.at
		next.do()
	}
	w.now = time.Unix(0, 0).Add(d)
}

// A plant does what its equipment.yaml says, and what disturbs single commands.
func TestPlant(t *testing.T) {
	command := func(id, typeID, order string, cancels ...string) recipe.Command {
		return recipe.Command{ID: id, TypeID: typeID, Scope: "cell", JobID: order, Action: "a", Attempt: 1, CorrelationID: "of-" + order, Cancels: strings.Join(cancels, "")}
	}
	const equipment = `
scope: cell
commands:
  - {type: t.plain, takes: 2s, result: {ok: true}}
  - {type: t.deaf, takes: 1s, unanswered: 1}
  - {type: t.camera, events: [{type: t.seen, after: 1s, repeat: 2s, until: [t.plain]}]}
  - {type: t.take}
  - {type: t.cancel}`
	const pallets = "\nsources: [{type: t.pallet, first: 1s, every: 1s, ahead: 2, taken_by: t.take, again: 10s, limit: 4, body: {n: \"${n}\"}}]"
	for _, test := range []struct {
		name, equipment string
		takes           map[time.Duration]recipe.Command
		disturbance     station.Disturbance
		want            string
	}{
		{"answer", equipment, map[time.Duration]recipe.Command{0: command("c1", "t.plain", "JO-1")}, station.Disturbance{}, `2s answer c1 {"ok":true}`},
		{"another station", equipment, map[time.Duration]recipe.Command{0: {ID: "c1", TypeID: "t.plain", Scope: "other"}}, station.Disturbance{}, ""},
		{
			"the same command is done once and answered each time", equipment,
			map[time.Duration]recipe.Command{0: command("c1", "t.plain", "JO-1"), time.Second: command("c1", "t.plain", "JO-1"), 5 * time.Second: command("c1", "t.plain", "JO-1")},
			station.Disturbance{}, `2s answer c1 {"ok":true}|5s answer c1 {"ok":true}`,
		},
		{
			"unanswered", equipment, map[time.Duration]recipe.Command{0: command("c1", "t.deaf", "JO-1"), 5 * time.Second: command("c1", "t.deaf", "JO-1")},
			station.Disturbance{}, `5s answer c1 {}`,
		},
		{
			"silent", equipment, map[time.Duration]recipe.Command{0: command("c1", "t.plain", "JO-1"), 5 * time.Second: command("c1", "t.plain", "JO-1")},
			station.Disturbance{Silent: true}, "",
		},
		{"late", equipment, map[time.Duration]recipe.Command{0: command("c1", "t.plain", "JO-1")}, station.Disturbance{Late: 3 * time.Second}, `5s answer c1 {"ok":true}`},
		{"refused, without its event", equipment, map[time.Duration]recipe.Command{0: command("c1", "t.camera", "JO-1")}, station.Disturbance{Refuse: "dark"}, "0s answer c1 dark"},
		{
			"event again until its order goes on", equipment,
			map[time.Duration]recipe.Command{0: command("c1", "t.camera", "JO-1"), 4 * time.Second: command("c2", "t.plain", "JO-1")},
			station.Disturbance{}, `0s answer c1 {}|1s event t.seen of-JO-1|3s event t.seen of-JO-1|6s answer c2 {"ok":true}`,
		},
		{
			"called back at work", equipment,
			map[time.Duration]recipe.Command{0: command("c1", "t.plain", "JO-1"), time.Second: command("c2", "t.cancel", "JO-1", "c1")},
			station.Disturbance{}, `1s answer c1 canceled|1s answer c2 {}`,
		},
		{
			"called back before it comes", equipment,
			map[time.Duration]recipe.Command{0: command("c2", "t.cancel", "JO-1", "c1"), time.Second: command("c1", "t.plain", "JO-1")},
			station.Disturbance{}, `0s answer c2 {}|1s answer c1 canceled`,
		},
		{
			"a source stops ahead of the orders, and goes on when one takes up an event", equipment + pallets,
			map[time.Duration]recipe.Command{5 * time.Second: command("c1", "t.take", "JO-1")}, station.Disturbance{},
			`1s event t.pallet {"n":1}|2s event t.pallet {"n":2}|5s event t.pallet {"n":3}|5s answer c1 {}|12s event t.pallet {"n":4}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, err := station.ParseEquipment("equipment.yaml", []byte(test.equipment))
			if err != nil {
				t.Fatal(err)
			}
			w := &bareWorld{now: time.Unix(0, 0)}
			p := station.NewPlant(e, w)
			var times []time.Duration
			for at := range test.takes {
				times = append(times, at)
			}
			slices.SortFunc(times, cmp.Compare)
			for _, at := range times {
				w.until(at)
				c := test.takes[at]
				if known := p.Take(c, test.disturbance); known != (c.Scope == "cell") {
					t.Errorf("%s: known %v", c.ID, known)
				}
			}
			w.until(20 * time.Second)
			if got := strings.Join(w.heard, "|"); got != test.want {
				t.Errorf("%s\nwant\n%s", strings.Join(w.heard, "\n"), strings.ReplaceAll(test.want, "|", "\n"))
			}
		})
	}
}
