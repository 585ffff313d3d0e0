package publisher

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// wanted says what the two topics of a job order shall hold, as revisions; "" = nothing. A result is given only of a job that
// is over: one that was written before its job ended waits for the end, and what the change was that brought
// us here does not matter.
func (o Options) wanted(j *jobstore.RetainedJob) jobstore.Published {
	if !j.Listed || j.Want.Gone || j.Err != nil {
		return jobstore.Published{}
	}
	want := jobstore.Published{Order: o.orderRevision(j.Want.Order, stateText(j.Want.State))}
	if state, err := isa95.ParseState(j.Want.State); err == nil && state.Clearable() {
		want.Result = j.Want.Result
	}
	return want
}

// hasResult is what the state index says: the broker has acknowledged result/{id}.
func (o Options) hasResult(j *jobstore.RetainedJob, done jobstore.Published) bool {
	want := o.wanted(j)
	return want.Result != "" && done.Result == want.Result
}

// shown is what the state index shows of what the broker has of a job order.
type shown struct{ listed, hasResult bool }

func (o Options) shows(j *jobstore.RetainedJob, done jobstore.Published) shown {
	return shown{!gone(j) && listed(done), o.hasResult(j, done)}
}

// listed says that the state index names the job order: once the broker has its order topic, or will not have it.
func listed(done jobstore.Published) bool { return done.Order != "" || done.Refused }

// orderRevision is the revision of order/{id}: the form of the payload counts.
func (o Options) orderRevision(order, state string) string {
	if o.OrderPayload == OrderWithState {
		return order + "/" + state
	}
	return order
}

// stateText joins the names of a state as the index has it, known to us or not.
func stateText(state []isa95.StateElement) string {
	var names []string
	for _, e := range state {
		if e.StateText.Text != "" {
			names = append(names, e.StateText.Text)
		}
	}
	return strings.Join(names, "_")
}

// orderPayload is the content of order/{id} and its revision.
func (o Options) orderPayload(job *jobstore.StoredOrder) (payload []byte, revision string, err error) {
	order, err := job.Text()
	if err != nil {
		return nil, "", err
	}
	revision = o.orderRevision(jobstore.Revision(order), job.State.String())
	if o.OrderPayload == Order {
		return order, revision, nil
	}
	payload, err = isa95.Marshal(isa95.JobOrderAndState{JobOrder: job.JobOrder, State: job.State.Elements()})
	return payload, revision, err
}

// orderRevisionOf is the revision of what a broker has as order/{id}; "" if it is nothing that we publish.
func (o Options) orderRevisionOf(payload []byte) string {
	if o.OrderPayload == Order {
		return jobstore.Revision(payload)
	}
	var both isa95.JobOrderAndState
	if isa95.Unmarshal(payload, &both) != nil || both.JobOrder == nil {
		return ""
	}
	order, err := isa95.Marshal(both.JobOrder)
	if err != nil {
		return ""
	}
	return o.orderRevision(jobstore.Revision(order), stateText(both.State))
}

// named says whether the state index names a job order: not one in EndState, whose entry cannot be read, or whose topic is still
// to come.
func named(j *jobstore.RetainedJob) bool {
	_, err := isa95.ParseJobOrderID(string(j.JobOrderID))
	return err == nil && j.Err == nil && !j.Want.Gone && listed(j.Done)
}

// entry is a job order in the state index.
func (o Options) entry(j *jobstore.RetainedJob) isa95.StateIndexEntry {
	state := j.Want.State
	if state == nil {
		state = []isa95.StateElement{}
	}
	return isa95.StateIndexEntry{JobOrderID: string(j.JobOrderID), State: state, HasResult: o.hasResult(j, j.Done)}
}

// What stands before and after the entries of an encoded index.
const (
	beforeJobs = `,"jobs":[`
	afterJobs  = "]}"
)

// join encodes x, an index without entries, with those of jobs, which are in the order of joborder:list.
func (o Options) join(x isa95.StateIndex, jobs []*jobstore.RetainedJob) ([]byte, error) {
	head, err := x.Encode(o.StateIndexKeys)
	if err != nil {
		return nil, err
	}
	size := len(head)
	for _, j := range jobs {
		if j.Encoded == nil {
			if j.Encoded, err = o.encodeEntry(x, j); err != nil {
				return nil, err
			}
		}
		size += len(j.Encoded) + 1
	}
	payload := make([]byte, 0, size)
	payload = append(payload, bytes.TrimSuffix(head, []byte(afterJobs))...)
	first := len(payload)
	for _, j := range jobs {
		if len(j.Encoded) == 0 {
			continue
		}
		if len(payload) > first {
			payload = append(payload, ',')
		}
		payload = append(payload, j.Encoded...)
	}
	return append(payload, afterJobs...), nil
}

// encodeEntry is a job order as it stands in index x, empty if it stands in none.
func (o Options) encodeEntry(x isa95.StateIndex, j *jobstore.RetainedJob) ([]byte, error) {
	if !named(j) {
		return []byte{}, nil
	}
	x.Jobs = []isa95.StateIndexEntry{o.entry(j)}
	payload, err := x.Encode(o.StateIndexKeys)
	if err != nil {
		return nil, err
	}
	_, entry, _ := bytes.Cut(payload, []byte(beforeJobs))
	return bytes.Clone(bytes.TrimSuffix(entry, []byte(afterJobs))), nil
}

// content tells two state indexes apart, whatever their seq and time.
type content [sha256.Size]byte

// contentOf is the content of an encoded index: of what comes after seq, scope and time. No text within can look like the name of the
// member, for its quotes would be escaped.
func contentOf(payload []byte) content {
	_, jobs, _ := bytes.Cut(payload, []byte(`,"jobs":`))
	return sha256.Sum256(jobs)
}

// publishedAt is RFC 3339 with microseconds and the offset spelled out.
func publishedAt(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000-07:00") }
