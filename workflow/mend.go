package workflow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lifecycle"
)

const (
	mendLeases = 6    // after that many leases all active instances of a shard are looked at, by one of its workers
	mendPage   = 100  // of them by one script, at most
	mendFields = 1000 // activities, timers and other fields of them by one script, about
)

// errDeleted is why an activity failed that nobody will ever run.
var errDeleted = errors.New("its entry was deleted from the queue by somebody, and what it was to do with it")

// mender finds instances of a shard whose tasks or activities an operator deleted from the queues, and queues whose pausing or resuming was not brought to its end.
type mender struct {
	w    *Worker
	s    *shard
	poke chan struct{} // holds one when a reader found entries gone
}

func (m *mender) run(ctx context.Context) error {
	every := mendLeases * m.w.opts.Lease
	poked := false
	for wait := m.w.opts.Lease; ; wait = every {
		poked = lifecycle.Pause(ctx, wait/2+rand.N(wait/2), m.poke) || poked
		if ctx.Err() != nil {
			return nil
		}
		done, err := m.mend(ctx, every, poked)
		if poked = poked && !done; err != nil && ctx.Err() == nil {
			m.s.c.log.Warn("workflow: instances were not looked at, that is done later", "shard", m.s.n, "error", err)
			if poked {
				lifecycle.Poke(m.poke)
				lifecycle.Sleep(ctx, fireAgain)
			}
		}
	}
}

// mend finishes what others began with queues and looks at all active instances, if it is time to, or at once.
func (m *mender) mend(ctx context.Context, every time.Duration, atOnce bool) (done bool, err error) {
	rdb, b := m.s.c.rdb, m.s.c.rdb.B()
	turn := rdb.Do(ctx, b.Set().Key(m.s.keys.Mended()).Value(m.w.opts.Name).Nx().Px(every).Build()).Error()
	if turn != nil && (!rueidis.IsRedisNil(turn) || !atOnce) {
		if rueidis.IsRedisNil(turn) {
			turn = nil // another has done it lately
		}
		return false, turn
	}
	pauses := m.s.finishPauses(ctx)
	for cursor := uint64(0); ; {
		page, err := rdb.Do(ctx, b.Zscan().Key(m.s.keys.Active()).Cursor(cursor).Count(mendPage).Build()).AsScanEntry()
		if err != nil {
			return false, errors.Join(pauses, err)
		}
		for at := 0; at < len(page.Elements); at += 2 * mendPage { // a small index is scanned as a whole
			if err := m.page(ctx, page.Elements[at:min(at+2*mendPage, len(page.Elements))]); err != nil {
				return false, errors.Join(pauses, err)
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return true, pauses
		}
	}
}

// page looks at some instances: members of the index, each with its score.
func (m *mender) page(ctx context.Context, members []string) error {
	var words []string
	for i := 0; i < len(members); i += 2 {
		one := ParseInstance(members[i])
		words = append(words, one.ID, one.Execution)
	}
	for cursor := "0"; len(words) > 0; {
		done, next, err := m.some(ctx, cursor, words)
		if err != nil {
			return err
		}
		if done == 0 && next == "0" {
			return fmt.Errorf("mend.lua does not come past %s", words[0])
		}
		cursor, words = next, words[2*done:]
	}
	return nil
}

// some looks at instances, each an id and an execution, as far as one script goes: at done of them, and at the next one up to a cursor.
func (m *mender) some(ctx context.Context, cursor string, words []string) (done int, next string, err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	args := append([]string{m.s.base, strconv.Itoa(mendFields), cursor}, words...)
	reply, err := mendScript.Run(call, m.s.c.rdb, []string{m.s.keys.Active()}, args...).ToArray()
	if err != nil {
		return 0, "", err
	}
	if len(reply) < 2 {
		return 0, "", fmt.Errorf("mend.lua replied %d words, want 2 or more", len(reply))
	}
	n, err := reply[0].AsInt64()
	if err != nil || n < 0 || 2*n > int64(len(words)) {
		return 0, "", fmt.Errorf("mend.lua looked at %d instances of %d: %w", n, len(words)/2, err)
	}
	if next, err = reply[1].ToString(); err != nil {
		return 0, "", err
	}
	for _, f := range reply[2:] {
		finding, err := f.AsStrSlice()
		if err == nil {
			err = m.found(ctx, finding)
		}
		if err != nil {
			return 0, "", err
		}
	}
	return int(n), next, nil
}

// found says what was put right, or puts it right; words are those of mend.lua.
func (m *mender) found(ctx context.Context, words []string) error {
	switch len(words) {
	case 3:
		m.s.c.log.Error("workflow: an instance does not go on, somebody wrote a key of it: takt workflow check says what to do", "instance", words[0], "key", words[2])
	case 4:
		m.s.c.log.Error("workflow: the task of an instance was deleted from its queue by somebody, it is queued again", "instance", words[0], "queue", words[3])
	case 5:
		return m.gone(ctx, words)
	}
	return nil
}

// gone lets an activity fail; words are those of mend.lua.
func (m *mender) gone(ctx context.Context, words []string) error {
	id, x, ref, queue, entry := words[0], words[1], words[2], words[3], words[4]
	n, err := strconv.ParseInt(ref, 10, 64)
	if err != nil {
		return err
	}
	m.s.c.log.Error("workflow: an activity was deleted from its queue by somebody, it has failed", "instance", id, "queue", queue, "ref", ref)
	text, err := m.w.failed(&ActivityTask{Instance: Instance{ID: id, Execution: x}, Queue: queue, Event: Event{Ref: n}}, errDeleted)
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return goneScript.Run(call, m.s.c.rdb, []string{m.s.keys.Run(id)}, m.s.base, id, x, ref, queue, entry, text).Error()
}
