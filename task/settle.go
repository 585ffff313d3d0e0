package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/stream"
	"github.com/taktworks/takt/task/internal/wire"
)

var (
	settleScript = script.Load(files, "task/settle")
	startScript  = script.Load(files, "task/start")
)

// Labels of groups, as the page has them.
const (
	groupLabel    = "group_id"
	callbackLabel = "callback_group_id"
)

// concernsOthers says that a task's end is more than its own: it frees a key, counts in a group, or answers somebody who wanted it cancelled.
func (o *outcome) concernsOthers() bool {
	if !o.terminal() || o.members != nil {
		return false
	}
	m := &o.run.msg
	return m.Meta.Unique != "" || m.Meta.Start != "" || o.run.grouped() || o.kind == Cancelled || o.run.worker.control.isCancelled(o.task)
}

// settle ends tasks that concern others, each in a script of its own, all in one pipeline. A batch that fails in part is settled again as a whole, which is
// harmless.
func (w *Worker) settle(ctx context.Context, b stream.Batch, entries []*stream.Entry) error {
	calls := make([]script.Call, len(entries))
	for i, e := range entries {
		var err error
		if calls[i], err = w.settleCall(ctx, b, e); err != nil {
			return err
		}
	}
	var failed error
	for len(calls) > 0 {
		var again []script.Call // with the stream that they asked for
		var whose []*stream.Entry
		for i, r := range settleScript.RunMulti(ctx, w.client.rdb, calls) {
			queue, err := w.settled(effect(entries[i]), r)
			if err == nil && queue != "" {
				if calls[i], err = w.follow(ctx, calls[i], queue); err == nil {
					again, whose = append(again, calls[i]), append(whose, entries[i])
				}
			}
			if err != nil && (failed == nil || errors.Is(err, stream.ErrLost)) {
				failed = err
			}
		}
		calls, entries = again, whose
	}
	return failed
}

// settled judges a reply of settle.lua. queue != "": nothing is done, for the stream of that queue is missing.
func (w *Worker) settled(o *outcome, r rueidis.RedisResult) (queue string, err error) {
	reply, err := r.ToArray()
	if err != nil {
		return "", fmt.Errorf("task: settle: %w", err)
	}
	if len(reply) == 2 && text(reply[0]) == "queue" {
		return text(reply[1]), nil
	}
	if err := judgeReply("settle.lua", reply); err != nil {
		return "", err
	}
	if len(reply) == 3 {
		w.told(o, &reply[2])
	}
	return "", nil
}

// groupKeys are the keys of settle.lua for a task in a group, groupArgs the arguments, without the stream and the queue of a pool.
const (
	groupKeys = 24
	groupArgs = 17
)

// follow is the call with the stream of the pool in which what follows a group is to run. What is no queue is taken for the default one, so that it runs at all.
func (w *Worker) follow(ctx context.Context, call script.Call, queue string) (script.Call, error) {
	q := Queue(queue)
	if q.validate() != nil {
		q = queueOf(Normal, Medium)
	}
	key, err := w.client.target(ctx, q)
	call.Keys = append(call.Keys[:groupKeys], key)
	call.Args = append(call.Args[:groupArgs], queue)
	return call, err
}

// told logs what the settled task's group had to say, where that is not as it should be.
func (w *Worker) told(o *outcome, reply *rueidis.RedisMessage) {
	word, _ := reply.ToString()
	group := o.run.msg.Labels.String(groupLabel)
	switch word {
	case "gone":
		w.log.Warn("task: a child of a group ended after the group had expired", "task", o.task, "group", group, "outcome", o.kind)
	case "broken":
		w.log.Error("task: a child of a group ended, but the keys of the group are not as Takt writes them", "task", o.task, "group", group, "outcome", o.kind)
	case "uncounted":
		w.log.Warn("task: a child failed of a group that a peer made, its callback never comes", "task", o.task, "group", group)
	}
}

