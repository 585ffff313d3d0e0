package task

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/stream"
)

var finishScript = script.Load(files, "task/finish")

// finish writes the outcomes of a batch: in one script those of tasks that stand alone, and one by one those that concern others.
func (w *Worker) finish(ctx context.Context, b stream.Batch) error {
	alone := make([]*stream.Entry, 0, len(b.Entries))
	var rest, blocked []*stream.Entry
	for _, e := range b.Entries {
		switch o := effect(e); {
		case o.kind == Blocked:
			blocked = append(blocked, e)
		case o.concernsOthers():
			rest = append(rest, e)
		default:
			alone = append(alone, e)
		}
	}
	if len(alone) > 0 {
		if err := w.finishAlone(ctx, b, alone); err != nil {
			return err
		}
	}
	if len(blocked) > 0 {
		if err := w.finishBlocked(ctx, b, blocked); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		if err := w.settle(ctx, b, rest); err != nil {
			return err
		}
	}
	w.ended.Add(uint64(len(b.Entries)))
	return nil
}

func effect(e *stream.Entry) *outcome { return e.Effect.(*outcome) }

// end is the end of a run with the entry that it was of.
type end struct {
	*outcome
	entry string
}

// ends appends that of o, or those of its members.
func (o *outcome) ends(all []end, entry string) []end {
	if o.members == nil {
		return append(all, end{o, entry})
	}
	for _, m := range o.members {
		all = append(all, end{m, entry})
	}
	return all
}

// finishAlone is finish.lua. One round trip.
func (w *Worker) finishAlone(ctx context.Context, b stream.Batch, entries []*stream.Entry) error {
	k := w.client.keys
	keys := make([]string, 7, 7+len(entries))
	keys[0], keys[1], keys[2], keys[3] = b.Heartbeat, b.Stream, k.TaskDelayed(), k.TaskAwaited()
	keys[4], keys[5], keys[6] = k.TaskCounters(), k.TaskDead(), k.TaskDeadIndex()
	args := make([]string, 4, 16+6*len(entries))
	args[0], args[1], args[2], args[3] = b.Token, b.Group, k.TaskAwaitChannel(""), strconv.Itoa(len(entries))
	var counts counts
	ends := make([]end, 0, len(entries))
	for _, e := range entries {
		args = append(args, e.ID)
		ends = effect(e).ends(ends, e.ID)
	}
	for _, o := range ends {
		counts.add(o.outcome)
	}
	args = counts.append(args)
	args, at := list(args)
	for _, o := range ends {
		if o.result != nil && o.terminal() {
			keys = append(keys, k.TaskResult(o.task))
			args = append(args, o.entry, o.task, ms(o.keep), rueidis.BinaryString(o.result))
		}
	}
	args[at] = strconv.Itoa((len(args) - at - 1) / 4)
	args, at = list(args)
	for _, o := range ends {
		if o.member != nil {
			args = append(args, o.entry, ms(o.delay), rueidis.BinaryString(o.member))
		}
	}
	args[at] = strconv.Itoa((len(args) - at - 1) / 3)
	args, at = list(args)
	for _, o := range ends {
		if o.kind == Dead {
			args = append(args, o.entry, o.task, rueidis.BinaryString(o.letter))
		}
	}
	args[at] = strconv.Itoa((len(args) - at - 1) / 3)
	reply, err := finishScript.Run(ctx, w.client.rdb, keys, args...).ToArray()
	if err != nil {
		return fmt.Errorf("task: finish: %w", err)
	}
	return judgeReply("finish.lua", reply)
}

// list begins a list whose length is not known yet.
func list(args []string) ([]string, int) { return append(args, "0"), len(args) }

func judgeReply(name string, reply []rueidis.RedisMessage) error {
	if len(reply) == 0 {
		return errors.New("task: " + name + " replied nothing")
	}
	word, err := reply[0].ToString()
	switch {
	case err != nil:
		return fmt.Errorf("task: %s: %w", name, err)
	case word == "lost":
		return stream.ErrLost
	case word != "ok":
		return fmt.Errorf("task: %s replied %q", name, word)
	}
	return nil
}

// counts are the counters of one batch: few, so a list does.
type counts []count

type count struct {
	name  string
	queue Queue
	kind  Outcome
	n     int
}

func (c *counts) add(o *outcome) {
	for i := range *c {
		if k := &(*c)[i]; k.name == o.name && k.kind == o.kind && k.queue == o.queue {
			k.n++
			return
		}
	}
	*c = append(*c, count{o.name, o.queue, o.kind, 1})
}

// append writes them as finish.lua wants them: by type and by queue.
func (c counts) append(args []string) []string {
	args = append(args, strconv.Itoa(2*len(c)))
	for _, k := range c {
		n := strconv.Itoa(k.n)
		args = append(args, string(k.kind)+" type "+k.name, n, string(k.kind)+" queue "+string(k.queue), n)
	}
	return args
}
