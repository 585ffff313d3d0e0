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
	at  time.Time
	nth int
	do  func()
}

func (a *agenda) add(at time.Time, do func()) {
	a.added++
	heap.Push(a, item{at, a.added, do})
}

func (a *agenda) first() item { return heap.Pop(a).(item) }

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
