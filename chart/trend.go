package chart

import (
	"fmt"
	"time"
)

// Trend is a figure over time.
type Trend struct {
	Title  string        // its accessible name
	From   time.Time     // of the first point
	Every  time.Duration // from one point to the next
	Points []*float64    // 0 or more; nil: a gap
	Max    float64       // that any of them has
	Most   string        // the same in words
	Sum    bool          // points add up what came, and do not show how much there is
	Bad    bool          // any is a failure
}

// TrendFragment draws a trend with a mark each six hours, as an svg element for a page that has PageStyle.
func TrendFragment(t Trend) []byte {
	const width, left, right, top, axis, bottom = 280, 1, 279, 15, 81, 100
	step := float64(right-left) / float64(len(t.Points))
	y := func(v float64) float64 {
		if t.Max == 0 {
			return axis
		}
		return axis - v/t.Max*(axis-top)
	}
	p := newPicture(width, bottom, t.Title, "")
	p.printf(`<path class="connect" d="M%d %dH%d"/>`+"\n", left, axis, right)
	if t.Max > 0 {
		p.printf(`<path class="grid" d="M%d %dH%d"/><text class="axis" x="%d" y="%d">%s</text>`+"\n", left, top, right, left, top-4, escape(t.Most))
	}
	for i := range t.Points {
		if at := t.From.Add(time.Duration(i) * t.Every); at.Hour()%6 == 0 && at.Minute() == 0 {
			x := left + float64(i)*step
			p.printf(`<path class="connect" d="M%.0f %dv4"/><text class="axis" x="%.0f" y="%d" text-anchor="middle">%s</text>`+"\n", x, axis, min(max(x, left+14), right-14), axis+16, at.Format("15:04"))
		}
	}
	class := "data"
	if t.Sum {
		class += " sum"
	}
	if t.Bad {
		class += " bad"
	}
	p.printf(`<path class="%s" d="`, class)
	pen := false
	for i, v := range t.Points {
		x := left + (float64(i)+0.5)*step
		switch {
		case v == nil:
			pen = false
			continue
		case t.Sum && *v == 0:
		case t.Sum:
			p.printf("M%.1f %dV%.1f", x, axis, min(y(*v), axis-1))
		case pen:
			p.printf("L%.1f %.1f", x, y(*v))
		default:
			p.printf("M%.1f %.1fh.1", x, y(*v)) // a point alone is seen, too
		}
		pen = true
	}
	p.WriteString("\"/>\n")
	return p.close()
}

// Took is how long something takes, in its two largest units, from seconds to days; less than 0 is taken as 0.
func Took(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
	}
}
