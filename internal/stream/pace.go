package stream

import (
	"sync/atomic"
	"time"
)

// pace is how long handlers took lately.
type pace struct {
	sum, count atomic.Int64 // since the last look; nanoseconds

	mean time.Duration // the reader's; 0 = not known yet
	seen time.Time     // when a handler was last known to have ended
}

func (p *pace) took(d time.Duration) {
	p.sum.Add(int64(d))
	p.count.Add(1)
}

// ahead is how many entries slots handlers get done in d, at most limit. It is for the reader alone.
func (p *pace) ahead(d time.Duration, slots, limit int) int {
	now := time.Now()
	n := p.count.Swap(0)
	sum := time.Duration(p.sum.Swap(0))
	switch {
	case n > 0:
		latest := max(sum/time.Duration(n), 1)
		if p.mean == 0 || latest > p.mean {
			p.mean = latest // slower counts at once, faster by and by
		} else {
			p.mean = (p.mean*3 + latest) / 4
		}
		p.seen = now
	case p.mean == 0:
		return 0
	default:
		p.mean = max(p.mean, min(now.Sub(p.seen), d*time.Duration(slots)+1)) // nothing ended for that long
	}
	return int(min(d*time.Duration(slots)/max(p.mean, 1), time.Duration(limit)))
}
