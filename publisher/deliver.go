package publisher

import (
	"context"
	"errors"
	"sync"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// publishJobs publishes and deletes the topics of the jobs, all in flight together, and notes what the broker acknowledged.
// An error means that the outcome of some is unknown.
func (t *term) publishJobs(work context.Context, jobs []*job) error {
	var messages []*message
	for _, j := range jobs {
		if err := t.messages(work, j, &messages); err != nil {
			return err
		}
	}
	err := t.deliver(work, messages)
	if err != nil {
		return err
	}
	for _, m := range messages {
		topic := topicOf{m.job.Scope, m.job.JobOrderID}
		if m.refusal != nil {
			m.job.refused = true
			t.refusal(topic, m)
			continue
		}
		*m.published = m.revision
		t.stats.topics.Add(1)
	}
	for _, j := range jobs {
		if !j.refused {
			t.refused.settled(topicOf{j.Scope, j.JobOrderID})
		}
	}
	return nil
}

// messages adds the messages of one job order.
func (t *term) messages(work context.Context, j *job, all *[]*message) error {
	order := &message{job: j, topic: t.opt.orderTopic(j.Scope, j.JobOrderID), published: &j.published.Order}
	result := &message{job: j, topic: t.opt.resultTopic(j.Scope, j.JobOrderID), published: &j.published.Result}
	if j.order == remove {
		*all = append(*all, order)
	}
	if j.result == remove {
		*all = append(*all, result)
	}
	if j.order != put && j.result != put {
		return nil
	}
	if j.Job != nil && j.Job.State.IsEnd() {
		return nil // it ended since the index was read; that change comes
	}
	var err error
	switch {
	case j.order != put:
	case j.Job == nil:
		err = t.buryNow(work, j.RetainedJob, errors.New("the job order has no document"))
	default:
		var failed error
		if order.payload, order.revision, failed = t.opt.orderPayload(j.Job); failed != nil {
			err = t.buryNow(work, j.RetainedJob, failed)
		} else {
			*all = append(*all, order)
		}
	}
	switch {
	case j.result != put || err != nil:
	case j.Response == nil:
		err = t.buryNow(work, j.RetainedJob, errors.New("the job response has no document"))
	default:
		payload, failed := isa95.Marshal(j.Response)
		if failed != nil {
			return t.buryNow(work, j.RetainedJob, failed)
		}
		result.payload, result.revision = payload, j.ResultRevision
		*all = append(*all, result)
	}
	return err
}

// message is one retained publish.
type message struct {
	topic   string
	payload []byte // empty: delete

	job       *job
	published *string // of job: gets revision when the broker has acknowledged
	revision  string

	refusal error // why the broker did not take it
}

// deliver publishes the messages, many in flight together, and waits for all acknowledgements. What the broker refused has its
// refusal set; any other failure is returned. Each message is sent only while the lease is surely ours: a process
// that slept past its lease publishes nothing (E-P13).
func (t *term) deliver(work context.Context, messages []*message) error {
	var (
		senders sync.WaitGroup
		slots   = make(chan struct{}, t.aside.inFlight(t.opt.InFlight))
		mu      sync.Mutex
		fatal   error
	)
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if fatal == nil {
			fatal = err
		}
	}
	over := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return fatal != nil
	}
	for _, m := range messages {
		if m.refusal = t.aside.refusal(m.topic); m.refusal != nil {
			continue
		}
		slots <- struct{}{}
		if over() {
			break
		}
		senders.Go(func() {
			defer func() { <-slots }()
			if !t.lease.Valid() {
				fail(jobstore.ErrLeaseLost)
				return
			}
			err := t.retainer.Retain(work, m.topic, m.payload, t.opt.RetainedTTL)
			switch {
			case err == nil:
				t.aside.taken(m.topic)
			case refused(err):
				m.refusal = err
				t.aside.refused(m.topic, err)
			default:
				t.aside.lost(m.topic, err)
				fail(err)
			}
		})
	}
	senders.Wait()
	return fatal
}

// refused says whether the broker has refused a message, or surely would, so that another may still be taken (E-P19, E-P20).
func refused(err error) bool {
	var (
		refusal *mqtt.PublishError
		size    *mqtt.SizeError
		message *mqtt.MessageError
	)
	return errors.As(err, &refusal) || errors.As(err, &size) || errors.As(err, &message)
}

// refusal notes one.
func (t *term) refusal(topic topicOf, m *message) {
	t.stats.refused.Add(1)
	if t.refused.add(topic) {
		t.log.Error("publisher: the broker refused a retained message; it will be tried again", "topic", m.topic, "bytes", len(m.payload), "err", m.refusal)
	}
}