// settleCall is settle.lua for one entry.
func (w *Worker) settleCall(ctx context.Context, b stream.Batch, e *stream.Entry) (script.Call, error) {
	k, o := w.client.keys, effect(e)
	m := &o.run.msg
	keys := make([]string, 10, groupKeys+1)
	copy(keys, []string{b.Heartbeat, b.Stream, k.TaskAwaited(), k.TaskCounters(), k.TaskDead(), k.TaskDeadIndex(), k.TaskCancelled(), b.Stream, b.Stream, b.Stream})
	if o.result != nil {
		keys[7] = k.TaskResult(o.task)
	}
	if m.Meta.Unique != "" {
		keys[8] = k.TaskUnique(m.Meta.Unique)
	}
	if m.Meta.Start != "" {
		keys[9] = k.TaskUnique(m.Meta.Start)
	}
	args := []string{b.Token, b.Group, e.ID, o.task, k.TaskAwaitChannel(""), k.TaskControl(),
		string(o.kind) + " type " + o.name, string(o.kind) + " queue " + string(o.queue),
		ms(o.keep), rueidis.BinaryString(o.result), rueidis.BinaryString(o.letter)}
	gid := m.Labels.String(groupLabel)
	if gid == "" || o.kind == Done && o.run.handed.Load() { // the inner group's callback has the slot now
		return script.Call{Keys: keys, Args: args}, nil
	}
	slot, child := m.ID, m.ID
	if m.Meta.Slot > 0 {
		slot = strconv.FormatInt(m.Meta.Slot-1, 10)
		child = childID(gid, int(m.Meta.Slot-1))
	}
	keys = append(keys, k.GroupState(gid), k.GroupDone(gid), k.GroupRemaining(gid), k.GroupCallback(gid), k.GroupResult(gid, child))
	for _, q := range queues {
		keys = append(keys, w.client.streams[q])
	}
	args = append(args, slot)
	if o.kind == Done {
		args = append(args, "1", rueidis.BinaryString(orNil(o.value)))
	} else {
		args = append(args, "0", rueidis.BinaryString(groupError(o)))
	}
	callback, queue := "", ""
	if m.Meta.Slot == 0 && o.kind == Done {
		var err error
		if callback, queue, err = w.peerCallback(ctx, gid); err != nil {
			return script.Call{}, err
		}
	}
	return script.Call{Keys: keys, Args: append(args, groupMark(gid), callback, queue)}, nil
}

func orNil(value []byte) []byte {
	if len(value) == 0 {
		return []byte{0xc0}
	}
	return value
}

// groupError is how a child failed, as its group keeps it.
func groupError(o *outcome) []byte {
	said := describe(o.kind, o.err)
	said.Message, said.Traceback = clip(said.Message, maxHistoryText), ""
	result := wire.Result{IsErr: true, Err: said}
	raw, err := result.Append(nil)
	if err != nil { // it has texts only, which are cleaned
		panic(err)
	}
	return raw
}

// peerCallback is the callback of a group that a Python peer made, as a message and its queue. "" = its record is gone, or is none. One round trip.
func (w *Worker) peerCallback(ctx context.Context, gid string) (message, queue string, err error) {
	raw, err := w.client.rdb.Do(ctx, w.client.rdb.B().Get().Key(w.client.keys.GroupCallback(gid)).Build()).AsBytes()
	var refused *rueidis.RedisError
	if err != nil && !errors.As(err, &refused) {
		return "", "", fmt.Errorf("task: callback of group %s: %w", gid, err)
	}
	if err != nil { // nil, or a key of another type
		return "", "", nil
	}
	record, err := wire.DecodeCallback(raw)
	if err != nil {
		w.log.Error("task: the callback of a group cannot be read", "group", gid, "error", err)
		return "", "", nil
	}
	p, s := Normal, Medium
	if h := w.handlers[record.Class]; h != nil {
		p, s = h.spec.priority, h.spec.size
	}
	m := wire.Message{ID: callbackID(gid), Name: record.Class, Args: record.Args, Labels: wire.Labels{
		{Key: "priority", Value: string(p)}, {Key: "size", Value: string(s)}, {Key: callbackLabel, Value: gid}}}
	b, err := m.Append(nil)
	if err != nil {
		w.log.Error("task: the callback of a group cannot be submitted", "group", gid, "error", err)
		return "", "", nil
	}
	return rueidis.BinaryString(b), queueWord(queueOf(p, s)), nil
}

// queueWord is how a group remembers the queue of what follows it: where settle.lua finds its stream, from 1, or the queue itself if it is that of a pool.
func queueWord(q Queue) string {
	if i := slices.Index(queues, q); i >= 0 {
		return strconv.Itoa(i + 1)
	}
	return string(q)
}

// releaseStart frees the key that kept others out until this task began. Should that fail, its end does it.
func (r *run) releaseStart(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	key := r.worker.client.keys.TaskUnique(r.msg.Meta.Start)
	if err := startScript.Run(call, r.worker.client.rdb, []string{key}, r.msg.ID).Error(); err != nil {
		r.worker.log.Debug("task: the start key stays until the task ends", "task", r.msg.ID, "key", r.msg.Meta.Start, "error", err)
		return
	}
	r.msg.Meta.Start = ""
}

// cancels says whether somebody wants the task cancelled, or all children of its group.
func (c *control) cancels(m *wire.Message) bool { return marked(c.current.Load().cancelled, m) }

func marked(ids map[string]bool, m *wire.Message) bool {
	if len(ids) == 0 {
		return false
	}
	if ids[m.ID] {
		return true
	}
	gid := m.Labels.String(groupLabel)
	return gid != "" && ids[groupMark(gid)]
}

// groupMark stands among the cancel marks for all children of a group. No id has a control character, so it is that of no task.
func groupMark(gid string) string { return "\x01" + gid }
