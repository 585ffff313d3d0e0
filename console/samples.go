package console

import (
	"context"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/sampling"
)

// samples are those of the last 24 hours, in memory: a page reads none of them from Redis.
type samples struct {
	mu   sync.Mutex
	list []sampling.Sample // the oldest first; what is there is not changed
}

const (
	sampledFor  = 24 * time.Hour
	sampleEvery = 10 * time.Minute // one point of a chart
	sampleWait  = 5 * time.Second
	staleAfter  = 3 * time.Minute // without a sample, no process samples
)

// watchSamples keeps up with the samples until ctx ends.
func (c *Console) watchSamples(ctx context.Context) {
	last := "0"
	for ctx.Err() == nil {
		store := c.store.get()
		if store == nil {
			lifecycle.Sleep(ctx, time.Second/2)
			continue
		}
		more, id, err := sampling.Read(ctx, store, last, sampleWait)
		if last = id; err != nil { // that Redis is away the book finds, too
			lifecycle.Sleep(ctx, time.Second/2)
		}
		if len(more) > 0 {
			c.samples.add(more)
			c.book.announce()
		}
	}
}

func (s *samples) add(more []sampling.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Concat(s.list, more)
	newest := all[len(all)-1].Time
	s.list = slices.DeleteFunc(all, func(one sampling.Sample) bool { return newest.Sub(one.Time) > sampledFor })
}

func (s *samples) all() []sampling.Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list
}

// State is whether the plant is fine, as far as the console knows, and its figures.
type State struct {
	Known    bool             `json:"known"` // Redis and the broker were asked
	Problems []Trouble        `json:"problems"`
	Sampled  time.Time        `json:"sampled,omitzero"` // when the last sample was made
	Last     *sampling.Sample `json:"last,omitempty"`
	Hour     []Figure         `json:"hour,omitempty"` // sums of the last hour
	Charts   []Chart          `json:"charts,omitempty"`
}

// Trouble is one thing that is not as it should be.
type Trouble struct {
	Text string `json:"text"`
	Link string `json:"link,omitempty"` // page or section that tells more
}

// Figure is a number with its name.
type Figure struct {
	Name   string `json:"name"`
	Number int64  `json:"number"`
	Bad    bool   `json:"-"` // any is a failure
}

// What is no trouble yet.
const (
	backlogMay = time.Minute
	lateMay    = 30 * time.Second
	waitingMay = 24 * time.Hour
)

// backlogNames say what the entries of a stream are.
var backlogNames = map[string]string{
	"work": "work of the recipe engine", "commands": "commands to equipment", "events": "status events", "changes": "changes that the retained topics do not show",
}

// state judges.
func (c *Console) state(f *Frame) State {
	s := State{Known: true}
	say := func(link, format string, args ...any) {
		s.Problems = append(s.Problems, Trouble{fmt.Sprintf(format, args...), link})
	}
	for _, h := range f.Servers {
		s.Known = s.Known && h.Known
		if h.Known && !h.Up {
			say("#h-servers", "%s does not answer.", h.Name)
		}
	}
	all := c.samples.all()
	if len(all) == 0 {
		if s.Known && len(s.Problems) == 0 {
			say("#h-day", "No process of takt serve has made a sample yet: none runs, or it is just starting.")
		}
		return s
	}
	last := &all[len(all)-1]
	s.Last, s.Sampled = last, last.Time
	s.Charts, s.Hour = drawUp(all)
	if f.Now.Sub(last.Time) > staleAfter {
		if s.Known && len(s.Problems) == 0 { // else that is why
			say("#h-day", "The last sample is of %s UTC: no process of takt serve runs.", clock(last.Time, f.Now))
		}
		return s
	}
	if last.Engines == 0 {
		say("#h-servers", "No process with the role engine is up: no recipe goes on.")
	}
	for _, name := range []string{"work", "commands", "events", "changes"} {
		if b := last.Backlog[name]; b.Oldest > backlogMay {
			say("/system#h-streams", "The oldest of %s has waited for %s.", backlogNames[name], took(b.Oldest))
		}
	}
	for _, late := range []struct {
		what, link string
		by         time.Duration
	}{
		{"Time-outs of recipes are", "/system", last.TimerLate}, {"Delayed tasks are", "/tasks", last.Tasks.Late},
		{"Schedules of tasks are", "/tasks", last.Tasks.Schedule}, {"Timers of workflows are", "/workflows", last.Workflows.TimerLate},
	} {
		if late.by > lateMay {
			say(late.link, "%s late by %s.", late.what, took(late.by))
		}
	}
	if last.Waiting > waitingMay {
		say(orderPath(last.Oldest), "Job order %s has been in its state for %s.", last.Oldest, took(last.Waiting))
	}
	if last.Tasks.Unserved {
		say("/tasks", "Tasks wait in a queue for which no worker has slots.")
	}
	for _, dead := range []struct {
		what, link string
		n          int64
	}{{"job orders", "/system#h-dead", last.Dead.Orders}, {"tasks", "/tasks", last.Dead.Tasks}, {"workflows", "/workflows", last.Dead.Workflows}} {
		if dead.n > 0 {
			say(dead.link, "Dead letters of %s: %d. They wait for a decision.", dead.what, dead.n)
		}
	}
	for _, part := range []string{"tasks", "workflows"} {
		if why := last.Unread[part]; why != "" {
			say("", "Figures of %s cannot be read: %s", part, why)
		}
	}
	return s
}

