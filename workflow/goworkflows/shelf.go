package goworkflows

import (
	"container/list"
	"time"

	"github.com/cschleiden/go-workflows/core"
	"github.com/cschleiden/go-workflows/workflow/executor"
)

// shelf is what a Cache holds, without its lock. What its methods return is off the shelf, used by nobody, and must be closed.
type shelf struct {
	size   int
	newest map[string]*entry                 // by instance and execution
	used   map[*core.WorkflowInstance]*entry // by the instance of a task, which is another pointer for each task
	idle   *list.List                        // of *entry, that was not used for the longest time first
}

// entry is an executor in use, if it has a task, or idle, if it has a place. One in use that is not the newest of its execution any more is closed after its use.
type entry struct {
	key      string
	executor executor.WorkflowExecutor
	task     *core.WorkflowInstance
	settled  chan struct{} // closed when its use is over; nil = not known to be soon
	place    *list.Element
	since    time.Time // in that place
	seen     point     // of the history
}

// point is an event of a history: how far it was seen. After a loss of data another event may have its number.
type point struct {
	sequence int64
	id       string
}

func newShelf(size int) shelf {
	return shelf{size: size, newest: map[string]*entry{}, used: map[*core.WorkflowInstance]*entry{}, idle: list.New()}
}

func key(i *core.WorkflowInstance) string { return i.InstanceID + ":" + i.ExecutionID }

func (s *shelf) use(e *entry, task *core.WorkflowInstance) {
	if e.place != nil {
		s.idle.Remove(e.place)
		e.place = nil
	}
	e.task = task
	s.used[task] = e
}

// take takes e off the shelf, or, if it is in use, sees to it that this happens after its use.
func (s *shelf) take(e *entry) []*entry {
	if s.newest[e.key] == e {
		delete(s.newest, e.key)
	}
	if e.task != nil {
		return nil
	}
	if e.place != nil {
		s.idle.Remove(e.place)
		e.place = nil
	}
	return []*entry{e}
}

// release ends the use of e.
func (s *shelf) release(e *entry) {
	delete(s.used, e.task)
	e.task = nil
	if e.settled != nil {
		close(e.settled)
		e.settled = nil
	}
}

func (s *shelf) store(task *core.WorkflowInstance, x executor.WorkflowExecutor) (gone []*entry) {
	e := &entry{key: key(task), executor: x}
	if old := s.newest[e.key]; old != nil {
		if old.task == task && old.executor == x { // Get found it
			return nil
		}
		if old.task == task { // a task uses one
			s.release(old)
		}
		gone = s.take(old)
	}
	s.newest[e.key] = e
	s.use(e, task)
	return append(gone, s.surplus()...)
}

func (s *shelf) evict(task *core.WorkflowInstance) []*entry {
	e := s.used[task]
	if e != nil { // it says so itself
		s.release(e)
	} else if e = s.newest[key(task)]; e == nil {
		return nil
	}
	return s.take(e)
}

func (s *shelf) settle(task *core.WorkflowInstance, seen point, keep bool) []*entry {
	e := s.used[task]
	if e == nil {
		return nil
	}
	s.release(e)
	if !keep || s.newest[e.key] != e {
		return s.take(e)
	}
	e.seen, e.since = seen, time.Now()
	e.place = s.idle.PushBack(e)
	return s.surplus()
}

// seen is how far the executor of i has seen, if it is idle.
func (s *shelf) seen(i *core.WorkflowInstance) (at point, ok bool) {
	e := s.newest[key(i)]
	if e == nil || e.task != nil {
		return point{}, false
	}
	return e.seen, true
}

// forget takes an executor off the shelf that is idle and has seen what it should not.
func (s *shelf) forget(i *core.WorkflowInstance, at point) []*entry {
	if is, ok := s.seen(i); !ok || is != at {
		return nil
	}
	return s.take(s.newest[key(i)])
}

func (s *shelf) surplus() (gone []*entry) {
	for len(s.newest) > s.size && s.idle.Len() > 0 {
		gone = append(gone, s.take(s.oldest())...)
	}
	return gone
}

// expire also says when the next one is due.
func (s *shelf) expire(now time.Time, ttl time.Duration) (gone []*entry, next time.Duration) {
	for s.idle.Len() > 0 {
		e := s.oldest()
		if next = e.since.Add(ttl).Sub(now); next > 0 {
			return gone, next
		}
		gone = append(gone, s.take(e)...)
	}
	return gone, ttl
}

func (s *shelf) clear() (gone []*entry) {
	for s.idle.Len() > 0 {
		gone = append(gone, s.take(s.oldest())...)
	}
	return gone
}

func (s *shelf) oldest() *entry { return s.idle.Front().Value.(*entry) }
