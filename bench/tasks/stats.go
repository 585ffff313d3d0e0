package main

import (
	"math"
	"slices"
	"time"
)

// median is the middle of the values, of an even number the mean of the two in the middle; of none NaN.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	middle := len(s) / 2
	if len(s)%2 == 1 {
		return s[middle]
	}
	return (s[middle-1] + s[middle]) / 2
}

// percentile is the smallest value that at least the part q of all values does not exceed (nearest rank); of none 0.
func percentile(values []time.Duration, q float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q * float64(len(s))))
	return s[max(rank, 1)-1]
}

// advantage says how many times better ours is than theirs; NaN if one is not known or zero.
func advantage(ours, theirs float64, lowerIsBetter bool) float64 {
	if lowerIsBetter {
		ours, theirs = theirs, ours
	}
	if !(theirs > 0) || !(ours > 0) {
		return math.NaN()
	}
	return ours / theirs
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// perTask is a time for all of n tasks in microseconds for each; a negative one is not known.
func perTask(d time.Duration, n int) float64 {
	if d < 0 || n == 0 {
		return math.NaN()
	}
	return d.Seconds() * 1e6 / float64(n)
}
