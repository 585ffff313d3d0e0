package schedule

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/rfc3339"
)

// MinEvery is the shortest interval that Every takes.
const MinEvery = time.Millisecond

type every struct {
	d      time.Duration
	anchor time.Time // zero: none of its own
}

// Every gives the slots anchor + n × d for n = 0, 1, 2, …, in real time: days on which clocks change make no difference.
// It looks at the option Anchor alone. It panics if d is shorter than MinEvery; Parse returns that as an Error.
func Every(d time.Duration, opts ...Option) Schedule {
	if d < MinEvery {
		panic(fmt.Sprintf("schedule: every %v: must be at least %v", d, MinEvery))
	}
	e := every{d: d}
	if o := collect(opts); !o.anchor.IsZero() {
		e.anchor = anchorAt(o.anchor)
	}
	return e
}

func (e every) Next(after time.Time) (time.Time, bool) {
	anchor := e.origin()
	if after.Before(anchor) {
		return anchor, true
	}
	if after.After(lastAnchor) {
		return time.Time{}, false
	}
	return after.Round(0).UTC().Add(e.d - e.past(after)), true
}

// past returns how long before t the last slot was, 0 to d-1. It goes by 128 bits, as a Duration ends after 292 years.
func (e every) past(t time.Time) time.Duration {
	anchor := e.origin()
	secs, nanos := t.Unix()-anchor.Unix(), t.Nanosecond()-anchor.Nanosecond()
	if nanos < 0 {
		secs, nanos = secs-1, nanos+1e9
	}
	hi, lo := bits.Mul64(uint64(secs), 1e9)
	lo, carry := bits.Add64(lo, uint64(nanos), 0)
	return time.Duration(bits.Rem64(hi+carry, lo, uint64(e.d)))
}

func (e every) origin() time.Time {
	if e.anchor.IsZero() {
		return epoch
	}
	return e.anchor
}

func (e every) withAnchor(t time.Time) Schedule {
	if e.anchor.IsZero() {
		e.anchor = anchorAt(t)
	}
	return e
}

func (e every) String() string {
	text := "every " + shortDuration(e.d)
	if !e.anchor.IsZero() {
		text += " from " + e.anchor.Format(time.RFC3339Nano)
	}
	return text
}

// shortDuration leaves out the zeros that Duration.String ends with: 5m, not 5m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// parseEvery reads what follows the word "every".
func parseEvery(words []string) (Schedule, error) {
	if len(words) != 1 && (len(words) != 3 || words[1] != "from") {
		return nil, refuse("every", strings.Join(words, " "), "want a duration such as 90s or 1h30m, then nothing, or from and a time such as 2026-01-02T03:04:05Z")
	}
	d, err := time.ParseDuration(words[0])
	if err != nil || d < MinEvery {
		return nil, refuse("every duration", words[0], "want a duration of at least %v, such as 90s or 1h30m", MinEvery)
	}
	if len(words) == 1 {
		return Every(d), nil
	}
	anchor, err := rfc3339.Parse(words[2])
	if err != nil {
		return nil, refuse("every from", words[2], "%v", err)
	}
	return Every(d, Anchor(anchorAt(anchor))), nil
}
