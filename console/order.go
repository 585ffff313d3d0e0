package console

import (
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobhistory"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/publisher"
)

// OneOrder is all that is known of one job order.
type OneOrder struct {
	*Frame
	Scope    isa95.Scope        `json:"scope"`
	State    string             `json:"state"`
	Since    time.Time          `json:"since,omitzero"`
	JobOrder *isa95.JobOrder    `json:"job_order"`
	Response *isa95.JobResponse `json:"response,omitempty"`
	Why      jobstore.Why       `json:"why"`
	Run      *jobhistory.State  `json:"run,omitempty"`
	History  []jobhistory.Line  `json:"history"`
	Methods  []Method           `json:"methods"`
	Topics   []publisher.Topic  `json:"retained_topics"`

	NoChart        string        `json:"-"` // why there is none
	Machine        template.HTML `json:"-"`
	Chart          template.HTML `json:"-"`
	Gantt          template.HTML `json:"-"`
	Past           []Past        `json:"-"` // the newest first, at most pastShown
	Older          int           `json:"-"` // entries that are not in Past
	state          isa95.State
	BarsLeftBefore int `json:"-"` // bars that the Gantt chart leaves out
}

// Past is one commit of the history, in words.
type Past struct {
	jobhistory.Line
	Text string
	Said []string // its facts, the first of them
}

// Bounds of what the page of one order shows; JSON has all.
const (
	pastShown  = 100
	factsShown = 50
	barsShown  = 100
)

func (c *Console) order(ctx context.Context, r *http.Request) (shown, error) {
	o, store, err := c.readOrder(ctx, r)
	if err != nil {
		return nil, err
	}
	id := isa95.JobOrderID(o.JobOrder.JobOrderID)
	status, _, _ := c.book.now()
	last := noHistory
	h, err := jobhistory.Read(ctx, store, id)
	broken, _ := errors.AsType[*jobstore.DocumentError](err)
	switch {
	case broken != nil: // it does not hide the rest
		o.note(err)
		o.NoChart = "The history of this order cannot be read, so it is not drawn."
	case errors.Is(err, jobhistory.ErrNone):
		o.NoChart = "This order has no history, so nothing of a run is known."
	case err != nil:
		return nil, away(err)
	default:
		last = h.Last().ID
		if err := c.past(ctx, o, h); err != nil {
			return nil, away(err)
		}
		if err := c.draw(ctx, o, h, store); err != nil {
			return nil, away(err)
		}
	}
	if o.Topics, err = publisher.Standing(ctx, store, c.o.TopicPrefix, o.Scope, id); err != nil {
		return nil, away(err)
	}
	o.Events = "/events?" + url.Values{"order": {string(id)}, "after": {status + "." + last}}.Encode()
	o.Machine = drawn(chart.MachineFragment(o.state))
	o.Methods = methods(id, o.state)
	return o, nil
}

// readOrder reads the order of a request and why it waits.
func (c *Console) readOrder(ctx context.Context, r *http.Request) (*OneOrder, *jobstore.Store, error) {
	id, err := isa95.ParseJobOrderID(r.PathValue("id"))
	if err != nil {
		return nil, nil, &problem{http.StatusNotFound, "No such job order", err.Error()}
	}
	store, err := c.needStore()
	if err != nil {
		return nil, nil, err
	}
	s, err := store.Situation(ctx, id)
	if err != nil {
		return nil, nil, away(err)
	}
	if s.Job == nil {
		return nil, nil, &problem{http.StatusNotFound, "No such job order", "No job order " + string(id) + " is stored. It was never sent, or it was cleared and its documents have expired. The list of orders has those that are there."}
	}
	o := &OneOrder{
		Frame: c.newFrame(string(id), "Orders"), Scope: s.Job.Scope, State: s.Job.State.String(), Since: orderOf(s.Job).Since,
		JobOrder: s.Job.JobOrder, Response: s.Response, Why: s.Why(c.o.TopicPrefix), state: s.Job.State,
	}
	o.Ticks = s.Execution != nil && !s.Execution.Terminal() && !s.Execution.Paused
	return o, store, nil
}

// past says the history in words, and in lines for programs.
func (c *Console) past(ctx context.Context, o *OneOrder, h *jobhistory.History) error {
	for i := range h.Entries {
		e := &h.Entries[i]
		r, err := h.Recipe(ctx, e)
		if err != nil {
			return err
		}
		line := jobhistory.LineOf(e, r)
		o.History = append(o.History, line)
		if len(h.Entries)-i > pastShown {
			o.Older++
			continue
		}
		p := Past{Line: line, Text: jobhistory.Cause(e)}
		for n := range e.Facts[:min(len(e.Facts), factsShown)] {
			p.Said = append(p.Said, e.Facts[n].Text(r))
		}
		if len(e.Facts) > factsShown {
			p.Said = append(p.Said, "and more, which the JSON of this page has")
		}
		o.Past = append(o.Past, p)
	}
	slices.Reverse(o.Past)
	return nil
}

// draw makes the chart and the Gantt chart of the run.
func (c *Console) draw(ctx context.Context, o *OneOrder, h *jobhistory.History, store *jobstore.Store) error {
	d := jobhistory.NewDrawing(store, h.ID)
	err := d.Load(ctx, h.Last())
	if no, ok := errors.AsType[*jobhistory.NoRunError](err); ok {
		o.NoChart = "No recipe was started."
		if h.Last().Execution != nil {
			o.NoChart = no.Reason
		}
		return nil
	}
	if err != nil {
		return err
	}
	now := store.Now()
	o.Run = d.State(h.Last(), now)
	o.Chart = drawn(d.Chart.Fragment(d.Options(o.Run)))
	bars := jobhistory.Bars(h.Entries, now)
	if o.BarsLeftBefore = max(0, len(bars)-barsShown); o.BarsLeftBefore > 0 {
		bars = bars[o.BarsLeftBefore:]
	}
	if len(bars) > 0 {
		o.Gantt = drawn(chart.GanttFragment(bars, ""))
	}
	return nil
}

// Value is a parameter for a table.
type Value struct{ Name, Text, Unit string }

// valueShown is how much of a value a page shows; JSON has all of it.
const valueShown = 2000

func values(all []isa95.Parameter) []Value {
	var rows []Value
	var add func(prefix string, all []isa95.Parameter)
	add = func(prefix string, all []isa95.Parameter) {
		for _, p := range all {
			row := Value{Name: prefix + p.ID}
			var text string
			if json.Unmarshal(p.Value, &text) != nil {
				text = string(p.Value)
			}
			row.Text = whole(text)
			if p.EngineeringUnits != nil {
				row.Unit = p.EngineeringUnits.DisplayName.Text
			}
			rows = append(rows, row)
			add(row.Name+" / ", p.Subparameters)
		}
	}
	add("", all)
	return rows
}