// Chart is a figure over 24 hours.
type Chart struct {
	Title  string     `json:"title"`
	Unit   string     `json:"unit"`
	From   time.Time  `json:"from"`   // of the first point; one each ten minutes
	Points []*float64 `json:"points"` // null: there was no sample
	Min    float64    `json:"min"`
	Max    float64    `json:"max"`
	Now    float64    `json:"now"` // of the last sample; of a sum: of the last point

	any  bool // Min and Max are known
	bad  bool // any is a failure
	sum  bool // points add up what came, and do not show how much there is
	some bool // only shown if there was any
}

// series are the charts, with the value of a sample; all[i-1] is the one before.
var series = []struct {
	Chart
	value func(all []sampling.Sample, i int) float64
}{
	{Chart{Title: "Job orders ended", Unit: "in 10 min", sum: true}, func(all []sampling.Sample, i int) float64 { return float64(all[i].Ended) }},
	{Chart{Title: "Job orders aborted", Unit: "in 10 min", sum: true, bad: true, some: true}, func(all []sampling.Sample, i int) float64 { return float64(all[i].Aborted) }},
	{Chart{Title: "Job orders under way", Unit: "orders"}, func(all []sampling.Sample, i int) (n float64) {
		for top, of := range all[i].Orders {
			if !(isa95.State{Top: top}).Clearable() {
				n += float64(of)
			}
		}
		return n
	}},
	{Chart{Title: "Longest wait of a job order", Unit: "s", some: true}, func(all []sampling.Sample, i int) float64 { return all[i].Waiting.Seconds() }},
	{Chart{Title: "Backlog of recipes and messages", Unit: "entries", some: true}, func(all []sampling.Sample, i int) float64 {
		b := all[i].Backlog
		return float64(b["work"].Entries + b["commands"].Entries + b["events"].Entries)
	}},
	{Chart{Title: "Tasks done", Unit: "in 10 min", sum: true, some: true}, growth(func(t *sampling.Tasks) int64 { return t.Done })},
	{Chart{Title: "Tasks that died", Unit: "in 10 min", sum: true, bad: true, some: true}, growth(func(t *sampling.Tasks) int64 { return t.Failed })},
	{Chart{Title: "Tasks waiting", Unit: "tasks", some: true}, func(all []sampling.Sample, i int) float64 { return float64(sampling.Sum(all[i].Tasks.Waiting)) }},
	{Chart{Title: "Workflow instances active", Unit: "instances", some: true}, func(all []sampling.Sample, i int) float64 { return float64(all[i].Workflows.Active) }},
}

// growth is by how much a counter of tasks grew since the sample before; one that was lost, or could not be read, did not.
func growth(of func(*sampling.Tasks) int64) func(all []sampling.Sample, i int) float64 {
	return func(all []sampling.Sample, i int) float64 {
		if i == 0 || all[i].Unread["tasks"] != "" || all[i-1].Unread["tasks"] != "" {
			return 0
		}
		return float64(max(of(&all[i].Tasks)-of(&all[i-1].Tasks), 0))
	}
}

// drawUp is the charts, and what their sums were in the hour before the last sample.
func drawUp(all []sampling.Sample) (charts []Chart, hour []Figure) {
	newest := all[len(all)-1].Time
	for _, s := range series {
		last := 0.0
		for i := range all {
			if v := s.value(all, i); newest.Sub(all[i].Time) < time.Hour {
				last += v
			}
		}
		if s.sum {
			hour = append(hour, Figure{strings.ToLower(s.Title[:1]) + s.Title[1:], int64(last), s.bad})
		}
		c := s.Chart
		c.fill(all, func(i int) float64 { return s.value(all, i) })
		if c.Max > 0 || !c.some {
			charts = append(charts, c)
		}
	}
	return charts, hour
}

