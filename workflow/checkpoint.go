package workflow

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// checkpoint is cp in the words of complete.lua, without what is to be fetched.
func (t *WorkflowTask) checkpoint(cp Checkpoint) ([]string, error) {
	after, err := t.after(cp, time.Now())
	if err != nil {
		return nil, err
	}
	doc, err := encodeOver(t.doc, t.more, after)
	if err != nil {
		return nil, err
	}
	if cp.State == Active && !t.more {
		t.q.w.documents.keep(doc, after)
	}
	c, s, now := t.q.s.c, t.q.s, time.Now()
	remove, gate, gateShard, home := "0", "", "", ""
	if cp.RemoveContinued && cp.State == ContinuedAsNew {
		remove = "1"
	}
	if t.Gate != nil {
		g := c.of(t.Gate.Key)
		gate, gateShard, home = t.Gate.Key, g.name(s), s.name(g)
	}
	args := []string{s.base, t.entry.Token(), t.entry.Consumer(), t.entry.ID, t.ID, t.Execution, t.q.name, t.cursor,
		string(cp.State), doc, string(cp.Outcome), strconv.Itoa(t.came), c.opts.keep(), remove, gate, gateShard, home}
	args = append(args, strconv.Itoa(len(cp.Executed)))
	for i, e := range cp.Executed {
		text, err := c.encode("", e)
		if err != nil && slices.ContainsFunc(t.Events, func(came Event) bool { return came.ID == e.ID }) {
			// It was accepted as it came, perhaps by a process with another limit, and is larger in the history by its number.
			text, err = encodeWithin(math.MaxInt, "", e)
		}
		if err != nil {
			return nil, within("Checkpoint.Executed", i, err)
		}
		if came, ok := t.later[e.ID]; ok {
			if text, err = over(came, text); err != nil {
				return nil, err
			}
		}
		args = append(args, text)
	}
	args = append(args, strconv.Itoa(len(cp.Activities)))
	for i, a := range cp.Activities {
		if a.Queue == "" {
			a.Queue = t.Queue
		}
		if err := checkQueue(".Queue", a.Queue); err != nil {
			return nil, within("Checkpoint.Activities", i, err)
		}
		text, err := c.encode(".Event", a.Event)
		if err != nil {
			return nil, within("Checkpoint.Activities", i, err)
		}
		args = append(args, strconv.FormatInt(a.Event.Ref, 10), a.Queue, text)
	}
	args = append(args, strconv.Itoa(len(cp.Timers)))
	for i, e := range cp.Timers {
		if e.VisibleAt == nil {
			return nil, within("Checkpoint.Timers", i, &EventError{".VisibleAt", "", "must be set: it is when the timer is due"})
		}
		text, err := c.encode("", e)
		if err != nil {
			return nil, within("Checkpoint.Timers", i, err)
		}
		// From now, by this clock: a timer takes as long as was asked for, whatever the server's clock says.
		args = append(args, strconv.FormatInt(e.Ref, 10), strconv.FormatInt(max((e.VisibleAt.Sub(now)+time.Millisecond-1).Milliseconds(), 0), 10), text)
	}
	args = append(args, strconv.Itoa(len(cp.Canceled)))
	for _, ref := range cp.Canceled {
		args = append(args, strconv.FormatInt(ref, 10))
	}
	args = append(args, strconv.Itoa(len(cp.Messages)))
	for i, m := range cp.Messages {
		to, words, err := t.words(fmt.Sprintf("Checkpoint.Messages[%d]", i), m)
		if err != nil {
			return nil, err
		}
		args = append(append(args, to.name(s), strconv.Itoa(len(words))), words...)
	}
	return args, nil
}

// after is the document after a checkpoint.
func (t *WorkflowTask) after(cp Checkpoint, now time.Time) (Info, error) {
	after := t.Info
	after.State = cp.State
	switch cp.State {
	case Active:
	case ContinuedAsNew, Finished:
		after.Outcome, after.Ended, after.LastEvent = cp.Outcome, &now, ""
		next := cp.next(t.ID)
		if cp.State == ContinuedAsNew && (next == nil || next.Instance.Execution == t.Execution) {
			return after, &EventError{"Checkpoint.Messages", strconv.Itoa(len(cp.Messages)), "must start another execution of the instance if State is " + string(ContinuedAsNew)}
		}
	default:
		return after, &EventError{"Checkpoint.State", string(cp.State), fmt.Sprintf("must be %s, %s or %s", Active, ContinuedAsNew, Finished)}
	}
	for i, e := range cp.Executed {
		// An executor that knows more than Redis, since Redis lost some of it, is found out here. A history may begin with any number.
		begins := i == 0 && after.LastSequence == 0
		if e.Sequence != after.LastSequence+1 && !begins {
			return after, &EventError{fmt.Sprintf("Checkpoint.Executed[%d].Sequence", i), strconv.FormatInt(e.Sequence, 10), fmt.Sprintf("must be %d, one more than that before it in the history", after.LastSequence+1)}
		}
		after.LastSequence = e.Sequence
		if !cp.State.Ended() {
			after.LastEvent = e.ID
		}
	}
	return after, nil
}

// next is the start of the execution that takes over from one of instance id; nil = there is none.
func (cp *Checkpoint) next(id string) *Start {
	for _, m := range cp.Messages {
		if m.Start != nil && m.Start.Instance.ID == id && cp.State == ContinuedAsNew {
			return m.Start
		}
	}
	return nil
}

// words are those of act for a message, and the shard that it goes to.
func (t *WorkflowTask) words(field string, m Message) (*shard, []string, error) {
	c := t.q.s.c
	if (m.Event == nil) == (m.Start == nil) {
		return nil, nil, &EventError{field, "", "must have an Event or a Start"}
	}
	if m.Start != nil {
		if err := c.checkStart(field+".Start", *m.Start); err != nil {
			return nil, nil, err
		}
		to := c.of(m.Start.Instance.ID)
		words, err := c.startWords(to, *m.Start, t.q.s, t.Instance, m.Rejected)
		return to, words, err
	}
	if err := m.To.check(field + ".To"); err != nil {
		return nil, nil, err
	}
	text, err := c.encode(field+".Event", *m.Event)
	if err != nil {
		return nil, nil, err
	}
	return c.of(m.To.ID), []string{"event", m.To.ID, m.To.Execution, text, "0"}, nil
}
