package publisher

import (
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// looked is where to look in one batch: the changed job orders by scope, each once, in the order of their first change.
type looked struct {
	scopes  []isa95.Scope
	jobs    map[isa95.Scope][]isa95.JobOrderID
	seen    map[topicOf]bool
	again   map[topicOf]bool      // refused before: published although noted as published
	letters []jobstore.DeadLetter // entries that name nothing that could be published
	last    string                // id of the last entry, "" if there was none
}

type topicOf struct {
	scope isa95.Scope
	job   isa95.JobOrderID // "" = the state index
}

func newLooked() *looked {
	return &looked{jobs: make(map[isa95.Scope][]isa95.JobOrderID), seen: make(map[topicOf]bool), again: make(map[topicOf]bool)}
}

func (l *looked) empty() bool { return l.last == "" && len(l.scopes) == 0 }

// change adds one entry of the change stream. What kind of change it was does not matter. Names are checked again:
// entries of other programs, and of times before the check, may hold any.
func (l *looked) change(c jobstore.ChangeEntry) {
	l.last = c.ID
	bury := func(err error) {
		l.letters = append(l.letters, jobstore.DeadLetter{
			Scope: string(c.Scope), JobOrderID: string(c.JobOrderID), Entry: c.ID, Reason: err.Error(),
		})
	}
	if _, err := isa95.ParseScope(string(c.Scope)); err != nil {
		bury(err)
	} else if _, err := isa95.ParseJobOrderID(string(c.JobOrderID)); err != nil {
		bury(err)
	} else {
		l.look(c.Scope, c.JobOrderID)
	}
}

func (l *looked) look(scope isa95.Scope, job isa95.JobOrderID) {
	if _, known := l.jobs[scope]; !known {
		l.scopes = append(l.scopes, scope)
		l.jobs[scope] = []isa95.JobOrderID{}
	}
	if t := (topicOf{scope, job}); job != "" && !l.seen[t] {
		l.seen[t] = true
		l.jobs[scope] = append(l.jobs[scope], job)
	}
}

// drop forgets a scope.
func (l *looked) drop(scope isa95.Scope) { delete(l.jobs, scope) }

// queries asks for everything, with documents.
func (l *looked) queries() []jobstore.RetainedQuery {
	var q []jobstore.RetainedQuery
	for _, scope := range l.scopes {
		if jobs, ok := l.jobs[scope]; ok && len(jobs) > 0 {
			q = append(q, jobstore.RetainedQuery{Scope: scope, JobOrderIDs: jobs})
		}
	}
	return q
}
