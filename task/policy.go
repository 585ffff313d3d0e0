package task

import (
	"fmt"
	"math/rand/v2"
)

// Policy says which of the three priorities of a size comes first, each time that a task is fetched or started.
type Policy interface {
	validate() error
	// order is called once for each size; what it returns, for every task.
	order() func() []int
}

// Strict starts nothing while something of a higher priority waits. Lower priorities may starve.
type Strict struct{}

// Weighted gives each priority that has something waiting its share of starts. The zero value is 16 : 4 : 1, the default policy of a Worker.
type Weighted struct{ Realtime, Normal, Background int }

var (
	strict = [][]int{{0, 1, 2}}
	first  = [][]int{{0, 1, 2}, {1, 0, 2}, {2, 0, 1}} // each priority before the others
)

func (Strict) validate() error     { return nil }
func (Strict) order() func() []int { return func() []int { return strict[0] } }

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
func (w Weighted) order() func() []int {
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
