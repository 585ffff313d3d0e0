package console

import (
	"time"

	"github.com/taktworks/takt/sampling"
)

// State is whether the plant is fine, as far as the console knows, and its figures.
type State struct {
	Known    bool              `json:"known"` // Redis and the broker were asked
	Problems []Trouble         `json:"problems"`
	Sampled  time.Time         `json:"sampled,omitzero"` // when the last sample was made
	Last     *sampling.Sample  `json:"last,omitempty"`
	Hour     []sampling.Figure `json:"hour,omitempty"` // sums of the last hour
	Charts   []sampling.Chart  `json:"charts,omitempty"`
}

// Trouble is one thing that is not as it should be.
type Trouble struct {
	Text string `json:"text"`
	Link string `json:"link,omitempty"` // page or section that tells more
}

// troubleLinks are where more is told of what sampling.Trouble is about.
var troubleLinks = map[string]string{
	"samples": "#h-day", "engines": "#h-servers", "streams": "/system#h-streams", "letters": "/system#h-dead", "recipes": "/system", "tasks": "/tasks", "workflows": "/workflows",
}

// state judges. That there is no sample needs no word while a server does not answer.
func (c *Console) state(f *Frame) State {
	s := State{Known: true}
	for _, h := range f.Servers {
		s.Known = s.Known && h.Known
		if h.Known && !h.Up {
			s.Problems = append(s.Problems, Trouble{h.Name + " does not answer.", "#h-servers"})
		}
	}
	if all := c.day.Samples(); len(all) > 0 {
		s.Last = &all[len(all)-1]
		s.Sampled = s.Last.Time
		s.Charts, s.Hour = sampling.Charts(all)
	}
	found, known := sampling.Judge(s.Last, f.Now)
	if !known && (!s.Known || len(s.Problems) > 0) {
		return s
	}
	for _, t := range found {
		link := troubleLinks[t.About]
		if t.About == "order" {
			link = orderPath(s.Last.Oldest)
		}
		s.Problems = append(s.Problems, Trouble{t.Text, link})
	}
	return s
}
