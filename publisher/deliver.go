package publisher

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// put publishes the topics of the jobs, page by page. An error means that the outcome of some is unknown.
func (t *term) put(work context.Context, jobs []*job) error {
	for len(jobs) > 0 {
		page, err := t.page(work, jobs)
		if err != nil {
			return err
		}
		if err := t.putPage(work, page); err != nil {
			return err
		}
		for _, j := range page {
			j.Job, j.Response = nil, nil
		}
		jobs = jobs[len(page):]
	}
	return nil
}

// page is the first of the jobs, at least one, with the documents that they need: as many as are read at once, so that memory is
// bounded by bytes.
func (t *term) page(work context.Context, jobs []*job) ([]*job, error) {
	ready := func() []*job {
		n := slices.IndexFunc(jobs, (*job).unread)
		if n < 0 {
			return jobs
		}
		return jobs[:n]
	}
	if page := ready(); len(page) > 0 {
		return page, nil
	}
	var unread []*jobstore.RetainedJob
	for _, j := range jobs[:min(len(jobs), pageSize)] {
		if j.unread() {
			unread = append(unread, j.RetainedJob)
		}
	}
	if err := t.store.RetainedDocuments(work, unread); err != nil {
		return nil, err
	}
	for _, r := range unread {
		if !r.Read {
			break
		}
		if err := t.buryJob(work, r); err != nil {
			return nil, err
		}
	}
	return ready(), nil
}

// unread says that the job order is to be published and its documents are still to be read.
func (j *job) unread() bool { return !j.Read && (j.order == put || j.result == put) }

// putPage publishes the topics of the jobs, all in flight together.
func (t *term) putPage(work context.Context, jobs []*job) error {
	var messages []*message
	for _, j := range jobs {
		if err := t.puts(work, j, &messages); err != nil {
			return err
		}
	}
	if err := t.send(work, messages); err != nil {
		return err
	}
	for _, j := range jobs {
		if j.order == put {
			j.published.Refused = j.published.Order == ""
		}
	}
	return nil
}

// puts adds the messages that publish topics of one job order.
func (t *term) puts(work context.Context, j *job, all *[]*message) error {
	switch {
	case j.order != put && j.result != put, j.Err != nil:
		return nil
	case j.Job != nil && j.Job.State.IsEnd(): // it ended since the index was read; that change comes
		j.order, j.result = keep, keep
		return nil
	}
	if j.order == put {
		if j.Job == nil {
			return t.buryNow(work, j.RetainedJob, errors.New("the job order has no document"))
		}
		payload, revision, err := t.opt.orderPayload(j.Job)
		if err != nil {
			return t.buryNow(work, j.RetainedJob, err)
		}
		*all = append(*all, t.orderMessage(j, payload, revision))
	}
	if j.result == put {
		if j.Response == nil {
			return t.buryNow(work, j.RetainedJob, errors.New("the job response has no document"))
		}
		payload, err := isa95.Marshal(j.Response)
		if err != nil {
			return t.buryNow(work, j.RetainedJob, err)
		}
		*all = append(*all, t.resultMessage(j, payload, j.ResultRevision))
	}
	return nil
}

// remove deletes the topics of the jobs that the broker's state indexes do not name; shown are these indexes. A topic that a later
// commit made an index name again stays: that change comes. While the broker refuses an index, nothing that it named before is deleted.
func (t *term) remove(work context.Context, jobs []*job, shown map[isa95.Scope]*jobstore.ScopeIndex) error {
	var (
		messages []*message
		removed  []*job
	)
	for _, j := range jobs {
		if !j.removes() {
			continue
		}
		index := shown[j.Scope]
		if index == nil {
			continue
		}
		now := index.Job(j.JobOrderID)
		if now != nil && !gone(now) && (gone(j.RetainedJob) || t.opt.hasResult(now, now.Done)) {
			continue
		}
		removed = append(removed, j)
		if j.order == remove {
			messages = append(messages, t.orderMessage(j, nil, ""))
		}
		if j.result == remove {
			messages = append(messages, t.resultMessage(j, nil, ""))
		}
	}
	if err := t.send(work, messages); err != nil {
		return err
	}
	for _, j := range removed {
		s := jobstore.SettledJob{Job: j.RetainedJob, Published: j.published, Gone: gone(j.RetainedJob) && !j.waits}
		if s.Gone || j.published != j.noted {
			t.removed[j.Scope] = append(t.removed[j.Scope], s)
		}
	}
	return nil
}

