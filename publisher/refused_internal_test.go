package publisher

import (
	"errors"
	"strings"
	"testing"

	"github.com/taktworks/takt/mqtt"
)

// Which topics count as refused by the broker, and which are only held, after the turns of a publisher whose messages are sent one by one.
// A turn is what became of its messages, and "cut" if the connection was lost with none of them in flight.
func TestRefusedOrOnlyHeld(t *testing.T) {
	for name, c := range map[string]struct {
		turns         []string
		refused, held string
	}{
		"lost alone": {[]string{"a lost"}, "", "a"},
		"another one passes on the next connection":      {[]string{"a lost", "b taken"}, "a", "a"},
		"the next connection is lost, too":               {[]string{"a lost", "b lost", "c taken"}, "", "a b"},
		"and before any message":                         {[]string{"a lost", "cut", "b taken"}, "", "a"},
		"four cuts in a row":                             {[]string{"a lost", "b lost", "cut", "c lost"}, "", "a b c"},
		"it passes itself":                               {[]string{"a lost", "a taken", "b taken"}, "", ""},
		"refused with a reason":                          {[]string{"a refused"}, "a", "a"},
		"behind a refused one":                           {[]string{"a refused, b lost", "c taken"}, "a", "a"},
		"behind a taken one":                             {[]string{"a refused, c taken, b lost", "c taken"}, "a b", "a b"},
		"refused before, and lost at the next attempt":   {[]string{"a refused", "a lost", "cut"}, "a", "a"},
		"two, one after the other, among messages taken": {[]string{"a lost", "c taken, b lost", "c taken"}, "a b", "a b"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRefused()
			for _, turn := range c.turns {
				var err error
				for step := range strings.SplitSeq(turn, ", ") {
					topic, what, _ := strings.Cut(step, " ")
					switch m := (&message{topic: topic}); what {
					case "taken":
						r.taken(m)
					case "refused":
						r.refuse(m, &mqtt.PublishError{Topic: topic, Code: 0x87})
					case "lost":
						err = mqtt.ErrLost
						r.lost(m, true, err)
					default:
						err = mqtt.ErrDown
					}
				}
				r.turned(err)
			}
			var refused, held []string
			for _, one := range r.named() {
				refused = append(refused, one.Topic)
			}
			for _, topic := range []string{"a", "b", "c"} {
				if r.topics[topic] != nil {
					held = append(held, topic)
				}
			}
			if got := strings.Join(refused, " "); got != c.refused {
				t.Errorf("refused: %q, want %q", got, c.refused)
			}
			if got := strings.Join(held, " "); got != c.held {
				t.Errorf("held: %q, want %q", got, c.held)
			}
		})
	}
}

// What was in flight with other messages when the connection was lost is neither refused nor held.
func TestLostTogetherIsNotHeld(t *testing.T) {
	r := newRefused()
	for range rowOfLosses {
		for _, topic := range []string{"a", "b"} {
			r.lost(&message{topic: topic}, false, mqtt.ErrLost)
		}
		r.turned(mqtt.ErrLost)
	}
	if len(r.topics) > 0 || r.row < rowOfLosses {
		t.Errorf("held: %v after %d losses in a row", r.topics, r.row)
	}
	if r.turned(nil); r.row != 0 {
		t.Error("a turn that went well does not end the row")
	}
	r.lost(&message{topic: "a"}, true, errors.New("another failure"))
	if len(r.topics) > 0 {
		t.Errorf("held after another failure: %v", r.topics)
	}
}
