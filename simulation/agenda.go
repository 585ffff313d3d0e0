package simulation

import (
	"container/heap"
	"time"
)

// agenda is what is to be done, the earliest first, and of what is due at the same time what was put there first.
type agenda struct {
	items []item
	added int
}

type item struct {
	at    time.Time
	nth   int
	do    func()
	needs func() bool // whether it is still to be done; nil: it is
}

func (a *agenda) add(at time.Time, do func(), needs func() bool) {
	a.added++
	heap.Push(a, item{at, a.added, do, needs})
}

// first takes the first that is still to be done; false: there is none.
func (a *agenda) first() (item, bool) {
	for a.Len() > 0 {
		if i := heap.Pop(a).(item); i.needs == nil || i.needs() {
			return i, true
		}
	}
	return item{}, false
}

func (a *agenda) Len() int      { return len(a.items) }
func (a *agenda) Swap(i, j int) { a.items[i], a.items[j] = a.items[j], a.items[i] }
func (a *agenda) Push(x any)    { a.items = append(a.items, x.(item)) }

func (a *agenda) Less(i, j int) bool {
	if !a.items[i].at.Equal(a.items[j].at) {
		return a.items[i].at.Before(a.items[j].at)
	}
	return a.items[i].nth < a.items[j].nth
}

func (a *agenda) Pop() any {
	last := a.items[len(a.items)-1]
	a.items = a.items[:len(a.items)-1]
	return last
}
