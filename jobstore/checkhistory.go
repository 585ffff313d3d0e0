package jobstore

import (
	"bytes"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/invariant"
	"github.com/taktworks/takt/isa95"
)

// histories compares what the history of each order leads to with the order and its execution.
func (c *checker) histories() {
	starts := invariant.All(c.Pass, "jobhistorystart:{id}", invariant.Text)
	entries := func(b rueidis.Builder, key string) (rueidis.Completed, func(rueidis.RedisResult) ([]rueidis.XRangeEntry, error)) {
		return b.Xrange().Key(key).Start("-").End("+").Build(), rueidis.RedisResult.AsXRange
	}
	invariant.Each(c.Pass, "jobhistory:{id}", entries, func(key, id string, list []rueidis.XRangeEntry) {
		if !c.lives(id) {
			if c.stays(key) {
				c.Add(key, nextDelete, "belongs to no job order, and never expires")
			}
			return
		}
		r := c.store.History(isa95.JobOrderID(id))
		if start, ok := starts[id]; ok {
			list = append([]rueidis.XRangeEntry{{ID: "start", FieldValues: map[string]string{historyField: start}}}, list...)
		}
		for _, raw := range list {
			if r.past.Snapshot && !later(raw.ID, r.past.ID) {
				continue
			}
			e, err := r.entry(raw)
			if err != nil {
				c.Add(key, nextReport, "entry %s cannot be read: %v", raw.ID, err)
				return
			}
			r.past = e
		}
		c.history(key, id, &r.past)
	})
}

func (c *checker) history(key, id string, last *HistoryEntry) {
	o, x := c.jobs[id], c.executions[id]
	switch {
	case o != nil && o.State != last.State:
		c.AddAt(last.ID, key, nextReport, "ends in %s, and the order is %s", last.State, o.State)
	case x == nil: // there is none, or it is lost or unreadable, which is reported
	case last.Execution == nil || !bytes.Equal(x.Encode(), last.Execution.Encode()):
		c.AddAt(last.ID, key, nextReport, "does not lead to the execution document")
	}
}
