package task

import "testing"

// Each priority comes first as often as its weight says, also at every second draw, where one slot reads and starts in turn.
func TestWeightedDraws(t *testing.T) {
	const n = 40_000
	draw := Weighted{Realtime: 2, Normal: 1, Background: 1}.order()
	var share [3]int
	for range n {
		draw()
		share[draw()[0]]++
	}
	for i, want := range [3]int{n / 2, n / 4, n / 4} {
		if share[i] < want*9/10 || share[i] > want*11/10 { // more than ten deviations
			t.Errorf("%s came first %d times of %d, want about %d", Priorities()[i], share[i], n, want)
		}
	}
}