func (c *Chart) fill(all []sampling.Sample, value func(i int) float64) {
	newest := all[len(all)-1].Time
	c.From = newest.Truncate(sampleEvery).Add(sampleEvery - sampledFor)
	c.Points = make([]*float64, sampledFor/sampleEvery)
	for i, s := range all {
		at := int(s.Time.Sub(c.From) / sampleEvery)
		if s.Time.Before(c.From) {
			continue
		}
		v := value(i)
		if !c.sum {
			c.extend(v)
		}
		switch p := c.Points[at]; {
		case p == nil:
			c.Points[at] = &v
		case c.sum:
			*p += v
		default:
			*p = max(*p, v)
		}
		c.Now = v
	}
	if !c.sum {
		return
	}
	c.Now = *c.Points[len(c.Points)-1]
	for _, p := range c.Points {
		if p != nil {
			c.extend(*p)
		}
	}
}

// extend widens the range of values.
func (c *Chart) extend(v float64) {
	if !c.any {
		c.any, c.Min = true, v
	}
	c.Min, c.Max = min(c.Min, v), max(c.Max, v)
}

// Text is a value with its unit.
func (c *Chart) Text(v float64) string {
	if c.Unit == "s" {
		return took(time.Duration(v * float64(time.Second)))
	}
	return fmt.Sprintf("%.0f", v)
}

// Size of the picture of a chart, and where its plot is.
const (
	chartWidth, chartHeight             = 340, 124
	plotLeft, plotRight, plotTop, plotY = 1, 339, 18, 98 // plotY is the axis
)

// SVG is the picture; id makes ids unique.
func (c *Chart) SVG(id int) template.HTML {
	var b strings.Builder
	step := float64(plotRight-plotLeft) / float64(len(c.Points))
	y := func(v float64) float64 {
		if c.Max == 0 {
			return plotY
		}
		return plotY - v/c.Max*(plotY-plotTop)
	}
	kind := ""
	if c.sum {
		kind = " sum"
	}
	if c.bad {
		kind += " bad"
	}
	fmt.Fprintf(&b, `<svg class="spark%s" viewBox="0 0 %d %d" role="img" aria-labelledby="spark-%d-t spark-%d-d"><title id="spark-%d-t">%s, last 24 hours</title>`, kind, chartWidth, chartHeight, id, id, id, c.Title)
	fmt.Fprintf(&b, `<desc id="spark-%d-d">now %s, lowest %s, highest %s, %s</desc>`, id, c.Text(c.Now), c.Text(c.Min), c.Text(c.Max), c.Unit)
	fmt.Fprintf(&b, `<path class="axis" d="M%d %dH%d"/>`, plotLeft, plotY, plotRight)
	if c.Max > 0 {
		fmt.Fprintf(&b, `<path class="grid" d="M%d %dH%d"/><text x="%d" y="%d">%s</text>`, plotLeft, plotTop, plotRight, plotLeft, plotTop-4, c.Text(c.Max))
	}
	for i := range c.Points { // a mark each six hours
		if at := c.From.Add(time.Duration(i) * sampleEvery); at.Hour()%6 == 0 && at.Minute() == 0 {
			x := plotLeft + float64(i)*step
			fmt.Fprintf(&b, `<path class="axis" d="M%.0f %dv4"/><text class="time" x="%.0f" y="%d">%s</text>`, x, plotY, min(max(x, plotLeft+16), plotRight-16), plotY+19, at.Format("15:04"))
		}
	}
	b.WriteString(`<path class="data" d="`)
	pen := false
	for i, p := range c.Points {
		x := plotLeft + (float64(i)+0.5)*step
		switch {
		case p == nil:
			pen = false
			continue
		case c.sum && *p == 0:
		case c.sum:
			fmt.Fprintf(&b, "M%.0f %dV%.1f", x, plotY, min(y(*p), plotY-1))
		case pen:
			fmt.Fprintf(&b, "L%.0f %.0f", x, y(*p))
		default:
			fmt.Fprintf(&b, "M%.0f %.0fh.1", x, y(*p)) // a point alone is seen, too
		}
		pen = true
	}
	b.WriteString(`"/></svg>`)
	return template.HTML(b.String()) //nolint:gosec // of texts of this file and numbers
}

// took is how long something takes, in its two largest units.
func took(d time.Duration) string { return ago(time.Unix(0, 0), time.Unix(0, 0).Add(d)) }