// send publishes messages and keeps what the broker took and what it refused.
func (t *term) send(work context.Context, messages []*message) error {
	if err := t.deliver(work, messages); err != nil {
		return err
	}
	for _, m := range messages {
		if m.refusal != nil {
			m.job.waits = true
			continue
		}
		*m.published = m.revision
		t.count(func(s *Stats) { s.Topics++ })
	}
	return nil
}

func (t *term) orderMessage(j *job, payload []byte, revision string) *message {
	return &message{job: j, of: topicOf{j.Scope, j.JobOrderID}, topic: t.opt.orderTopic(j.Scope, j.JobOrderID), published: &j.published.Order, payload: payload, revision: revision}
}

func (t *term) resultMessage(j *job, payload []byte, revision string) *message {
	return &message{job: j, of: topicOf{j.Scope, j.JobOrderID}, topic: t.opt.resultTopic(j.Scope, j.JobOrderID), published: &j.published.Result, payload: payload, revision: revision}
}

// message is one retained publish.
type message struct {
	topic   string
	of      topicOf
	payload []byte // empty: delete
	user    []mqtt.UserProperty

	job       *job
	published *string // of job: gets revision when the broker has acknowledged
	revision  string

	refusal error // why the broker did not take it
}

// deliver publishes the messages, many in flight together, and waits for all acknowledgements; those that were refused before go last and
// one by one. What the broker refused has its refusal set, and what is held; any other failure is returned.
func (t *term) deliver(work context.Context, messages []*message) error {
	var usual, last []*message
	for _, m := range messages {
		switch h := t.refused.topics[m.topic]; {
		case h == nil:
			usual = append(usual, m)
		case h.trying:
			last = append(last, m)
		default:
			m.refusal = cmp.Or(h.Err, errUnproven)
		}
	}
	if err := t.transmit(work, usual, t.refused.row >= rowOfLosses); err != nil {
		return err
	}
	return t.transmit(work, last, true)
}

// transmit publishes messages, alone: one by one. Each is sent only while the lease is surely ours: a process that slept past its lease
// publishes nothing.
func (t *term) transmit(work context.Context, messages []*message, alone bool) error {
	inFlight := t.opt.InFlight
	if alone {
		inFlight = 1
	}
	var (
		senders sync.WaitGroup
		slots   = make(chan struct{}, inFlight)
		failed  atomic.Bool
	)
	for i, m := range messages {
		slots <- struct{}{}
		if failed.Load() {
			messages = messages[:i]
			break
		}
		senders.Go(func() {
			defer func() { <-slots }()
			if m.refusal = jobstore.ErrLeaseLost; t.lease.Valid() {
				m.refusal = t.retainer.Retain(work, m.topic, m.payload, t.opt.RetainedTTL, m.user...)
			}
			if m.refusal != nil && !isRefusal(m.refusal) {
				failed.Store(true)
			}
		})
	}
	senders.Wait()
	var fatal error
	for _, m := range messages {
		switch err := m.refusal; {
		case err == nil:
			if m.job == nil && t.refused.topics[m.topic] != nil {
				t.nextAudit = time.Time{} // deletions waited for this state index
			}
			if proven := t.refused.taken(m); proven != nil {
				t.refusal(proven)
			}
		case isRefusal(err):
			t.refusal(t.refused.refuse(m, err))
		default:
			t.refused.lost(m, alone, err)
			fatal = cmp.Or(fatal, err)
		}
	}
	return fatal
}

// isRefusal says whether the broker has refused a message, or surely would, so that another may still be taken.
func isRefusal(err error) bool {
	var (
		refusal *mqtt.PublishError
		size    *mqtt.SizeError
		message *mqtt.MessageError
	)
	return errors.As(err, &refusal) || errors.As(err, &size) || errors.As(err, &message)
}

// refusal counts one, and logs it if it is the first of its topic.
func (t *term) refusal(h *held) {
	t.count(func(s *Stats) { s.Refused++ })
	if !h.logged {
		t.log.Error("publisher: the broker refused a retained message; it will be tried again", "topic", h.Topic, "bytes", h.Bytes, "err", h.Err)
	}
	h.logged = true
}
