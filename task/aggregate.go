package task

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/task/internal/wire"
)

var (
	gatherScript  = script.Load(files, "task/gather", "flush")
	collectScript = script.Load(files, "task/collect", "flush")
)

// Aggregate makes many small tasks one piece of work: tasks of the type with the same Key are collected in Redis and handed to one call of the handler, which
// is made with HandleBatch. Each of them still ends on its own, see HandleBatch. The type has no result (None), no Locks, and is not unique; its tasks cannot be
// delayed or children of a group, and all have the type's priority and size. T is that of the Type.
type Aggregate[T any] struct {
	Key      func(T) string // what is collected together, up to 128 bytes; a pure function. nil = all tasks of the type
	MaxSize  int            // most tasks of one call; 0 = 100, at most 1000. They also fit Options.MaxMessage together
	MaxDelay time.Duration  // longest wait of the first for others; 0 = 1 s
	Grace    time.Duration  // wait after the last for more; 0 = MaxDelay alone counts
}

const (
	defaultMaxSize  = 100
	maxMaxSize      = 1000
	defaultMaxDelay = time.Second
	batchLabel      = "_batch" // on aggregates: their argument is their members
	collectPage     = 100      // collections of one pipeline
)

// aggregation is what Aggregate says.
type aggregation struct {
	maxSize         int
	maxDelay, grace time.Duration
	of              func(args any) string // key of a task
	args            any                   // a *T
}

func (a Aggregate[T]) applyType(s *spec) {
	s.aggregate = &aggregation{maxSize: a.MaxSize, maxDelay: a.MaxDelay, grace: a.Grace, args: (*T)(nil), of: func(args any) string {
		if a.Key == nil {
			return ""
		}
		return a.Key(args.(T))
	}}
}

// complete fills in defaults and checks a against the rest of the type. args is a *T of the type, none says that its result is None.
func (a *aggregation) complete(s *spec, args any, none bool) error {
	switch {
	case reflect.TypeOf(a.args) != reflect.TypeOf(args):
		return fmt.Errorf("task: Aggregate is of a %T, the arguments are a %T", a.args, args)
	case a.maxSize < 0 || a.maxSize > maxMaxSize:
		return fmt.Errorf("task: Aggregate.MaxSize %d: want 1 to %d, 0 for %d", a.maxSize, maxMaxSize, defaultMaxSize)
	case a.maxDelay < 0:
		return fmt.Errorf("task: Aggregate.MaxDelay %v is negative", a.maxDelay)
	case a.grace < 0:
		return fmt.Errorf("task: Aggregate.Grace %v is negative", a.grace)
	case !none:
		return errors.New("task: Aggregate: aggregated tasks have no result, want None")
	case s.unique != nil:
		return errors.New("task: Aggregate: aggregated tasks are not Unique")
	case s.locks != nil:
		return errors.New("task: Aggregate: aggregated tasks have no Locks")
	}
	a.maxSize = cmp.Or(a.maxSize, defaultMaxSize)
	a.maxDelay = cmp.Or(a.maxDelay, defaultMaxDelay)
	return nil
}

// collect says into which collection the task of s goes.
func (s *submission) collect(t *spec, args any) error {
	key := t.aggregate.of(args)
	switch {
	case key != "" && checkName("Aggregate.Key", key) != nil:
		return checkName("Aggregate.Key", key)
	case s.delayed:
		return fmt.Errorf("task: %s is aggregated: In and At do not fit", t.name)
	case s.unique != "":
		return fmt.Errorf("task: %s is aggregated: UniqueKey does not fit", t.name)
	case s.priority != t.priority || s.size != t.size:
		return fmt.Errorf("task: %s is aggregated: its priority and size are those of its type", t.name)
	}
	s.collection = colons.Replace(t.name) + ":" + key
	return nil
}

// colons keeps ("a:b", "c") apart from ("a", "b:c").
var colons = strings.NewReplacer("%", "%25", ":", "%3A")

// argsOf is what stands around an aggregate's members: the key before and the key after its arguments, which are none.
var argsOf = []byte("\xa9task_args\x90\xabtask_kwargs")

// gatherCall is gather.lua for one task.
func (c *Client) gatherCall(ctx context.Context, t *spec, s *submission) (script.Call, error) {
	s.meta.Enqueued = time.Now().UnixMilli()
	b, err := c.encode(t, s)
	if err != nil {
		return script.Call{}, err
	}
	queue := queueOf(s.priority, s.size)
	id := ownName + s.id + ":batch"
	if len(id) > maxName {
		id = ownName + digest([]byte(s.id)) + ":batch"
	}
	aggregate := wire.Message{ID: id, Name: t.name, Labels: t.labels.Set(batchLabel, true), Meta: wire.Meta{Enqueued: s.meta.Enqueued}}
	around, err := aggregate.Append(nil)
	if err != nil {
		return script.Call{}, fmt.Errorf("task: %s: %w", t.name, err)
	}
	at := bytes.Index(around, argsOf) + len("\xa9task_args") // no text holds these bytes, for they are not UTF-8
	head, tail := append(around[:at:at], 0x91), around[at+1:]
	k := c.keys
	known := k.TaskCollecting()
	if s.key != "" {
		known = k.TaskKnown(s.key)
	}
	stream, err := c.target(ctx, queue)
	if err != nil {
		return script.Call{}, submitError(t, err)
	}
	a := t.aggregate
	return script.Call{
		Keys: []string{k.TaskCollecting(), k.TaskCollected(s.collection), stream, k.TaskDelayed(), known},
		Args: []string{rueidis.BinaryString(b), s.collection, rueidis.BinaryString(head), rueidis.BinaryString(tail), string(queue),
			strconv.Itoa(a.maxSize), ms(a.maxDelay), ms(a.grace), strconv.Itoa(c.opts.MaxMessage), s.id, ms(c.opts.KnownFor), t.name},
	}, nil
}

// collectDue submits the aggregates of the collections that are due. Three round trips, none if there are none.
func (p *promoter) collectDue(ctx context.Context) (moved int64, err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	k, b := p.c.keys, p.c.rdb.B()
	until := strconv.FormatFloat(float64(p.now().UnixMicro())/1e6, 'f', 6, 64)
	due, err := p.c.rdb.Do(call, b.Zrange().Key(k.TaskCollecting()).Min("-inf").Max(until).Byscore().Limit(0, collectPage).Build()).AsStrSlice()
	if err != nil || len(due) == 0 {
		return 0, err
	}
	asks := make(rueidis.Commands, len(due))
	for i, name := range due {
		asks[i] = b.Hget().Key(k.TaskCollected(name)).Field("queue").Build()
	}
	calls := make([]script.Call, len(due))
	for i, r := range p.c.rdb.DoMulti(call, asks...) {
		queue, _ := r.ToString() // what is not one, collect.lua finds
		if Queue(queue).validate() != nil {
			queue = string(queueOf(Normal, Medium))
		}
		stream, err := p.c.target(call, Queue(queue))
		if err != nil {
			return 0, err
		}
		calls[i] = script.Call{Keys: []string{k.TaskCollecting(), k.TaskCollected(due[i]), stream}, Args: []string{due[i], queue}}
	}
	for i, r := range collectScript.RunMulti(call, p.c.rdb, calls) {
		reply, failed := r.AsStrSlice()
		switch {
		case failed != nil:
			err = failed
		case len(reply) == 1 && reply[0] == "broken":
			p.log.Error("task: what was collected cannot be read", "key", k.TaskCollected(due[i]))
		case len(reply) == 1 && reply[0] == "ok":
			moved++
		}
	}
	return moved, err
}
