package workflow_test

import (
	"errors"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/workflow"
)

// finish ends all that is active, and compares.
func (s *stage) finish() {
	r := s.r
	for id := range maps.Clone(s.m.paused) {
		s.must(s.clients[0].Resume(s.ctx, id))
		delete(s.m.paused, id)
	}
	for _, h := range s.acts {
		s.result(r, h, false)
	}
	s.acts = nil
	for len(s.m.active) > 0 {
		for len(s.tasks) > 0 {
			h := s.tasks[0]
			s.tasks = s.tasks[1:]
			s.complete(r, h, "ends")
		}
		if s.m.runnable() {
			s.taskAction(r)
			continue
		}
		for id := range s.m.active { // nothing waits for it: wake it up
			e := event("", 0)
			e.Type = e.ID
			s.must(s.clients[1].Signal(s.ctx, id, e))
			s.m.tell(workflow.Instance{ID: id}, modelEvent{name: e.Type, carry: true})
		}
	}
	s.compare(r)
}

func (s *stage) compare(r *rapid.T) {
	ends := map[string]int64{"started": int64(len(s.m.all))}
	for _, f := range s.m.all {
		switch {
		case f.state == "":
			ends[string(workflow.ContinuedAsNew)]++
			if _, err := s.clients[0].Info(s.ctx, f.i); !errors.Is(err, workflow.ErrNotFound) {
				r.Fatalf("%s was removed: %v", f.i, err)
			}
			continue
		case f.state == workflow.ContinuedAsNew:
			ends[string(f.state)]++
		default:
			ends[string(f.end)]++
		}
		info, err := s.clients[0].Info(s.ctx, f.i)
		s.must(err)
		if info.State != f.state || info.Outcome != f.end {
			r.Fatalf("%s is %s %s, want %s %s", f.i, info.State, info.Outcome, f.state, f.end)
		}
		h, err := s.clients[1].History(s.ctx, f.i, 0)
		s.must(err)
		var names []string
		for k, e := range h {
			if e.Sequence != int64(k)+1 {
				r.Fatalf("%s: event %d has number %d", f.i, k+1, e.Sequence)
			}
			if e.Type != workflow.EventTimerFired {
				names = append(names, nameOf(e))
			}
		}
		if !slices.Equal(names, f.history) {
			r.Fatalf("history of %s: %q, want %q", f.i, names, f.history)
		}
	}
	st, err := s.clients[0].Stats(s.ctx)
	s.must(err)
	maps.DeleteFunc(ends, func(_ string, n int64) bool { return n == 0 })
	if !maps.Equal(st.Counters, ends) || st.Active+st.Timers != 0 || len(st.Workflows)+len(st.Activities) != 0 {
		r.Fatalf("stats %+v, want %v", st, ends)
	}
	found, err := s.clients[0].Check(s.ctx, 0)
	s.must(err)
	for _, v := range found {
		r.Error(v)
	}
}
