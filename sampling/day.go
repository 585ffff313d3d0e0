package sampling

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// Day has the samples of the last 24 hours in memory. The zero value is ready.
type Day struct {
	mu   sync.Mutex
	list []Sample // the oldest first; what is there is not changed
}

const (
	kept       = 24 * time.Hour
	chartEvery = 10 * time.Minute // one point of a chart
	readWait   = 5 * time.Second
)

// Follow keeps up with the samples until ctx ends. store is asked again as long as there is none; news is called whenever samples came.
func (d *Day) Follow(ctx context.Context, store func() *jobstore.Store, news func()) {
	last := "0"
	for ctx.Err() == nil {
		s := store()
		if s == nil {
			lifecycle.Sleep(ctx, time.Second/2)
			continue
		}
		more, id, err := Read(ctx, s, last, readWait)
		if last = id; err != nil {
			lifecycle.Sleep(ctx, time.Second/2)
		}
		if len(more) > 0 {
			d.add(more)
			news()
		}
	}
}

func (d *Day) add(more []Sample) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Concat(d.list, more)
	newest := all[len(all)-1].Time
	d.list = slices.DeleteFunc(all, func(one Sample) bool { return newest.Sub(one.Time) > kept })
}

// Samples are those that there are, the oldest first. They must not be changed.
func (d *Day) Samples() []Sample {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.list
}

// Figure is a number with its name.
type Figure struct {
	Name   string `json:"name"`
	Number int64  `json:"number"`
	Bad    bool   `json:"-"` // any is a failure
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
	value func(all []Sample, i int) float64
}{
	{Chart{Title: "Job orders ended", Unit: "in 10 min", sum: true}, func(all []Sample, i int) float64 { return float64(all[i].Ended) }},
	{Chart{Title: "Job orders aborted", Unit: "in 10 min", sum: true, bad: true, some: true}, func(all []Sample, i int) float64 { return float64(all[i].Aborted) }},
	{Chart{Title: "Job orders under way", Unit: "orders"}, func(all []Sample, i int) (n float64) {
		for top, of := range all[i].Orders {
			if !(isa95.State{Top: top}).Clearable() {
				n += float64(of)
			}
		}
		return n
	}},
	{Chart{Title: "Longest wait of a job order", Unit: "s", some: true}, func(all []Sample, i int) float64 { return all[i].Waiting.Seconds() }},
	{Chart{Title: "Backlog of recipes and messages", Unit: "entries", some: true}, func(all []Sample, i int) float64 {
		b := all[i].Backlog
		return float64(b["work"].Entries + b["commands"].Entries + b["events"].Entries)
	}},
	{Chart{Title: "Tasks done", Unit: "in 10 min", sum: true, some: true}, growth(func(t *Tasks) int64 { return t.Done })},
	{Chart{Title: "Tasks that died", Unit: "in 10 min", sum: true, bad: true, some: true}, growth(func(t *Tasks) int64 { return t.Failed })},
	{Chart{Title: "Tasks waiting", Unit: "tasks", some: true}, func(all []Sample, i int) float64 { return float64(Sum(all[i].Tasks.Waiting)) }},
	{Chart{Title: "Workflow instances active", Unit: "instances", some: true}, func(all []Sample, i int) float64 { return float64(all[i].Workflows.Active) }},
}

// growth is by how much a counter of tasks grew since the sample before; one that was lost, or could not be read, did not.
func growth(of func(*Tasks) int64) func(all []Sample, i int) float64 {
	return func(all []Sample, i int) float64 {
		if i == 0 || all[i].Unread["tasks"] != "" || all[i-1].Unread["tasks"] != "" {
			return 0
		}
		return float64(max(of(&all[i].Tasks)-of(&all[i-1].Tasks), 0))
	}
}

// Charts are those of samples, the oldest first, of which there is one at least; hour is what the sums of charts were in the hour before the last sample.
func Charts(all []Sample) (charts []Chart, hour []Figure) {
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

func (c *Chart) fill(all []Sample, value func(i int) float64) {
	newest := all[len(all)-1].Time
	c.From = newest.Truncate(chartEvery).Add(chartEvery - kept)
	c.Points = make([]*float64, kept/chartEvery)
	for i, s := range all {
		at := int(s.Time.Sub(c.From) / chartEvery)
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
		return chart.Took(time.Duration(v * float64(time.Second)))
	}
	return fmt.Sprintf("%.0f", v)
}

// Fragment is the picture: an svg element for a page that has chart.PageStyle.
func (c *Chart) Fragment() []byte {
	return chart.TrendFragment(chart.Trend{
		Title: fmt.Sprintf("%s, last 24 hours: now %s, lowest %s, highest %s, %s", c.Title, c.Text(c.Now), c.Text(c.Min), c.Text(c.Max), c.Unit),
		From:  c.From, Every: chartEvery, Points: c.Points, Max: c.Max, Most: c.Text(c.Max), Sum: c.sum, Bad: c.bad,
	})
}
