package task

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Policy says which of the three priorities of a size comes first, each time that a task is fetched or started.
type Policy interface {
	validate() error
	// order is called once for each size; what it returns, for every task.
	order(*ageing) func() []int
}

// Strict starts nothing while something of a higher priority waits. Lower priorities may starve.
type Strict struct{}

// Weighted gives each priority that has something waiting its share of starts. The zero value is 16 : 4 : 1, the default policy of a Worker.
type Weighted struct{ Realtime, Normal, Background int }

// StrictWithAgeing is Strict, but what has waited longer than MaxWait comes first. MaxWait 0 = one minute.
type StrictWithAgeing struct{ MaxWait time.Duration }

var (
	strict = [][]int{{0, 1, 2}}
	first  = [][]int{{0, 1, 2}, {1, 0, 2}, {2, 0, 1}} // each priority before the others
)

func (Strict) validate() error            { return nil }
func (Strict) order(*ageing) func() []int { return func() []int { return strict[0] } }

func (w Weighted) weights() [3]int {
	if w == (Weighted{}) {
		return [3]int{16, 4, 1}
	}
	return [3]int{w.Realtime, w.Normal, w.Background}
}

const maxWeight = 1000

func (w Weighted) validate() error {
	for i, n := range w.weights() {
		if n < 1 || n > maxWeight {
			return fmt.Errorf("task: WorkerOptions.Policy: weight %d of %s: want 1 to %d", n, Priorities()[i], maxWeight)
		}
	}
	return nil
}

// order draws the first priority by its weight. It draws, and has no rotation, for reads and starts take turns: each would see the same turns of a rotation.
func (w Weighted) order(*ageing) func() []int {
	weights := w.weights()
	total := weights[0] + weights[1] + weights[2]
	return func() []int {
		n := rand.IntN(total)
		for i, weight := range weights {
			if n -= weight; n < 0 {
				return first[i]
			}
		}
		return first[0]
	}
}

func (a StrictWithAgeing) maxWait() time.Duration {
	if a.MaxWait == 0 {
		return time.Minute
	}
	return a.MaxWait
}

func (a StrictWithAgeing) validate() error {
	if a.MaxWait < 0 {
		return fmt.Errorf("task: WorkerOptions.Policy: MaxWait %v is negative", a.MaxWait)
	}
	return nil
}

func (StrictWithAgeing) order(a *ageing) func() []int {
	return func() []int { return first[a.oldest.Load()] }
}

// ageing is what a worker knows of the waiting times of one size.
type ageing struct{ oldest atomic.Int32 } // index of the priority whose turn it is because its head has waited too long; 0 = none has
