package task

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/stream"
)

var (
	//go:embed park.lua
	parkLua string
	//go:embed resume.lua
	resumeLua string

	parkScript   = script.New("task/park", parkLua)
	resumeScript = script.New("task/resume", resumeLua)
)

const (
	resumePage  = 500                    // tasks of one script
	parkedAgain = 100 * time.Millisecond // until a task is looked at again that was resumed before it was parked
)

// PauseType stops tasks of a type from being started, in all workers, at once or after five seconds; what runs goes on. Tasks of the type that workers come upon are set aside, so that others
// are not held up by them. The name need not be known to anybody. A second call changes nothing. One round trip.
func (c *Client) PauseType(ctx context.Context, name string) error {
	if err := checkName("name", name); err != nil {
		return err
	}
	b, control := c.rdb.B(), c.keys.TaskControl()
	set := b.Hsetnx().Key(control).Field(pauseType + name).Value(strconv.FormatInt(time.Now().UnixMilli(), 10)).Build()
	for _, r := range c.rdb.DoMulti(ctx, set, b.Publish().Channel(control).Message("").Build()) {
		if err := r.Error(); err != nil {
			return fmt.Errorf("task: pause type %q: %w", name, err)
		}
	}
	return nil
}

// ResumeType undoes PauseType: what was set aside is due now, the first set aside first. moved says how much that is. After an error some may still be set aside: call
// it again. One round trip for 500 tasks.
func (c *Client) ResumeType(ctx context.Context, name string) (moved int, err error) {
	if err := checkName("name", name); err != nil {
		return 0, err
	}
	return c.unpark(ctx, name, pauseType+name)
}

// unpark makes all parked tasks of a type due, and deletes a field of the control hash first, if there is one.
func (c *Client) unpark(ctx context.Context, name, field string) (moved int, err error) {
	keys := []string{c.keys.TaskControl(), c.keys.TaskParked(name), c.keys.TaskDelayed()}
	for {
		n, err := resumeScript.Run(ctx, c.rdb, keys, field, strconv.Itoa(resumePage)).AsInt64()
		if err != nil {
			return moved, fmt.Errorf("task: resume type %q: %w", name, err)
		}
		if moved += int(n); n < resumePage {
			return moved, nil
		}
	}
}

// setAsideTypes are the names of the types of which tasks are set aside, sorted: of those that are paused, and of those that the configuration does not enable, be it for one VO. A configuration
// that is none enables all.
func setAsideTypes(fields map[string]string) []string {
	set := make(map[string]bool)
	for name := range parseOrders(fields).types {
		set[name] = true
	}
	if config, err := ParseConfig([]byte(fields[configField])); err == nil {
		for _, name := range configNames(config) {
			if !config.runsForAll(name) {
				set[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// parking is why a task is set aside: a field of the control hash, as long as it is there and, if sum is not "", has the value with this SHA-1.
type parking struct{ field, sum string }

// park is the outcome of a task whose type is paused.
func (r *run) park() *outcome {
	return r.setAside(parking{field: pauseType + r.msg.Name}, parkedAgain)
}

// setAside is the outcome of a task that is not to run for now. It is looked at again after delay if the reason is gone when it is written down.
func (r *run) setAside(why parking, delay time.Duration) *outcome {
	o := r.again(Parked, jitter(delay), nil)
	o.parking = &why
	return o
}

// finishParked sets tasks aside. One round trip.
func (w *Worker) finishParked(ctx context.Context, b stream.Batch, entries []*stream.Entry) error {
	k := w.client.keys
	keys := []string{b.Heartbeat, b.Stream, k.TaskDelayed(), k.TaskControl(), k.TaskCounters()}
	args := []string{b.Token, b.Group, strconv.Itoa(len(entries))}
	var counts counts
	for _, e := range entries {
		args = append(args, e.ID)
		counts.add(effect(e))
	}
	args = counts.append(args)
	for _, e := range entries {
		o := effect(e)
		keys = append(keys, k.TaskParked(o.name))
		args = append(args, e.ID, o.parking.field, o.parking.sum, ms(o.delay), rueidis.BinaryString(o.member))
	}
	reply, err := parkScript.Run(ctx, w.client.rdb, keys, args...).ToArray()
	if err != nil {
		return fmt.Errorf("task: park: %w", err)
	}
	return judgeReply("park.lua", reply)
}
