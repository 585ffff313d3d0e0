package jobstore

import (
	"bytes"

	"github.com/taktworks/takt/internal/recent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
)

// recallBytes is the memory for running job orders as this process read or wrote them last.
const recallBytes = 16 << 20

// running is a job order in execution, or whose result waits for its MES, as it stood in Redis when this process read or wrote it last. It is never changed.
type running struct {
	job       *StoredOrder // nil: another process has changed it
	execution *recipe.Execution

	jobDoc, executionDoc []byte
	keys                 orderKeys

	alone int // commits of this process since another one changed the order, at most trusted
}

// trusted is from when on an order is decided on without reading it: when nothing is known of another process that changes it, or after two commits in a row without one.
// Where two processes have the answers of one order in turn, each would have a commit refused each time.
const trusted = 2

// size is about what r takes. Most of it is decoded, elements of a job order with few members above all.
func (r *running) size() int {
	return 4*(len(r.jobDoc)+len(r.executionDoc)) + 256*bytes.Count(r.jobDoc, []byte("{")) + len(r.keys.job) + len(r.keys.execution) + 512
}

// orderKeys are the keys of a job order and of its execution.
type orderKeys struct{ job, execution string }

// orderKeys makes the keys of an order, unless it is remembered.
func (s *Store) orderKeys(id isa95.JobOrderID) orderKeys {
	if known := s.recall.of(id); known != nil {
		return known.keys
	}
	return orderKeys{s.keys.JobOrder(string(id)), s.keys.SfcExecution(string(id))}
}

// recall remembers running job orders: they are not decoded again while their bytes stay the same, and a decision whose commit compares these bytes
// need not read them at all.
type recall struct {
	recent *recent.Cache[isa95.JobOrderID, *running]
	limit  int // of all, in bytes
}

func newRecall(limit int) recall {
	return recall{recent.New[isa95.JobOrderID, *running](limit), limit}
}

func (c recall) of(id isa95.JobOrderID) *running {
	r, _ := c.recent.Get(id)
	return r
}

// keep remembers r, or forgets the order if nothing was started, or it is cleared, or is so large that it would take the place of many.
func (c recall) keep(id isa95.JobOrderID, r *running) {
	size := r.size()
	if r.job == nil || r.execution == nil || r.job.State.IsEnd() || size > c.limit/16 {
		c.recent.Drop(id)
		return
	}
	c.recent.Put(id, r, size)
}

// changed: another process wrote the order, or it is not known whether this one did.
func (c recall) changed(id isa95.JobOrderID) {
	if known := c.of(id); known != nil {
		r := &running{keys: known.keys}
		c.recent.Put(id, r, r.size())
	}
}

// Recall returns a job order in execution as this process read or wrote it last, without asking Redis; nil if it does not remember it. Another process may
// have changed it since: then Commit returns ErrConflict, and the order is forgotten. So it is good for a decision that ends in a Commit, and for no other. It has
// neither mailboxes nor the response.
func (s *Store) Recall(id isa95.JobOrderID) *Snapshot {
	r := s.recall.of(id)
	if r == nil || r.alone < trusted || r.execution.Terminal() {
		return nil
	}
	return &Snapshot{
		JobOrderID: id, Scope: r.job.Scope, Job: r.job, Execution: r.execution, Recalled: true,
		keys: r.keys, read: []stringRead{{key: r.keys.job, value: r.jobDoc}, {key: r.keys.execution, value: r.executionDoc}},
	}
}

// rememberRead remembers both documents of a running job order, as Load read them; before is what was remembered of it when they were asked for.
func (s *Store) rememberRead(snap *Snapshot, before *running) {
	id := snap.JobOrderID
	known := s.recall.of(id)
	same := known != nil && snap.Job == known.job && snap.Execution == known.execution
	if same || known != before { // this process wrote it meanwhile, after it was read
		return
	}
	is := &running{job: snap.Job, execution: snap.Execution, keys: snap.keys}
	is.jobDoc, _ = snap.doc(snap.keys.job)
	is.executionDoc, _ = snap.doc(snap.keys.execution)
	if known == nil {
		is.alone = trusted
	}
	s.recall.keep(id, is)
}

// decodeJob reads the document of a job order, unless it is the one that is remembered.
func (s *Store) decodeJob(id isa95.JobOrderID, doc []byte) (*StoredOrder, error) {
	if known := s.recall.of(id); known != nil && known.job != nil && bytes.Equal(known.jobDoc, doc) {
		return known.job, nil
	}
	return s.opt.Schemas.decodeOrder(s.keys.JobOrder(string(id)), doc)
}

// decodeExecution reads the execution of a job order, unless it is the one that is remembered.
func (s *Store) decodeExecution(id isa95.JobOrderID, doc []byte) (*recipe.Execution, error) {
	if known := s.recall.of(id); known != nil && known.execution != nil && bytes.Equal(known.executionDoc, doc) {
		return known.execution, nil
	}
	x, err := recipe.DecodeExecution(doc)
	if err != nil {
		return nil, &DocumentError{Key: s.keys.SfcExecution(string(id)), Err: err}
	}
	return x, nil
}

// wrote remembers what a commit has made of a running job order.
func (w *writer) wrote() {
	id := w.snap.JobOrderID
	is := &running{job: w.snap.Job, execution: w.snap.Execution, keys: w.snap.keys, alone: trusted}
	is.jobDoc, _ = w.snap.doc(w.snap.keys.job)
	is.executionDoc, _ = w.snap.doc(w.snap.keys.execution)
	if known := w.store.recall.of(id); known != nil {
		is.alone = min(known.alone+1, trusted)
	}
	if t := w.change.Transition; t != nil {
		if t.Order != nil || w.snap.Job == nil { // of another shape than what is read
			w.store.recall.recent.Drop(id)
			return
		}
		job := *w.snap.Job
		job.State, job.Event, job.Station, job.text = w.state, w.event, w.stationAfter(), w.text
		is.job, is.jobDoc = &job, w.jobDoc
	}
	if x := w.change.Execution; x != nil {
		is.execution, is.executionDoc = x, w.executionDoc
	}
	w.store.recall.keep(id, is)
}
