package bench

import (
	"math"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{3, 1, 2}, 2},
		{[]float64{4, 1, 2, 3}, 2.5},
		{[]float64{100, 1, 1}, 1},
	} {
		if got := Median(c.values); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("the median of nothing is a number")
	}
	values := []float64{3, 1, 2}
	if Median(values); values[0] != 3 {
		t.Error("median sorts the values of its caller")
	}
}

func TestQuantile(t *testing.T) {
	var hundred []time.Duration
	for i := 100; i > 0; i-- {
		hundred = append(hundred, time.Duration(i))
	}
	for _, c := range []struct {
		values []time.Duration
		q      float64
		want   time.Duration
	}{
		{hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 1, 100}, {hundred, 0, 1}, {hundred, 0.985, 99},
		{[]time.Duration{7}, 0.5, 7}, {[]time.Duration{7}, 0.99, 7},
		{[]time.Duration{1, 2}, 0.5, 1}, {[]time.Duration{1, 2}, 0.51, 2}, {[]time.Duration{3, 1, 2}, 0.99, 3},
		{nil, 0.5, 0},
	} {
		if got := Quantile(c.values, c.q); got != c.want {
			t.Errorf("Quantile(%d values, %v) = %v, want %v", len(c.values), c.q, got, c.want)
		}
	}
}

func TestAdvantage(t *testing.T) {
	for _, c := range []struct {
		ours, theirs float64
		lower        bool
		want         float64
	}{
		{150, 10, false, 15}, {10, 150, false, 10.0 / 150},
		{2, 10, true, 5}, {10, 2, true, 0.2},
		{1, 0, false, math.NaN()}, {0, 1, true, math.NaN()}, {-1, 5, true, math.NaN()}, {math.NaN(), 1, false, math.NaN()}, {1, math.NaN(), true, math.NaN()},
	} {
		got := Advantage(c.ours, c.theirs, c.lower)
		if got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("Advantage(%v, %v, %v) = %v, want %v", c.ours, c.theirs, c.lower, got, c.want)
		}
	}
}
