package task

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// A task of a type that is paused or not enabled is looked at again after an eighth of its age, between these. So a large backlog costs little, and a task that has just come begins
// soon after its type is resumed.
const (
	soonestLook = 5 * time.Second
	latestLook  = time.Minute
)

// PauseType stops tasks of a type from being started, in all workers, at once or after five seconds; what runs goes on. Tasks of the type that workers come upon are delayed, by five seconds
// to a minute each time, so that tasks of other types pass. It counts as no attempt. The name need not be known to any program. A second call changes nothing. One round trip.
func (c *Client) PauseType(ctx context.Context, name string) error {
	at := strconv.FormatInt(time.Now().UnixMilli(), 10)
	return c.orderType(ctx, "pause", name, c.rdb.B().Hsetnx().Key(c.keys.TaskControl()).Field(pauseType+name).Value(at).Build())
}

// ResumeType undoes PauseType. What was delayed runs within a minute. One round trip.
func (c *Client) ResumeType(ctx context.Context, name string) error {
	return c.orderType(ctx, "resume", name, c.rdb.B().Hdel().Key(c.keys.TaskControl()).Field(pauseType+name).Build())
}

func (c *Client) orderType(ctx context.Context, what, name string, change rueidis.Completed) error {
	if err := checkName("name", name); err != nil {
		return err
	}
	if err := c.tellWorkers(ctx, change); err != nil {
		return fmt.Errorf("task: %s type %q: %w", what, name, err)
	}
	return nil
}

// pausedTypes are the names of the types that are paused or, be it for one VO, not enabled, sorted. A configuration that cannot be read enables all.
func pausedTypes(fields map[string]string) []string {
	set := make(map[string]bool)
	for name := range parseOrders(fields).types {
		set[name] = true
	}
	if config, err := ParseConfig([]byte(fields[configField])); err == nil {
		look := func(name, vo string) {
			if !config.For(name, vo).IsEnabled() {
				set[name] = true
			}
		}
		for name := range config.Common {
			look(name, "")
		}
		for vo, of := range config.VO {
			for name := range of {
				look(name, vo)
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// park is the outcome of a task whose type is paused or not enabled.
func (r *run) park() *outcome {
	age := r.serverTime().Sub(r.enqueued())
	return r.again(Parked, jitter(min(max(age/8, soonestLook), latestLook)), nil)
}
