package sampling

import (
	"strings"
	"testing"
	"time"
)

// A chart has a point each ten minutes: the sum of what came, or the most there was. Where there was no sample it has a gap. A counter that was lost goes on from where it is.
func TestCharts(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 9, 0, 0, time.UTC)
	var all []Sample
	add := func(before time.Duration, ended, waiting, done int64) {
		all = append(all, Sample{Time: now.Add(-before), Ended: ended, Orders: map[string]int64{"Running": waiting, "Ended": 9}, Tasks: Tasks{Done: done}})
	}
	add(25*time.Hour, 100, 100, 0) // not shown
	add(88*time.Minute, 5, 2, 10)
	add(83*time.Minute, 1, 7, 30)
	add(8*time.Minute, 2, 4, 5) // the counters are new
	add(0, 3, 1, 8)
	of := make(map[string]Chart)
	shown, hour := Charts(all)
	for _, c := range shown {
		of[c.Title] = c
	}
	points := func(c Chart) (text string) {
		for _, p := range c.Points[130:] {
			if p == nil {
				text += "-"
			} else {
				text += " " + c.Text(*p)
			}
		}
		return text
	}
	for title, want := range map[string]string{
		"Job orders ended": "----- 6------- 5", "Job orders under way": "----- 7------- 4", "Tasks done": "----- 30------- 3",
	} {
		if got := points(of[title]); got != want {
			t.Errorf("%s: %q, want %q", title, got, want)
		}
	}
	if c := of["Job orders under way"]; c.Min != 1 || c.Max != 7 || c.Now != 1 || !c.From.Equal(time.Date(2026, 11, 27, 12, 10, 0, 0, time.UTC)) {
		t.Errorf("%+v", c)
	}
	if _, there := of["Workflow instances active"]; there {
		t.Error("a chart of workflows where there are none")
	}
	if hour[0] != (Figure{"job orders ended", 5, false}) || hour[2] != (Figure{"tasks done", 3, false}) || hour[3] != (Figure{"tasks that died", 0, true}) {
		t.Errorf("%+v", hour)
	}
	drawing := of["Job orders ended"]
	svg := string(drawing.Fragment())
	for _, want := range []string{"<title>Job orders ended, last 24 hours: now 5, lowest 5, highest 6, in 10 min</title>", ">12:00</text>", ">18:00</text>", "V15.0"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in %s", want, svg)
		}
	}
}
