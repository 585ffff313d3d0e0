package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/task/internal/wire"
)

var promoteScript = script.Load(files, "task/promote")

const (
	promotePage  = 500                    // tasks of one script
	promotePoll  = 3 * time.Second        // at least that often somebody looks; who adds a delayed task tells
	promoteAgain = time.Second            // after an error
	promoteStand = 100 * time.Millisecond // how much later those look that found others to be quicker
)

// promoter moves delayed tasks to their streams when they are due. Any number of processes do it: all learn when the first is due, and those who
// find it moved already stand by a little, so that usually one asks.
type promoter struct {
	c     *Client
	log   *slog.Logger
	stand bool // others were quicker
	wake  chan struct{}

	metrics *Metrics // nil = nothing is counted
}

func newPromoter(c *Client, log *slog.Logger) *promoter {
	return &promoter{c: c, log: log, wake: make(chan struct{}, 1)}
}

// run promotes until ctx ends. Errors of Redis are outlived.
func (p *promoter) run(ctx context.Context) {
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { p.c.listen(ctx, p.c.keys.TaskDelayed(), p.wake) })
	for ctx.Err() == nil {
		wait, err := p.turn(ctx)
		if err != nil && ctx.Err() == nil {
			p.log.Warn("task: delayed tasks wait, Redis does not answer as it should", "error", err)
			wait = promoteAgain/2 + rand.N(promoteAgain/2)
		}
		lifecycle.Pause(ctx, wait, p.wake)
	}
}

// turn moves what is due and says how long nothing more will be.
func (p *promoter) turn(ctx context.Context) (time.Duration, error) {
	due, err := p.firstDue(ctx)
	if err != nil || due.IsZero() {
		return promotePoll, err
	}
	wait := due.Sub(p.now())
	if p.stand {
		wait += promoteStand + rand.N(promoteStand)
	}
	if wait > 0 {
		return min(wait, promotePoll), nil
	}
	late := p.now().Sub(due)
	moved, err := p.promote(ctx)
	p.metrics.moved(moved, late)
	p.stand = moved == 0 && !p.stand
	return 0, err
}

// now is the server's time.
func (p *promoter) now() time.Time { return p.c.clock.now() }

// firstDue is when the first delayed task is due, zero if there is none. It sets the clock, too. One round trip.
func (p *promoter) firstDue(ctx context.Context) (time.Time, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	b := p.c.rdb.B()
	sent := time.Now()
	replies := p.c.rdb.DoMulti(call, b.Time().Build(), b.Zrange().Key(p.c.keys.TaskDelayed()).Min("0").Max("0").Withscores().Build(),
		b.Zrange().Key(p.c.keys.TaskCollecting()).Min("0").Max("0").Withscores().Build())
	if err := p.c.setClock(sent, replies[0]); err != nil {
		return time.Time{}, err
	}
	var first time.Time
	for i, r := range replies[1:] {
		list, err := r.AsZScores()
		if _, refused := rueidis.IsRedisErr(err); refused && i == 1 {
			continue // a key of another type must not hold up the delayed tasks
		}
		if err != nil {
			return time.Time{}, err
		}
		if len(list) == 0 {
			continue
		}
		if due := dueOf(list[0].Score); first.IsZero() || due.Before(first) {
			first = due
		}
	}
	return first, nil
}

// promote moves what is due now, a page at a time, until nothing is.
func (p *promoter) promote(ctx context.Context) (moved int64, err error) {
	moved, failed := p.collectDue(ctx)
	for ctx.Err() == nil {
		n, full, err := p.page(ctx)
		moved += n
		if err != nil || !full {
			return moved, errors.Join(failed, err)
		}
	}
	return moved, failed
}

// page moves up to promotePage tasks. Two round trips.
func (p *promoter) page(ctx context.Context) (moved int64, full bool, err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	k := p.c.keys
	until := strconv.FormatFloat(float64(p.now().UnixMicro())/1e6, 'f', 6, 64)
	members, err := p.c.rdb.Do(call, p.c.rdb.B().Zrange().Key(k.TaskDelayed()).Min("-inf").Max(until).Byscore().Limit(0, promotePage).Build()).AsStrSlice()
	if err != nil || len(members) == 0 {
		return 0, false, err
	}
	to := p.c.targets()
	args := make([]string, 0, 4*len(members))
	for _, m := range members {
		words, err := to.route(call, m)
		if err != nil {
			return 0, false, err
		}
		args = append(args, words...)
	}
	keys := append([]string{k.TaskDelayed(), k.TaskDead(), k.TaskDeadIndex(), k.TaskBlocked()}, to.keys...)
	reply, err := promoteScript.Run(call, p.c.rdb, keys, args...).AsIntSlice()
	if err != nil {
		return 0, false, err
	}
	if len(reply) != 2 {
		return 0, false, fmt.Errorf("promote.lua replied %d", reply)
	}
	if reply[1] > 0 {
		p.log.Error("task: delayed tasks are put off for a minute, a queue is a key of another type", "tasks", reply[1])
	}
	return reply[0], len(members) == promotePage, nil
}

// route says where a delayed message goes, in the words of promote.lua: to the stream of its labels, or to the dead letters if it has none.
func (t *targets) route(ctx context.Context, member string) ([]string, error) {
	m, err := wire.Decode([]byte(member))
	q := queueOfMessage(&m)
	if err == nil {
		err = q.validate()
	}
	if err != nil {
		id := ownName + "raw:delayed:" + digest([]byte(member))
		return []string{"0", member, id, rueidis.BinaryString(rawLetter(err, []byte(member)))}, nil
	}
	if err := t.add(ctx, q); err != nil {
		return nil, err
	}
	blocked := ""
	if m.Meta.Blocked > 0 {
		blocked = m.ID
	}
	return []string{t.index(q), member, blocked, ""}, nil
}
