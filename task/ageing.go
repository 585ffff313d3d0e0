package task

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/stream"
)

// age keeps what StrictWithAgeing must know: whether the oldest waiting task of a priority has waited too long. It looks a few times per MaxWait, and
// not at all under another policy.
func (w *Worker) age(ctx context.Context) {
	p, ok := w.opts.Policy.(StrictWithAgeing)
	if !ok {
		return
	}
	tick := time.NewTicker(max(min(p.maxWait()/8, 10*time.Second), 5*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for size, a := range w.ageing {
			oldest, err := w.oldest(ctx, size, p.maxWait())
			if err != nil {
				w.log.Debug("task: waiting times are not known", "size", size, "error", err)
			}
			a.oldest.Store(int32(oldest))
		}
	}
}

// oldest is the index of the priority whose head has waited longest, if that is longer than maxWait; 0 if none has. Two round trips.
func (w *Worker) oldest(ctx context.Context, size Size, maxWait time.Duration) (index int, err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	b := w.client.rdb.B()
	cmds := rueidis.Commands{b.Time().Build()}
	for _, p := range Priorities() {
		cmds = append(cmds, b.XinfoGroups().Key(w.client.keys.TaskStream(string(queueOf(p, size)))).Build())
	}
	replies := w.client.rdb.DoMulti(call, cmds...)
	clock, err := replies[0].AsIntSlice()
	if err != nil || len(clock) != 2 {
		return 0, errors.Join(err, errors.New("TIME says nothing"))
	}
	now := time.Unix(clock[0], clock[1]*int64(time.Microsecond))
	cmds = cmds[:0]
	for i, p := range Priorities() {
		g, err := parseGroup(replies[i+1], w.client.keys.TaskGroup())
		if err != nil && !stream.IsNoGroup(err) {
			return 0, err
		}
		cmds = append(cmds, b.Xrange().Key(w.client.keys.TaskStream(string(queueOf(p, size)))).Start(g.undelivered()).End("+").Count(1).Build())
	}
	longest := maxWait
	for i, r := range w.client.rdb.DoMulti(call, cmds...) {
		head, err := r.AsXRange()
		if err != nil {
			return 0, err
		}
		if len(head) == 0 {
			continue
		}
		if waited := now.Sub(entryTime(head[0].ID)); waited > longest {
			longest, index = waited, i
		}
	}
	return index, nil
}
